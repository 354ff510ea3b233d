"""Small text files, read without fuss; imports nothing that takes time to load."""

from __future__ import annotations


def read_or_empty(path: str) -> str:
    """The text at ``path``, bytes that are no UTF-8 replaced; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
