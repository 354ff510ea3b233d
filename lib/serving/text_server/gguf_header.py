"""What the header of a file in the format GGUF says of its model.

Source: the description of the format in ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"GGUF"
STRING, ARRAY = 8, 9
# How numbers of a type are packed: uint8 to bool, and those of 64 bits.
NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
# Behind the facts of the network come those of its tokenizer, which are long.
BEHIND = "tokenizer."
LONGEST = 1 << 20


def read(path: Path) -> dict[str, Any]:
    """Return the facts of the network by their keys; those before a fault, if there is one."""
    facts: dict[str, Any] = {}
    try:
        with path.open("rb") as file:
            facts.update(_pairs(file))
    except (OSError, ValueError, struct.error):
        pass
    return facts


def _pairs(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    magic, _, _, count = struct.unpack("<4sIQQ", file.read(24))
    for _ in range(count if magic == MAGIC else 0):
        key = _string(file)
        if key.startswith(BEHIND):
            return
        yield key, _value(file, _number(file, "I"))


def _number(file: BinaryIO, code: str) -> Any:
    (value,) = struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))
    return value


def _string(file: BinaryIO) -> str:
    length = _number(file, "Q")
    if length > LONGEST:
        raise ValueError(length)
    return file.read(length).decode()


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == STRING:
        return _string(file)
    if kind == ARRAY:
        kind, count = _number(file, "I"), _number(file, "Q")
        if count > LONGEST or kind == ARRAY:
            raise ValueError(count)
        return [_value(file, kind) for _ in range(count)]
    if kind not in NUMBERS:
        raise ValueError(kind)
    return _number(file, NUMBERS[kind])
