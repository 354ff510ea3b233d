"""The graph of an ONNX file without its weights, which a runtime then maps out of the file.

A runtime that opens a file with weights in it reads the whole file and then makes tensors of what
it has read: for a time the model is in memory twice. Weights that lie in a file of their own are
mapped. So a runtime is given the graph alone, in which each large weight is said to lie in another
file: in the model's own one, at the place where it is there.

The file is walked as it is on disk, in the format of Protocol Buffers: fields of a number, a kind
and a content. The numbers are those of onnx.proto.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mlperf_catalog.values import dataclass

GRAPH = 7  # of a model
INITIALIZER = 5  # of a graph
RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 9, 13, 14  # of a tensor
KEY, VALUE = 1, 2  # of an entry of external data
EXTERNAL = 1  # a location

NUMBER, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
SIZES = {EIGHT_BYTES: 8, FOUR_BYTES: 4}

# Smaller weights stay in the graph: runtimes look at them when they simplify it.
LEAST_BYTES = 1 << 12


class NotOnnxError(ValueError):
    """The file is not in this format, or it is cut off."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: it begins at ``start``, its content is from ``body`` to ``end``."""

    number: int
    start: int
    body: int
    end: int


def graph_alone(path: Path, location: str) -> bytes:
    """The model of ``path`` with the large weights left where they are, in the file ``location``.

    Raises OSError when it cannot be read, NotOnnxError when it is something else.
    """
    with path.open("rb") as file, _mapped(file.fileno()) as data:
        return b"".join(
            _message(GRAPH, _graph(data, field, location))
            if field.number == GRAPH
            else data[field.start : field.end]
            for field in _fields(data, 0, len(data))
        )


def weight_beside(tensor: Any, folder: Path) -> npt.NDArray[Any]:
    """The values, in the tensor's own shape, that lie where it says in a file of ``folder``."""
    import onnx

    where = {entry.key: entry.value for entry in tensor.external_data}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    count, start = math.prod(tensor.dims), int(where.get("offset", 0))
    found = np.fromfile(folder / where["location"], dtype, count, offset=start)
    return found.reshape(tuple(tensor.dims))


def _mapped(descriptor: int) -> mmap.mmap:
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise NotOnnxError("the file is empty") from error


def _graph(data: mmap.mmap, graph: Field, location: str) -> bytes:
    return b"".join(
        _message(INITIALIZER, _tensor(data, field, location))
        if field.number == INITIALIZER
        else data[field.start : field.end]
        for field in _fields(data, graph.body, graph.end)
    )


def _tensor(data: mmap.mmap, tensor: Field, location: str) -> bytes:
    fields = list(_fields(data, tensor.body, tensor.end))
    raw = next((field for field in fields if field.number == RAW_DATA), None)
    if raw is None or raw.end - raw.body < LEAST_BYTES:
        return data[tensor.body : tensor.end]
    where = {"location": location, "offset": str(raw.body), "length": str(raw.end - raw.body)}
    return b"".join(
        [
            *(data[field.start : field.end] for field in fields if field is not raw),
            *(_message(EXTERNAL_DATA, _entry(*pair)) for pair in where.items()),
            _varint(DATA_LOCATION << 3 | NUMBER),
            _varint(EXTERNAL),
        ]
    )


def _entry(key: str, value: str) -> bytes:
    return _message(KEY, key.encode()) + _message(VALUE, value.encode())


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[Field]:
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
        yield Field(key >> 3, start, body, body + size)
        start = body + size


def _read_varint(data: mmap.mmap, place: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while place < end:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place
    raise NotOnnxError("a number is cut off")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
