"""The database of a CM home that can only be read: SQLite writes next to a file that it reads.

So a copy is read, which is brought up to date as the file would be, and is gone afterwards.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

_ENDS = ("", "-wal")
_TRIES = 5


def cannot_be_written(folder: Path) -> bool:
    """Return whether a folder, or its nearest existing parent, may only be read."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return not os.access(existing, os.W_OK | os.X_OK)


def copy_of(file: Path) -> TemporaryDirectory[str]:
    """Return a folder with a copy of a database, where there is one; raise OSError.

    Its owner may be writing to it: then it is copied again.
    """
    made = TemporaryDirectory(prefix="cmbench-results-")
    for _ in range(_TRIES):
        before = _states(file)
        for end in _ENDS:
            target = Path(made.name, file.name + end)
            target.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{file}{end}", target)
        if _states(file) == before:
            break
    return made


def _states(file: Path) -> Sequence[tuple[int, int] | None]:
    return [_state(f"{file}{end}") for end in _ENDS]


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns
