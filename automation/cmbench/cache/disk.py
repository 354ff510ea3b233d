"""Files and trees of the store: reading, writing, removing, and disk errors for users."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from cmbench.errors import Error
from cmbench.lib import locks


def remove_tree(path: str) -> None:
    """Remove a directory tree as far as that is possible, read-only folders included."""
    import shutil

    if os.path.islink(path) or not os.path.isdir(path):
        with suppress(OSError):
            os.unlink(path)
        return
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isdir(path):
        for folder, _, _ in os.walk(path):
            with suppress(OSError):
                os.chmod(folder, 0o700)
        shutil.rmtree(path, ignore_errors=True)


def read_plain_file(path: str, folder: int | None = None) -> bytes:
    """The content of a plain file, with ``path`` below the open ``folder``.

    Raises ``OSError`` where something else is there: a pipe would be waited for without an end.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    with open(handle, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", path)
        return stream.read()


def disk_error(problem: OSError, path: str, home: str = "") -> Error:
    """An ``OSError`` of the store in words a user can act on.

    With ``home``, only a path in that folder gets the advice that the cache was damaged.
    """
    # Of two files the second one is that which is written.
    named = [name for name in (problem.filename2, problem.filename, path) if isinstance(name, str)]
    path = named[0]
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return Error(
            "no-space",
            f"no space left to write {path}",
            hint="make room, or keep the cache elsewhere: `export CM_REPOS=/path/with/space`",
            context=(str(problem),),
        )
    if problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return Error(
            "not-writable",
            f"cannot write {path}: {problem.strerror}",
            hint="check its owner, or keep the cache elsewhere: `export CM_REPOS=/your/path`",
        )
    if problem.errno in locks.UNSUPPORTED[:3]:
        return Error(
            "no-locks",
            f"the file system of {os.path.dirname(path)} has no locks",
            hint="keep the cache on another one: `export CM_REPOS=/path/on/another/disk`",
        )
    odd = (errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.EISDIR, errno.ENOENT)
    return Error(
        "file-error",
        f"{path}: {problem.strerror or problem}",
        hint="a folder of the cache was replaced: check it, move away what does not "
        "belong there, and repeat the command"
        if problem.errno in odd and path.startswith(os.path.join(home or os.sep, ""))
        else "",
    )


def write_in(folder: str, path: str, text: str) -> None:
    """Write ``path``, a file in ``folder``; make the folder, which others remove while it is empty.

    Raises ``OSError``.
    """
    for _ in range(100):
        with suppress(FileNotFoundError):
            os.makedirs(folder, exist_ok=True)
            return write(path, text, sync=True)
    return write(path, text, sync=True)


def write(path: str, text: str, sync: bool = False) -> None:
    """Write a text, with ``sync`` until it is on the disk; raises ``OSError``."""
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
        if sync:
            stream.flush()
            os.fsync(stream.fileno())
