"""Pins: which entries neither ``gc`` nor a newer entry removes."""

from __future__ import annotations

import os

from cmbench.cache.disk import disk_error, write


class EntryPins:
    """The pinned entries, as files below ``folder``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def uids(self) -> set[str]:
        """The uids of all pinned entries."""
        try:
            return set(os.listdir(self._folder))
        except OSError:
            return set()

    def add(self, uid: str, key: str) -> None:
        """Keep the entry ``uid``, whose key that is, until it is unpinned."""
        path = os.path.join(self._folder, uid)
        try:
            os.makedirs(self._folder, exist_ok=True)
            write(path, key)
        except OSError as problem:
            raise disk_error(problem, path) from None

    def remove(self, uid: str) -> None:
        """Let go of the entry ``uid``; it need not exist any more."""
        path = os.path.join(self._folder, uid)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise disk_error(problem, path) from None
