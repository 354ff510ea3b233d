"""Who is alive: runs, by the records that they hold locked, and readers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cmbench.cache import records
from cmbench.cache.disk import disk_error
from cmbench.lib import locks

_RUN = "0-"
_READER = "reader-"


class LiveRuns:
    """The runs that use the store at ``root``, and the readers of it."""

    def __init__(self, root: str) -> None:
        self.readers = records.Readers(root)
        self._folder = os.path.join(root, "staging")

    def record(self, name: str) -> str:
        """The path of the record ``name``."""
        return os.path.join(self._folder, name + ".json")

    @contextmanager
    def running(self, directory: str) -> Iterator[None]:
        """Mark the run that works in ``directory`` as alive; a later look sees when it died."""
        name = _RUN + os.path.basename(directory)
        try:
            record = self.claim(name, directory)
        except OSError as problem:
            raise disk_error(problem, directory) from None
        try:
            yield
        finally:
            with suppress(OSError):
                os.unlink(self.record(name))
            os.close(record)

    def names(self) -> list[str]:
        """The names of the runs that are alive now."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        runs = (n for n in names if n.startswith(_RUN) and not n.endswith(records.DRAFT))
        return sorted(name for name in runs if self.is_alive(name))

    def is_alive(self, name: str) -> bool:
        """Whether the run, or the reader, of that name is there; true where that is unknown."""
        try:
            if name.startswith(_READER):
                return self.readers.is_held(name.removeprefix(_READER))
            return locks.is_held(os.path.join(self._folder, name))
        except OSError:
            return True

    def present(self) -> list[str]:
        """The names of all runs and readers that are there now."""
        return [*self.names(), *(f"{_READER}{name}" for name in self.readers.held())]

    def claim(self, name: str, path: str) -> int:
        """Announce work at ``path`` by the record ``name``; return it, open and locked.

        Raises ``OSError``.
        """
        os.makedirs(self._folder, exist_ok=True)
        final = self.record(name)
        draft = final + records.DRAFT
        record = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            locks.lock(record)
            records.write_over(record, {"path": path})
            os.rename(draft, final)
        except OSError:
            os.close(record)
            with suppress(OSError):
                os.unlink(draft)
            raise
        return record
