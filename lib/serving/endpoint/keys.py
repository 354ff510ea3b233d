"""The key of an API: out of the environment or a file, since others see a command line."""

from __future__ import annotations

import os
from pathlib import Path

from common.problems import Problem

KEY = "OPENAI_API_KEY"
Headers = tuple[tuple[str, str], ...]


def authorization(variable: str = "", file: str = "") -> Headers:
    """Return the header with the key of a variable or a file, ``OPENAI_API_KEY`` by default.

    It is empty where neither is named and that variable is not set. Raises Problem for a name
    without a key, which no message shows.
    """
    if file:
        key = _read(Path(file).expanduser())
    else:
        key = os.environ.get(variable or KEY, "").strip()
        if variable and not key:
            raise Problem("bad-value", f"there is no key: the variable {variable} is not set")
    if not key:
        return ()
    if not (key.isascii() and key.isprintable()):
        raise Problem("bad-value", "the key has characters that HTTP does not allow")
    return (("Authorization", f"Bearer {key}"),)


def _read(path: Path) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem("bad-value", f"there is no key: {path} cannot be read") from error
    if not key:
        raise Problem("bad-value", f"there is no key: {path} is empty")
    return key
