"""Files: their SHA-256, and texts that are written as a whole or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

BLOCK = 1 << 20


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal, in blocks; raise OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def replace_text(path: Path, text: str) -> None:
    """Write a text file in one step: no reader sees half of it, and a failure leaves the old."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
