"""The files with weights that an ONNX file names, read from its format without a library."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from .onnx_signature import Data, ProtoField, iterate_fields

EXTERNAL_DATA = 13  # of a tensor
KEY, VALUE = 1, 2  # of an entry of external data
LOCATION = b"location"

# Which fields of a message hold messages with tensors in them, and of what kind these are; the
# numbers are those of onnx.proto.
NESTED = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse",
    },
    "sparse": {1: "tensor", 2: "tensor"},
}  # fmt: skip


def files(path: Path) -> dict[str, Path]:
    """Return the files with weights of an ONNX file by the names that it has for them, sorted.

    Those of a link lie beside it, or beside what it leads to. Nothing for another file, and for one
    that cannot be read as ONNX.
    """
    if path.suffix != ".onnx":
        return {}
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            names = sorted(set(_locations("model", data, 0, len(data))))
    except (OSError, ValueError, IndexError):
        return {}
    return {name: _source(path, name) for name in names}


def _source(path: Path, name: str) -> Path:
    beside = path.parent / name
    return beside if os.path.exists(beside) else path.resolve().parent / name


def _locations(kind: str, data: Data, start: int, end: int) -> Iterator[str]:
    nested = NESTED[kind]
    for field in iterate_fields(data, start, end):
        inner = nested.get(field.number, "")
        if inner == "tensor":
            yield from _tensor(data, field)
        # Most nodes name no file: they are not walked.
        elif inner == "graph" or (inner and data.find(LOCATION, field.start, field.end) >= 0):
            yield from _locations(inner, data, field.start, field.end)


def _tensor(data: Data, tensor: ProtoField) -> Iterator[str]:
    for entry in iterate_fields(data, tensor.start, tensor.end):
        if entry.number == EXTERNAL_DATA:
            parts = iterate_fields(data, entry.start, entry.end)
            texts = {part.number: data[part.start : part.end] for part in parts}
            if texts.get(KEY) == LOCATION:
                yield texts.get(VALUE, b"").decode()
