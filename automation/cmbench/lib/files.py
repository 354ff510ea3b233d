"""Small things about files that downloads and archives share: checksums, a full disk, progress."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cmbench.errors import Error
from cmbench.lib.text_files import size_text

CHUNK = 1 << 20
"""Bytes read at once: large enough that Python's own cost does not show."""

Progress = Callable[[int, "int | None"], None]
"""Called with the bytes done so far and, where it is known, the bytes in all."""

_BY_LENGTH = {32: "md5", 40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
_LIST_LINE = re.compile(r"(?P<value>[0-9a-fA-F]{32,128}) [ *]?(?P<name>.+)")


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum and the algorithm that made it (``md5``, ``sha1``, ``sha256`` ...)."""

    algorithm: str
    value: str

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.value}"


def parse_checksum(text: str) -> Checksum:
    """``md5:...``, ``sha256:...`` or bare hexadecimal digits, whose number says which.

    Raises ``bad-value``.
    """
    name, colon, value = text.strip().rpartition(":")
    value = value.lower()
    algorithm = _BY_LENGTH.get(len(value), "") if re.fullmatch(r"[0-9a-f]+", value) else ""
    if not algorithm or (colon and name.strip().lower() != algorithm):
        raise Error(
            "bad-value",
            f'"{text}" is not a checksum',
            hint="give the 32 digits of an MD5 or the 64 digits of a SHA-256, as in sha256:0f3a...",
        )
    return Checksum(algorithm, value)


def file_checksum(path: Path, algorithm: str) -> str:
    """The hexadecimal checksum of a file; raises ``OSError``."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def verify_listed(folder: Path, listing: Path) -> int:
    """Check the files of ``folder`` named in ``listing`` (lines as ``md5sum`` writes them).

    Returns how many were checked; raises Error for a wrong or missing file.
    """
    wrong: list[str] = []
    checked = 0
    for line in _read_text(listing).splitlines():
        match = _LIST_LINE.fullmatch(line.strip())
        if match:
            checked += 1
            wrong += _check_listed(folder / match["name"], parse_checksum(match["value"]))
    if wrong or not checked:
        raise Error(
            "checksum-mismatch",
            f"{len(wrong)} of {checked} files listed in {listing.name} differ from the list"
            if checked
            else f"{listing} contains no checksums",
            hint=f"get the files of {folder} again" if checked else "name a file made by md5sum",
            context=wrong[:10],
        )
    return checked


def _check_listed(path: Path, expected: Checksum) -> list[str]:
    if not path.is_file():
        return [f"{path}: not there"]
    digest = file_checksum(path, expected.algorithm)
    return [] if digest == expected.value else [f"{path}: expected {expected}, got {digest}"]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise file_error(problem, path) from None


def file_error(problem: OSError, path: Path, needed: int = 0) -> Error:
    """An ``OSError`` about ``path`` in words that say what to do; ``needed`` is in bytes."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(path, needed)
    if problem.errno == errno.ENOENT:
        return Error("file-not-found", f"{path} does not exist", hint="check the path")
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Error(
            "not-writable",
            f"no permission to use {path}: {problem.strerror}",
            hint="check who owns it, or choose another place",
        )
    return Error("file-error", f"{path}: {problem.strerror or problem}")


def no_space(path: Path, needed: int = 0) -> Error:
    """The error for a full disk under ``path``."""
    folder = existing_parent(path)
    free = shutil.disk_usage(folder).free
    wanted = f", {size_text(needed)} needed" if needed else ""
    return Error(
        "no-space",
        f"no space left for {path}",
        hint=f"make room on the disk of {folder}, or choose a place on another disk",
        context=(f"{size_text(free)} free{wanted}",),
    )


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A draft of what a user wants at ``path``: it takes that place as a whole, or not at all.

    A link is followed. What is no regular file, such as a pipe or ``/dev/stdout``, stays and is
    given the bytes. Raises ``OSError``.
    """
    is_special = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    target = os.path.realpath(path)
    name = f"{os.path.basename(target)}.{os.getpid()}.new"
    folder = tempfile.gettempdir() if is_special else os.path.dirname(target)
    draft = Path(folder, f".{name}")
    try:
        yield draft
        if is_special:
            with open(draft, "rb") as source, open(path, "wb") as stream:
                shutil.copyfileobj(source, stream)
        else:
            os.replace(draft, target)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def require_space(path: Path, needed: int) -> None:
    """Raise Error when the disk of ``path`` has less than ``needed`` bytes free."""
    if shutil.disk_usage(existing_parent(path)).free < needed:
        raise no_space(path, needed)


def existing_parent(path: Path) -> Path:
    """``path`` itself or the nearest folder above it that exists."""
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


class ProgressFile:
    """A ``Progress`` that shows itself through ``$CM_PROGRESS_FILE``, at most 5 times a second."""

    INTERVAL = 0.2

    def __init__(self, path: str | None, label: str, unit: str = "B") -> None:
        self._path = path
        self._label = label
        self._unit = unit
        self._next = 0.0

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if not self._path or (now < self._next and done != total):
            return
        self._next = now + self.INTERVAL
        shown = {"label": self._label, "done": done, "total": total, "unit": self._unit}
        draft = f"{self._path}.{os.getpid()}"
        try:
            Path(draft).write_text(json.dumps(shown), encoding="utf-8")
            os.replace(draft, self._path)
        except OSError:
            # Work continues when progress cannot be reported.
            self._path = None
