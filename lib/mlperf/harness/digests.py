"""The SHA-256 of files that may be larger than the free memory."""

from __future__ import annotations

import hashlib
from pathlib import Path

BLOCK_BYTES = 1 << 20


def sha256(path: Path) -> str:
    """In hexadecimal; raises OSError when the file cannot be read."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
