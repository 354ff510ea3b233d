"""Files fetched before the step that wants them has its turn, and how that step takes them.

They wait in a folder under their checksums, whole and verified, or as a part that can be gone on
with. Who takes one moves it away: the folder holds only what nobody has used yet.

A wish that nobody has begun is an empty file: whoever removes it has the file to fetch. Without
that, a step whose turn comes before its wish would fetch the file at the same time.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.download import Downloaded, download
from cmbench.lib.files import parse_checksum, require_space


def place_of(folder: str, checksum: str) -> Path | None:
    """Where the file of that checksum waits below ``folder``; ``None`` for lack of either."""
    if not folder or not checksum:
        return None
    known = parse_checksum(checksum)
    return Path(folder) / f"{known.algorithm}-{known.value}"


def take(
    urls: Sequence[str], destination: Path, folder: str, *, checksum: str = "", **how: Any
) -> Downloaded:
    """As ``download``, but from ``folder`` where the file waits there or is on its way.

    The checksum is verified here, whoever has put the file there. A part is gone on with.
    """
    place = place_of(folder, checksum)
    if place is not None:
        forgo(place)
    if place is None or destination.exists() or not _known(place):
        return download(urls, destination, checksum=checksum, **how)
    try:
        done = download(urls, place, checksum=checksum, **how)
    except Error as error:
        # The user knows the file by the name that it was to have.
        error.message = error.message.replace(place.name, destination.name)
        raise
    try:
        _move(place, destination)
    except FileNotFoundError:
        # Another run has taken it for itself in this moment.
        return download(urls, destination, checksum=checksum, **how)
    source = "ahead" if done.source == "present" else done.source
    return Downloaded(destination, done.size, source)


def announce(place: Path) -> None:
    """Say that the file of ``place`` is going to be fetched ahead."""
    place.parent.mkdir(parents=True, exist_ok=True)
    _mark(place).touch()


def begin(place: Path) -> bool:
    """Whether the wish for ``place`` is still there; it is then under way for everybody."""
    with suppress(OSError):
        os.link(_mark(place), place.with_name(place.name + ".part.lock"))
    return forgo(place)


def forgo(place: Path) -> bool:
    """Take the wish for ``place`` back; whether there was one."""
    try:
        _mark(place).unlink()
    except FileNotFoundError:
        return False
    return True


def _mark(place: Path) -> Path:
    return place.with_name(place.name + ".wish")


def under_way(place: Path) -> bool:
    """Whether somebody else is bringing the file to ``place`` right now."""
    try:
        handle = os.open(place.with_name(place.name + ".part.lock"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _known(place: Path) -> bool:
    names = (place.name, place.name + ".part", place.name + ".part.lock")
    return any(place.with_name(name).exists() for name in names)


def _move(place: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(place, destination)
        return
    except FileNotFoundError:
        raise
    except OSError:
        require_space(destination, place.stat().st_size)
    draft = destination.with_name(f".{destination.name}.{os.getpid()}")
    try:
        shutil.copyfile(place, draft)
        os.replace(draft, destination)
    except OSError as problem:
        raise Error(
            "file-error", f"cannot write {destination}: {problem.strerror}", hint="look at its disk"
        ) from problem
    finally:
        draft.unlink(missing_ok=True)
    place.unlink(missing_ok=True)
