"""Files, programs and facts outside of a script and of the cache, as they are now.

Names are those of the reads that an entry keeps: ``PATH/NAME`` is the first program of that name in
PATH, ``PATH//DIR/NAME`` a file, ``PATH//DIR/`` the names in a folder, ``PATH//DIR/*`` all files in
it, ``PATH/~/NAME`` a file below the home folder, and ``HOST/NAME`` a fact of this machine.
"""

from __future__ import annotations

import os
import stat

from cmbench.format.env import MISSING
from cmbench.lib.text_files import sha256

IN_PATH = "PATH/"
"""How the read of a program or file begins; no variable has a name with a slash."""
HOST = "HOST/"
"""How the read of a fact of this machine begins."""
UNOBSERVED = "UNOBSERVED/"
"""How the read of a step that could not be observed begins; the reason follows."""
PROGRAM_FOLDERS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")
_SHORT = 16


def outside_now(name: str) -> str:
    """Return what the read ``name`` is now, as an entry keeps it; ``MISSING`` where it is not."""
    if name.startswith(HOST):
        known = os.uname()
        facts = {"name": known.nodename, "kernel": known.release, "machine": known.machine}
        return facts.get(name.removeprefix(HOST), MISSING)
    if name.startswith(UNOBSERVED):
        return "yes"
    target = name.removeprefix(IN_PATH)
    if target.endswith("/*"):
        return files_now(target[:-2])
    if target.endswith("/"):
        return folder_now(target)
    if "/" in target:
        return file_now(os.path.expanduser(target))
    return program_now(target)


def program_now(name: str) -> str:
    """Return the first program ``name`` in PATH."""
    for folder in search_folders(os.environ.get("PATH", os.defpath)):
        place = f"{folder}/{name}"
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return file_now(place)
    return MISSING


def search_folders(path: str) -> list[str]:
    """Return the folders of a ``PATH``; what is relative differs from folder to folder."""
    return [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]


def file_now(place: str) -> str:
    """Return path, target, size, time and mode of a file; of a folder, path and target.

    A program of the system is its path without links: what an update of the system changes in it
    does not count, or an update would make all native steps anew. Any other file is its path as
    it was used (a virtual environment has a Python of its own) and where links lead from there.
    """
    try:
        info = os.stat(place)
    except (OSError, ValueError):
        return _dangling_link(place)
    if place.startswith(PROGRAM_FOLDERS):
        return os.path.realpath(place)
    real = os.path.realpath(place)
    behind = "" if real == place else f" -> {real}"
    if stat.S_ISDIR(info.st_mode):
        return f"{place}/{behind}"
    mode = stat.S_IMODE(info.st_mode)
    return f"{place}{behind} ({info.st_size} bytes of {info.st_mtime_ns / 1e9:.6f}, mode {mode:o})"


def _dangling_link(place: str) -> str:
    try:
        return f"{place} -> {os.readlink(place)}, which is missing"
    except (OSError, ValueError):
        return MISSING


def folder_now(place: str) -> str:
    """Return how many names a folder has, and a digest of them and of their kinds."""
    try:
        with os.scandir(place) as entries:
            names = sorted([f"{entry.name}{_mark(entry)}" for entry in entries])
    except OSError:
        return MISSING
    return f"{len(names)} names, {sha256(chr(0).join(names), _SHORT)}"


def _mark(entry: os.DirEntry[str]) -> str:
    """Return the mark of the kind of a name, as far as a list of a folder has it."""
    if entry.is_symlink():
        return "@"
    return "/" if entry.is_dir(follow_symlinks=False) else ""


def files_now(folder: str) -> str:
    """Return how many files and folders a folder has, and a digest of their states."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return MISSING
    states = [_state(f"{folder}/{name}") for name in names]
    return f"{len(names)} files, {sha256(chr(0).join(states), _SHORT)}"


def _state(place: str) -> str:
    """Return what ``file_now`` does, in the short way for a plain file."""
    try:
        info = os.lstat(place)
    except OSError:
        return MISSING
    if not stat.S_ISREG(info.st_mode) or place.startswith(PROGRAM_FOLDERS):
        return file_now(place)
    return f"{place} {info.st_size} {info.st_mtime_ns} {info.st_mode}"
