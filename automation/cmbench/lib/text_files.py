"""Small text files read without fuss, sizes as text; imports nothing that takes time to load."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any


def read_or_empty(path: str | os.PathLike[str]) -> str:
    """The text at ``path``, bytes that are no UTF-8 replaced; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def sha256(text: str, digits: int = 64) -> str:
    """Return the first hexadecimal ``digits`` of the SHA-256 of a text in UTF-8.

    Names of files and values of variables may have bytes that are none.
    """
    made: str = _sha256()(text.encode("utf-8", "surrogateescape")).hexdigest()
    return made[:digits]


@lru_cache(maxsize=1)
def _sha256() -> Callable[[bytes], Any]:
    """That of Python itself, whose name 3.12 has changed, if the distribution has not left it out.

    ``hashlib`` loads OpenSSL, which takes as long as several steps from the cache.
    """
    from importlib import import_module

    for module in ("_sha2", "_sha256", "hashlib"):
        with suppress(ImportError):
            made: Callable[[bytes], Any] = import_module(module).sha256
            return made
    raise AssertionError("every Python has hashlib")


def listed(names: Sequence[str], most: int = 3) -> str:
    """``a, b, c and 4 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(number: int, one: str, many: str = "") -> str:
    """``1 file``, ``2 files``; ``many`` where it is not ``one`` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def size_text(count: float) -> str:
    """``1.4 MB``; steps of a thousand."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
