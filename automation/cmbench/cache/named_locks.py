"""Locks by name, of all processes that use a store: files, held by ``flock``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from cmbench.cache import records
from cmbench.cache.cache_entry import make_identity
from cmbench.cache.disk import disk_error
from cmbench.lib import locks


class NamedLocks:
    """The locks below ``folder``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def hold(
        self,
        name: str,
        waiting: Callable[[str], None],
        wait: Callable[[int], None] = locks.lock,
    ) -> Iterator[None]:
        """Hold the lock ``name`` across processes; call ``waiting`` once with its holder.

        ``wait`` waits for the lock on an open file.
        """
        path = os.path.join(self._folder, make_identity(name))
        handle = self._acquire(path, waiting, wait)
        try:
            # It only tells others for whom they wait; a full disk must not keep gc from its work.
            with suppress(OSError):
                records.write_over(handle, {"name": name})
            yield
        finally:
            locks.release(path, handle)

    def _acquire(
        self, path: str, waiting: Callable[[str], None], wait: Callable[[int], None]
    ) -> int:
        is_reported = False

        def report_and_wait(handle: int) -> None:
            nonlocal is_reported
            if not is_reported:
                waiting(records.holder(handle))
                is_reported = True
            wait(handle)

        try:
            os.makedirs(self._folder, exist_ok=True)
            return locks.acquire(path, report_and_wait)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise disk_error(problem, path) from None
