"""A place that the user names, looked at before anything is begun: is it there, can it be one."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
    raise Error("file-not-found", text, hint=hint, context=_near(place))


def _require_readable(place: Path, option: str) -> None:
    if not os.access(place, os.R_OK | (os.X_OK if os.path.isdir(place) else 0)):
        text = f"{place}, given as --{option}, cannot be read by this user"
        raise Error("file-error", text, hint=f"ask its owner, or check it: ls -ld {place}")


def _near(place: Path) -> tuple[str, ...]:
    """What may have been meant, or how far the path leads."""
    import difflib

    from cmbench.lib.files import existing_parent

    above = existing_parent(place.parent)
    if above != place.parent:
        return (f"there is no folder {place.parent}",)
    try:
        beside = os.listdir(above)
    except OSError as problem:
        return (f"{above}: {problem.strerror}",)
    return tuple(
        f"did you mean {above / name}?" for name in difflib.get_close_matches(place.name, beside, 1)
    )


def _require_writable(place: Path, option: str, kind: str) -> None:
    if kind == FILE_TO_WRITE and os.path.isdir(place):
        found = f"{place} is a folder"
    else:
        found = _why_not_writable(place if kind == FOLDER_TO_WRITE else place.parent)
        if kind == FILE_TO_WRITE and not found and place.exists() and not os.access(place, os.W_OK):
            found = f"{place} cannot be changed by this user"
    if found:
        what = "folder" if kind == FOLDER_TO_WRITE else "file"
        raise Error(
            "not-writable",
            f"nothing can be stored in {place}: {found}",
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
