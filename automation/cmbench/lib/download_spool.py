"""Files on their way into the cache: fetched before their steps have their turn, or by these.

A file comes into a folder of its own, under its checksum, or its address where it has none. It is
there whole and verified until its step moves it away, or as a part that the next run goes on with:
what lies in the directory of a step is swept when that step is killed, and the part would be too.

A wish that nobody has begun is an empty file: whoever removes it has the file to fetch. Without
that, a step whose turn comes before its wish would fetch the file at the same time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.lib.download import Downloaded, download
from cmbench.lib.files import existing_parent, parse_checksum, require_space


def place_of(folder: str, checksum: str, address: str = "") -> Path | None:
    """Where the file of that checksum, or else of that address, waits below ``folder``.

    ``None`` for lack of a folder, or of both. The address is hashed: it may hold secrets.
    """
    if not folder or not (checksum or address):
        return None
    if not checksum:
        return Path(folder) / f"url-{hashlib.sha256(address.encode()).hexdigest()}"
    known = parse_checksum(checksum)
    return Path(folder) / f"{known.algorithm}-{known.value}"


def take(
    urls: Sequence[str], destination: Path, folder: str, *, checksum: str = "", **how: Any
) -> Downloaded:
    """As ``download``, but by way of ``folder``, where that is on the disk of ``destination``.

    What waits there, or is on its way, is taken from any disk. The checksum is verified here,
    whoever has put the file there. A part is gone on with.
    """
    address = _address(urls, **how)
    place = place_of(folder, checksum, address)
    if place is not None:
        forgo(place)
    if place is None or destination.exists():
        return download(urls, destination, checksum=checksum, **how)
    if not _known(place) and not (address and _leads(place, destination)):
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


def _address(urls: Sequence[str], verify: bool = True, **_: Any) -> str:
    """What names a file without a checksum; empty where none of ``urls`` is of the network.

    Whose sender was not verified is never gone on with by those who insist on that.
    """
    address = next((url for url in urls if url.startswith(("http://", "https://"))), "")
    return address if verify or not address else f"unverified {address}"


def _leads(place: Path, destination: Path) -> bool:
    """Whether a file can be moved from ``place`` to ``destination`` at no cost."""
    try:
        disks = [os.stat(existing_parent(path.parent)).st_dev for path in (place, destination)]
    except OSError:
        return False
    return disks[0] == disks[1]


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
        return locks.is_held(place.with_name(place.name + ".part.lock"))
    except OSError:
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
