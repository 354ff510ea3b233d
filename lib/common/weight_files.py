"""The files with the weights of a folder in Hugging Face's layout, and how much they hold."""

from __future__ import annotations

import json
import math
from pathlib import Path

INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
SINGLES = ("model.safetensors", "pytorch_model.bin")
SAFETENSORS = ".safetensors"
SUFFIXES = (SAFETENSORS, ".bin", ".gguf")
# A header is a list of names and shapes; a longer one is none.
LONGEST_HEADER = 100_000_000


def weight_files(folder: Path) -> list[Path]:
    """Return the files that are opened: those of an index, a single one, or all that look so."""
    for index in INDEXES:
        if names := _indexed(folder / index):
            return sorted(folder / name for name in names)
    for single in SINGLES:
        if (folder / single).is_file():
            return [folder / single]
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def _indexed(index: Path) -> set[str]:
    """Return the names of the files in an index; none where it cannot be read."""
    try:
        document = json.loads(index.read_text(encoding="utf-8"))
        return set(map(str, document["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def bytes_as(folder: Path, number_bytes: int | None) -> int:
    """Return the bytes of all weights with so many for a number; None for those of the files.

    How many numbers a file holds is known of safetensors alone: the others count as they are.
    Source: the format's description: a header of JSON, its length before it.
    """
    return sum(_bytes_of(path, number_bytes) for path in weight_files(folder) if path.is_file())


def _bytes_of(path: Path, number_bytes: int | None) -> int:
    stored = path.stat().st_size
    if number_bytes is None or path.suffix != SAFETENSORS:
        return stored
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, LONGEST_HEADER)))
        shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
        return number_bytes * sum(math.prod(map(int, shape)) for shape in shapes)
    except (ValueError, KeyError, TypeError, AttributeError):
        return stored
