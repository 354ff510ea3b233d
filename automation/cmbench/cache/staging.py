"""The directory of a cache entry while one run makes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress


class Staging:
    """A private directory in which one entry is being made.

    ``record`` is the file that announces it, open and locked as ``handle``; ``clear`` removes what
    is in a directory that never became an entry.
    """

    def __init__(
        self, path: str, uid: str, record: str, handle: int, clear: Callable[[str], None]
    ) -> None:
        self.path = path
        self.uid = uid
        self._record = record
        self._handle = handle
        self._clear = clear

    def discard(self) -> None:
        """Remove everything made so far, unless it has just become an entry."""
        self._clear(self.path)
        self._release()

    def keep(self) -> None:
        """Let go of a directory whose entry has been published."""
        self._release()

    def _release(self) -> None:
        with suppress(OSError):
            os.unlink(self._record)
        os.close(self._handle)
