"""Locks between processes: a file, held by ``flock`` and let go when its holder ends.

A lock belongs to the open file, not to the process: two threads that have opened it for themselves
exclude each other too. Some network file systems have no locks: every call then raises ``OSError``
with one of ``UNSUPPORTED``.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

from cmbench.lib.text_files import read_or_empty

UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""How a file system says that it has no locks."""


def lock(handle: int, *, shared: bool = False) -> None:
    """Wait until the open file is ours, alone unless ``shared``; raises ``OSError``."""
    fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file unless another has it; whether it is ours.

    ``shared`` locks are held by any number at once, but not beside one that is not shared.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: str | os.PathLike[str], *, shared: bool = True) -> bool:
    """Return whether a process holds the lock of ``path``: not where there is no such file.

    A shared lock counts only where ``shared`` is false: looks do not take each other for holders.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(handle, shared=shared)
    finally:
        os.close(handle)


def acquire(path: str | os.PathLike[str], wait: Callable[[int], None] = lock) -> int:
    """Open and lock ``path``, which is made if need be; the handle is for ``release``.

    ``wait`` is called where another holds it, with the handle to lock; it returns when that is
    done, or raises to give up. Raises ``OSError``.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if not try_lock(handle):
                wait(handle)
            if is_still(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        # The last holder has removed the file: no other process would lock this one.
        os.close(handle)


def release(path: str | os.PathLike[str], handle: int) -> None:
    """Remove the file, then let go of what ``acquire`` returned (-1: nothing was locked)."""
    with suppress(OSError):
        os.unlink(path)
    if handle >= 0:
        os.close(handle)


def is_still(handle: int, path: str | os.PathLike[str]) -> bool:
    """Whether the open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


MOUNTS = "/proc/self/mountinfo"
_LOCAL = {"nfs": ("nolock", "local_lock=all", "local_lock=flock"), "lustre": ("localflock",)}


def only_here(path: str | os.PathLike[str], mounts: str = MOUNTS) -> str:
    """The mount option by which locks of a shared file system do not reach other machines.

    Empty where they do, and where nothing is known of the file system (proc(5) has the format).
    """
    real = os.path.realpath(path)
    best, option = "", ""
    for line in read_or_empty(mounts).splitlines():
        head, _, tail = line.partition(" - ")
        fields, more = head.split(), tail.split()
        if len(fields) < 6 or len(more) < 3:
            continue
        place = fields[4].replace("\\040", " ")
        if len(place) >= len(best) and f"{real}/".startswith(place.rstrip("/") + "/"):
            options = {*fields[5].split(","), *more[2].split(",")}
            kind = next((kind for kind in _LOCAL if more[0].startswith(kind)), "")
            best = place
            option = next((name for name in _LOCAL.get(kind, ()) if name in options), "")
    return option
