"""A place that the user names, looked at before anything is begun: is it there, can it be one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cmbench.errors import Error

if TYPE_CHECKING:
    from pathlib import Path

FILE, FOLDER, EITHER = "file", "folder", "file-or-folder"
FOLDER_TO_WRITE, FILE_TO_WRITE = "folder-to-write", "file-to-write"
FOLDER_OR_NEW = "folder-or-new"
KINDS = (FILE, FOLDER, EITHER, FOLDER_TO_WRITE, FILE_TO_WRITE, FOLDER_OR_NEW)
"""What a place must be: there, as a file or a folder, or such that a file can be written there."""
_WORDS: Mapping[str, str] = {FILE: "file", FOLDER: "folder", EITHER: "file or folder"}

STORE = ("cmbench", "v1", "store")
"""The folders below a home of CM that hold the entries of its cache."""
_MOST_LINKS = 40
"""So many links in one path the kernel follows (path_resolution(7))."""


def require_place(path: str, option: str, kind: str) -> None:
    """Raise Error unless ``path``, given as ``--option``, is what ``kind`` says, one of ``KINDS``.

    Raises ``file-not-found`` and ``file-error`` for what is to be read, ``not-writable`` for what
    is to be written.
    """
    from pathlib import Path  # Every run imports this module, and few name a place.

    # No ``resolve()``: what the user has typed is what the message says.
    place = Path(os.path.abspath(os.path.expanduser(path)))
    if kind == FOLDER_OR_NEW:
        kind = FOLDER if os.path.isdir(place) else FOLDER_TO_WRITE
    if kind in _WORDS:
        _require_there(place, option, kind)
    else:
        _require_writable(place, option, kind)
        require_own(str(place), f"name another place with --{option}")


def require_own(path: str, hint: str = "") -> None:
    """Raise ``not-writable`` where ``path``, which is written to, is a link into a cache.

    What is written into an entry of a cache is removed with it.
    """
    entry = linked_entry(path)
    if entry:
        remove = f"remove the link below {os.path.dirname(path)} that leads there"
        raise Error(
            "not-writable",
            f"{path} leads by a link into an entry of the cache, {entry}: what is written there "
            "would be removed with it by cm rm cache",
            hint=f"{remove}, or {hint}" if hint else remove,
        )


def linked_entry(path: str) -> str:
    """Return the entry of a cache into which ``path`` leads by links; empty where into none.

    A path that names the folder of the cache itself is no link.
    """
    first, *others = _resolutions(path)
    return "" if entry_of(first) else next(filter(None, map(entry_of, others)), "")


def is_cached(path: str) -> bool:
    """Return whether ``path`` lies in an entry of a cache, by its name or by links."""
    return any(map(entry_of, _resolutions(path)))


def entry_of(path: str) -> str:
    """Return the folder of the entry of a cache in which a path lies by its name; else empty."""
    parts = path.split(os.sep)
    width = len(STORE)
    for at in range(len(parts) - width):
        if tuple(parts[at : at + width]) == STORE and parts[at + width]:
            return os.sep.join(parts[: at + width + 1])
    return ""


def _resolutions(path: str) -> Iterator[str]:
    """Yield ``path`` and what it becomes as one link after the other is followed.

    Each is looked at, as the folder of the entries may be a link itself.
    """
    current = os.path.abspath(os.path.expanduser(path))
    for _ in range(_MOST_LINKS):
        yield current
        followed = _follow_first(current)
        if not followed:
            return
        current = followed


def _follow_first(path: str) -> str:
    """Return a path with its first link followed; empty where there is none."""
    parts = path.split(os.sep)
    for count in range(2, len(parts) + 1):
        above = os.sep.join(parts[:count])
        if os.path.islink(above):
            target = os.path.join(os.path.dirname(above), os.readlink(above))
            return os.path.normpath(os.path.join(target, *parts[count:]))
    return ""


def _require_there(place: Path, option: str, kind: str) -> None:
    is_file, is_folder = os.path.isfile(place), os.path.isdir(place)
    if (is_file and kind != FOLDER) or (is_folder and kind != FILE):
        _require_readable(place, option)
        return
    hint = f"check the path given as --{option}"
    if is_file or is_folder:
        other = "file" if is_file else "folder"
        text = f"{place} is a {other}; --{option} needs a {_WORDS[kind]}"
        raise Error("file-not-found", text, hint=hint)
    text = f"there is no {_WORDS[kind]} {place}"
    if place.is_symlink():
        text = f"{place} leads to {place.resolve()}, which is missing"
    raise Error("file-not-found", text, hint=hint, context=_near(place))


def _require_readable(place: Path, option: str) -> None:
    if not os.access(place, os.R_OK | (os.X_OK if os.path.isdir(place) else 0)):
        text = f"{place}, given as --{option}, cannot be read by this user"
        raise Error("file-error", text, hint=f"ask its owner, or check it: `ls -ld {place}`")


def _near(place: Path) -> tuple[str, ...]:
    """What may have been meant, or how far the path leads."""
    import difflib
    import shutil

    from cmbench.lib.files import existing_parent

    above = existing_parent(place.parent)
    if above != place.parent:
        return (f"there is no folder {place.parent}",)
    program = shutil.which(place.name) if str(above) == os.getcwd() else None
    if program:
        return (f"did you mean {program}?",)
    try:
        beside = os.listdir(above)
    except OSError as problem:
        return (f"{above}: {problem.strerror}",)
    return tuple(
        f"did you mean {above / name}?"
        for name in difflib.get_close_matches(place.name, beside, 1)
        if name != place.name
    )


def _why_not_writable_file(place: Path) -> str:
    """Return why no file can be written at ``place``; empty where one can."""
    if os.path.isdir(place):
        return f"{place} is a folder"
    reason = _why_not_writable(place.parent)
    if not reason and place.exists() and not os.access(place, os.W_OK):
        return f"{place} cannot be changed by this user"
    return reason


def _require_writable(place: Path, option: str, kind: str) -> None:
    writes_file = kind == FILE_TO_WRITE
    reason = _why_not_writable_file(place) if writes_file else _why_not_writable(place)
    if reason:
        what = "file" if writes_file else "folder"
        raise Error(
            "not-writable",
            f"nothing can be stored in {place}: {reason}",
            hint=f"name another {what} with --{option}",
        )


def _why_not_writable(folder: Path) -> str:
    """Why ``folder`` neither is nor can become one to write in; empty where it can."""
    from cmbench.lib.files import existing_parent

    blocked = next((p for p in (folder, *folder.parents) if os.path.isfile(p)), None)
    if blocked:
        return f"{blocked} is a file"
    above = existing_parent(folder)
    if os.access(above, os.W_OK | os.X_OK) and above.resolve().parts[1:2] not in _OF_THE_KERNEL:
        return ""
    return f"nothing can be written in {above}"


_OF_THE_KERNEL = (("proc",), ("sys",))
