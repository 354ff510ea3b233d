"""Files of results: refused before an hour is measured, and written as a whole."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from common.problems import Problem, bad_value, shell_word
from mlperf.pages.render import missing_package

SessionType = TypeVar("SessionType")


def require_writable(files: Mapping[str, str]) -> None:
    """Raise Problem where one of ``files`` (path by kind) could not be written."""
    if "html" in files:
        from .page import check

        check()
    if "png" in files and importlib.util.find_spec("PIL") is None:
        raise missing_package("a picture", "Pillow")
    for kind, name in files.items():
        path = Path(name)
        if path.is_dir():
            raise bad_value(f"{name} is a folder", hint=f"--{kind}={path / f'result.{kind}'}")
        folder = path.resolve().parent
        if not is_special(path) and not (folder.is_dir() and os.access(folder, os.W_OK)):
            hint = "" if folder.is_dir() else f"`mkdir -p {shell_word(str(folder))}`"
            raise bad_value(f"{name} cannot be written", hint=hint)


def is_special(path: Path) -> bool:
    """Return whether it is there and no plain file, as /dev/stdout: written to, never replaced."""
    return path.exists() and not path.is_file()


def write_all(
    files: Mapping[str, str],
    formatters: Mapping[str, Callable[[SessionType], str | bytes]],
    session: SessionType,
) -> None:
    """Write ``files`` (path by kind) of a session; raise Problem when one cannot be written."""
    for kind, name in files.items():
        write_whole(name, formatters[kind](session))


def write_whole(name: str, document: str | bytes) -> None:
    """Write a file atomically; raise Problem when it cannot be written."""
    path = Path(name)
    whole = path if is_special(path) else path.resolve()
    part = whole if is_special(path) else Path(f"{whole}.{os.getpid()}.part")
    try:
        part.write_bytes(document.encode() if isinstance(document, str) else document)
        if part != whole:
            part.replace(whole)
    except OSError as error:
        if part != whole:
            part.unlink(missing_ok=True)
        raise Problem("server-failed", f"{name}: {error.strerror}") from error
