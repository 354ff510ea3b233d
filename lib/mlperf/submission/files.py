"""Files of a tree that may not be there."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str:
    """The text of a file, empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
