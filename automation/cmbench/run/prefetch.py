"""Downloads that a plan is sure of, begun before their steps have their turn.

Only what is certain to be needed and has a checksum is fetched ahead. A failure has no
consequences: the step itself retries, with all its mirrors, and reports its errors.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench.format.env import MISSING, Pending
from cmbench.plan.planned_step import PlannedStep, sure
from cmbench.plan.step_run import StepRun
from cmbench.values import immutable

if TYPE_CHECKING:
    from pathlib import Path

FETCHER = "9cdc8dc41aae437e"
"""The uid of the script that takes what was fetched ahead: download-file."""
AT_ONCE = 3
"""Transfers at a time: more of them do not make one line faster, and servers mind."""


@immutable(frozen=True, slots=True, eq=True, repr=True)
class PrefetchFile:
    """One file: its addresses in order, its checksum, its size in bytes if known."""

    urls: tuple[str, ...]
    checksum: str
    size: int | None
    verify: bool


def certain(root: PlannedStep) -> list[PrefetchFile]:
    """Return the files that steps of the plan will certainly need, without duplicates."""
    downloads: dict[str, PrefetchFile] = {}
    for planned_step in sure(root):
        if planned_step.step_run is not None:
            wish = wish_of(planned_step.step_run)
            if wish is not None:
                downloads.setdefault(wish.checksum, wish)
    return list(downloads.values())


def wish_of(step_run: StepRun) -> PrefetchFile | None:
    """Return the file that a step is sure to fetch, where it has a checksum to prove itself by."""
    if step_run.script.uid != FETCHER:
        return None
    env = _Known(step_run)
    if env.get("CM_DOWNLOAD_LOCAL_FILE_PATH") or env.is_pending("CM_DOWNLOAD_LOCAL_FILE_PATH"):
        return None
    from cmbench.lib.download_request import read_request
    from cmbench.lib.files import parse_checksum

    try:
        request = read_request(env)
        checksum, urls = request.groups[0]
        parse_checksum(checksum)
    except (Error, IndexError):
        return None  # The step itself is going to say the reason.
    folder = env.get("CM_DOWNLOAD_PATH")
    there = bool(folder) and os.path.exists(os.path.join(folder, request.name))
    if there or not all(url.startswith(("http://", "https://")) for url in urls):
        return None
    return PrefetchFile(urls, checksum, request.size, request.verify)


class _Known(dict[str, str]):
    """The values of a step that are known before its turn; all others are empty."""

    def __init__(self, step_run: StepRun) -> None:
        super().__init__()
        self._step_run = step_run

    def is_pending(self, key: str) -> bool:
        """Return whether an earlier step is going to set it."""
        return isinstance(self._step_run.env.peek(key), Pending)

    def get(self, key: str, default: Any = "") -> str:
        value = self._step_run.env.peek(key, MISSING)
        if value is MISSING or isinstance(value, Pending) or "<<<" in str(value):
            return ""
        return str(value).strip()


class _Stopped(BaseException):
    """The run is over; what has come so far stays, to be gone on with."""


class Prefetcher:
    """Fetches ``wishes`` into ``folder`` in the background; reports starts to ``note``."""

    def __init__(
        self, folder: str, wishes: list[PrefetchFile], note: Callable[[str], None]
    ) -> None:
        from cmbench.lib.download import PartialFile, place_of

        places = [place_of(folder, wish.checksum) for wish in wishes]
        parts = [PartialFile(place) for place in places if place is not None]
        self.folder = folder
        self._wishes = list(zip(parts, wishes, strict=True))[::-1]
        self._note = note
        self._over = False
        self._go = threading.Event()
        self._go.set()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin; returns at once."""
        count = len(self._wishes)
        files, them = ("1 file", "it") if count == 1 else (f"{count} files", "them")
        self._note(f"fetching {files} ahead of the steps that want {them}")
        try:
            for part, _ in self._wishes:
                part.announce()
        except OSError as problem:
            self._note(f"not fetched ahead: {problem}")
            return
        for _ in range(min(AT_ONCE, count)):
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, seconds: float = 1.0) -> None:
        """Let no transfer go on; waits for their ends, but for a server no longer than that."""
        self._over = True
        self._go.set()
        for thread in self._threads:
            thread.join(seconds / len(self._threads))
        for part, _ in list(self._wishes):
            with suppress(OSError):
                part.withdraw()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the network and the disk idle during a measurement."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    def _work(self) -> None:
        while self._rested():
            try:
                part, wish = self._wishes.pop()
            except IndexError:
                return
            try:
                # Another run, or the step itself, may be fetching it already.
                if not part.is_held() and part.begin():
                    self._fetch(part.destination, wish)
            except _Stopped:
                return
            except (Error, OSError) as problem:
                text = problem.message if isinstance(problem, Error) else str(problem)
                self._note(f"not fetched ahead: {text}")

    def _fetch(self, place: Path, wish: PrefetchFile) -> None:
        from cmbench.lib.download import download

        download(
            wish.urls,
            place,
            size=wish.size,
            checksum=wish.checksum,
            progress=self._progress,
            verify=wish.verify,
        )

    def _rested(self) -> bool:
        """Wait during a measurement; return whether the run is still going on."""
        self._go.wait()
        return not self._over

    def _progress(self, done: int, total: int | None) -> None:
        if not self._rested():
            raise _Stopped
