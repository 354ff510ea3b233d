"""Where the pages have their results from: one open database, and pages that were made before.

A hundred thousand results take tens of milliseconds to count. A page is made once for a state of
the database, whoever asks for it, and few are made at once: more would only wait for each other,
with memory of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from cmbench.errors import Error
from cmbench_gui.explorer.columns import Columns
from cmbench_gui.explorer.table import FACETS
from cmbench_gui.site import Site, site_of
from cmbench_results.result_sources import SourceFiles
from cmbench_results.store import Store

T = TypeVar("T")

Short = Callable[[], bool]


def _never() -> bool:
    return False


CACHE_BYTES = 24 << 20
"""Bytes of pages that are kept."""
AT_ONCE = 3
FIRST_SORTS = ("-value",)
"""Beside the usual order: that of the first heading."""
FRESH_S = 1.0
"""So old may a page be."""


@dataclass(slots=True)
class ResultSource:
    """The results of a site."""

    site: Site
    _store: Store | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked: float = float("-inf")
    _version: str = ""
    _columns: tuple[str, Columns | None] = ("", None)
    _read_lock: threading.Lock = field(default_factory=threading.Lock)
    _reading: str = ""
    _pages: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _making: dict[str, asyncio.Future[bytes]] = field(default_factory=dict)
    _limit: CapacityLimiter | None = None

    def store(self) -> Store:
        """The database, with what was added since; raises ``no-database``, ``broken-results``."""
        with self._lock:
            old = time.monotonic() - self._looked > FRESH_S
            if self._store is not None and old and self._store.replaced():
                self._store.close()
                self._store = None
            if self._store is None:
                self._store = Store(SourceFiles(self.site.workspace().root), self.site.db)
            if old:
                self._store.refresh()
                for error in self._store.unread.values():
                    raise error
                self._version = self._store.version()
                self._looked = time.monotonic()
            return self._store

    def columns(self) -> Columns | None:
        """The columns in memory; ``None`` for the first page, which does not wait for them."""
        with self._lock:
            store, version = self._store, self._version
            if self._columns[0] == version:
                return self._columns[1]
            if store is not None and self._reading != version:
                self._reading = version
                threading.Thread(target=self._read, args=(store, version), daemon=True).start()
                return None
        # A request from now on waits less than the database would take.
        with self._read_lock:
            return self._columns[1] if self._columns[0] == version else None

    def _read(self, store: Store, version: str) -> None:
        # Where the database fails, the page that reads it reports so.
        with self._read_lock, contextlib.suppress(Error):
            made = Columns(store)
            made.prepare(tuple(FACETS), FIRST_SORTS)
            self._columns = (version, made)

    async def work(self, make: Callable[[], T]) -> T:
        """What ``make`` gives, in a thread; so many at once and no more."""
        if self._limit is None:
            self._limit = CapacityLimiter(AT_ONCE)
        return await to_thread.run_sync(make, limiter=self._limit)

    def known(self) -> Columns | None:
        """Return the columns in memory if they are up to date; does not wait for them."""
        return self._columns[1] if self._columns[0] == self._version else None

    async def page(self, address: str, make: Callable[[], bytes], short: Short = _never) -> bytes:
        """The page of an address, made anew where the results are others than before.

        Where ``short`` says that all is in memory it is made here and now: to hand it to a thread
        and to wait for that one takes longer.
        """
        if time.monotonic() - self._looked > FRESH_S:
            await self.work(self.store)
        key = f"{self._version} {address}"
        if key in self._pages:
            self._pages.move_to_end(key)
            return self._pages[key]
        making = self._making.get(key)
        if making is None and short():
            self._keep(key, made := make())
            return made
        if making is None:
            making = asyncio.ensure_future(self.work(make))
            self._making[key] = making
            making.add_done_callback(lambda _: self._making.pop(key, None))
        body = await asyncio.shield(making)
        self._keep(key, body)
        return body

    def _keep(self, key: str, page: bytes) -> None:
        if key not in self._pages and len(page) < CACHE_BYTES // 8:
            self._pages[key] = page
            self._bytes += len(page)
        while self._bytes > CACHE_BYTES:
            self._bytes -= len(self._pages.popitem(last=False)[1])


def source_of(request: Request) -> ResultSource:
    """The results of the site that a request is for."""
    state = request.app.state
    if not hasattr(state, "results"):
        state.results = ResultSource(site_of(request))
    source: ResultSource = state.results
    return source
