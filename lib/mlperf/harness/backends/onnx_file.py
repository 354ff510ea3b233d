"""The graph of an ONNX file without its weights, which a runtime then maps out of the file.

A runtime that opens a file with weights in it reads the whole file and then makes tensors of what
it has read: for a time the model is in memory twice. Weights that lie in a file of their own are
mapped. So a runtime is given the graph alone, in which each large weight is said to lie in another
file: in the model's own one, at the place where it is there. Weights that lie in files of their own
already stay there. All files are named by their real path from ``ROOT``: ONNX Runtime 1.24 and
OpenVINO refuse a link that leads out of the model's folder, as those of a cache do.

The file is walked as it is on disk, in the format of Protocol Buffers: fields of a number, a kind
and a content. The numbers are those of onnx.proto.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

GRAPH = 7  # of a model
INITIALIZER = 5  # of a graph
RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 9, 13, 14  # of a tensor
KEY, VALUE = 1, 2  # of an entry of external data
EXTERNAL = 1  # a location
LOCATION = b"location"

# The folder from which the graph alone names the files with weights.
ROOT = Path("/")

# Which fields of a message hold messages with tensors in them, and of what kind these are.
NESTED = {
    "model": {GRAPH: "graph", 25: "function"},
    "graph": {1: "node", INITIALIZER: "initializer", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse",
    },
    "sparse": {1: "tensor", 2: "tensor"},
}  # fmt: skip

NUMBER, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
SIZES = {EIGHT_BYTES: 8, FOUR_BYTES: 4}

# Smaller weights stay in the graph: runtimes look at them when they simplify it.
LEAST_BYTES = 1 << 12


class NotOnnxError(ValueError):
    """The file is not in this format, or it is cut off."""


@dataclass(frozen=True, slots=True)
class ProtobufField:
    """One field of a message: it begins at ``start``, its content is from ``body`` to ``end``."""

    number: int
    start: int
    body: int
    end: int


def graph_alone(path: Path) -> bytes:
    """Return the model of ``path`` with the large weights left where they are.

    Raises OSError when it cannot be read, NotOnnxError when it is something else.
    """
    own = str(path.resolve().relative_to(ROOT))

    def real(location: str) -> str:
        return os.path.relpath(os.path.realpath(path.parent / location), ROOT)

    return _rewritten(path, Rewriting(own, real))


def weight_files(path: Path) -> list[str]:
    """Return the names of the files with weights that the graph in ``path`` names, sorted.

    Raises OSError when it cannot be read, NotOnnxError when it is something else.
    """
    names: set[str] = set()

    def record(location: str) -> str:
        names.add(location)
        return location

    _rewritten(path, Rewriting(path.name, record))
    return sorted(names)


def weight_beside(tensor: Any, folder: Path) -> npt.NDArray[Any]:
    """The values, in the tensor's own shape, that lie where it says in a file of ``folder``."""
    import onnx

    where = {entry.key: entry.value for entry in tensor.external_data}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    count, start = math.prod(tensor.dims), int(where.get("offset", 0))
    values = np.fromfile(folder / where["location"], dtype, count, offset=start)
    return values.reshape(tuple(tensor.dims))


@dataclass(frozen=True, slots=True)
class Rewriting:
    """How a file is named whose weights stay in it, and a file that a tensor names already."""

    own: str
    other: Callable[[str], str]


def _rewritten(path: Path, names: Rewriting) -> bytes:
    with path.open("rb") as file, _mapped(file.fileno()) as data:
        return _parts("model", data, 0, len(data), names)


def _mapped(descriptor: int) -> mmap.mmap:
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise NotOnnxError("the file is empty") from error


def _parts(kind: str, data: mmap.mmap, start: int, end: int, names: Rewriting) -> bytes:
    """Return the content of a message of this kind, its tensors rewritten."""
    nested = NESTED[kind]
    return b"".join(
        _part(nested[field.number], data, field, names)
        if field.number in nested
        else data[field.start : field.end]
        for field in _fields(data, start, end)
    )


def _part(kind: str, data: mmap.mmap, field: ProtobufField, names: Rewriting) -> bytes:
    if kind in ("initializer", "tensor"):
        movable = kind == "initializer"
        return _message(field.number, _tensor(data, field, names, movable))
    # Most nodes name no file: they are not walked.
    if kind != "graph" and data.find(LOCATION, field.body, field.end) < 0:
        return data[field.start : field.end]
    return _message(field.number, _parts(kind, data, field.body, field.end, names))


def _tensor(data: mmap.mmap, tensor: ProtobufField, names: Rewriting, movable: bool) -> bytes:
    """Return a tensor with its file named; its own weights stay in the model where ``movable``."""
    fields = list(_fields(data, tensor.body, tensor.end))
    if any(field.number == EXTERNAL_DATA for field in fields):
        return b"".join(
            _message(EXTERNAL_DATA, _relocated(data, field, names))
            if field.number == EXTERNAL_DATA
            else data[field.start : field.end]
            for field in fields
        )
    raw = next((field for field in fields if field.number == RAW_DATA), None)
    if not movable or raw is None or raw.end - raw.body < LEAST_BYTES:
        return data[tensor.body : tensor.end]
    where = {"location": names.own, "offset": str(raw.body), "length": str(raw.end - raw.body)}
    return b"".join(
        [
            *(data[field.start : field.end] for field in fields if field is not raw),
            *(_message(EXTERNAL_DATA, _entry(*pair)) for pair in where.items()),
            _varint(DATA_LOCATION << 3 | NUMBER),
            _varint(EXTERNAL),
        ]
    )


def _relocated(data: mmap.mmap, entry: ProtobufField, names: Rewriting) -> bytes:
    """Return an entry of external data; the location is named anew, others stay."""
    texts = {f.number: data[f.body : f.end] for f in _fields(data, entry.body, entry.end)}
    if texts.get(KEY) != LOCATION:
        return data[entry.body : entry.end]
    return _entry("location", names.other(texts.get(VALUE, b"").decode()))


def _entry(key: str, value: str) -> bytes:
    return _message(KEY, key.encode()) + _message(VALUE, value.encode())


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[ProtobufField]:
    while start < end:
        key, body = _read_varint(data, start, end)
        kind = key & 7
        if kind == BYTES:
            size, body = _read_varint(data, body, end)
        elif kind == NUMBER:
            size = _read_varint(data, body, end)[1] - body
        elif kind in SIZES:
            size = SIZES[kind]
        else:
            raise NotOnnxError(f"there is no field of kind {kind}")
        if body + size > end:
            raise NotOnnxError("a field is cut off")
        yield ProtobufField(key >> 3, start, body, body + size)
        start = body + size


def _read_varint(data: mmap.mmap, offset: int, end: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while offset < end:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, offset
    raise NotOnnxError("a number is cut off")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
