"""Inputs and outputs of an ONNX file, read from its format of Protocol Buffers without a library.

The numbers of fields and types are those of onnx.proto.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from common.problems import Problem

from .plan import ModelTensor

GRAPH = 7  # of a model
INITIALIZER, INPUT, OUTPUT = 5, 11, 12  # of a graph
NAME, TYPE, TENSOR_TYPE, INITIALIZER_NAME = 1, 2, 1, 8  # of a value, its type, an initializer
ELEMENT, SHAPE, DIMENSION, VALUE = 1, 2, 1, 1  # of the type of a tensor, its shape, a dimension
TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "object", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5  # wire types
SIZES = {FIXED64: 8, FIXED32: 4}

Data = bytes | mmap.mmap


class ProtoField(NamedTuple):
    """A field of a message: its content is from ``start`` to ``end``, or is ``value``."""

    number: int
    start: int
    end: int
    value: int


def read(path: Path) -> tuple[tuple[ModelTensor, ...], tuple[ModelTensor, ...]]:
    """Return the inputs and outputs of a file, the batch left out; raise Problem."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            graph = next(f for f in iterate_fields(data, 0, len(data)) if f.number == GRAPH)
            fields = list(iterate_fields(data, graph.start, graph.end))
            weights = {_name(data, f, INITIALIZER_NAME) for f in fields if f.number == INITIALIZER}
            values = {n: [f for f in fields if f.number == n] for n in (INPUT, OUTPUT)}
            inputs = (_tensor(data, field) for field in values[INPUT])
            outputs = tuple(_tensor(data, field) for field in values[OUTPUT])
            return tuple(each for each in inputs if each.name not in weights), outputs
    except (OSError, ValueError, IndexError, StopIteration, RuntimeError) as error:
        raise Problem("model-file", f"{path} is not an ONNX model: {error}") from error


def _tensor(data: Data, value: ProtoField) -> ModelTensor:
    fields = _subfields(data, value)
    type_field = _first_field(fields, TYPE)
    tensor_type = _first_field(_subfields(data, type_field), TENSOR_TYPE)
    parts = _subfields(data, tensor_type)
    element = next((each.value for each in parts if each.number == ELEMENT), 0)
    shape = _first_field(parts, SHAPE)
    sizes = [_size(data, d) for d in _subfields(data, shape) if d.number == DIMENSION]
    return ModelTensor(_name(data, value, NAME), TYPES.get(element, "unknown"), tuple(sizes[1:]))


def _size(data: Data, dimension: ProtoField) -> int:
    sizes = [each.value for each in _subfields(data, dimension) if each.number == VALUE]
    return sizes[0] if sizes and sizes[0] < 1 << 62 else -1


def _first_field(fields: list[ProtoField], number: int) -> ProtoField | None:
    return next((each for each in fields if each.number == number), None)


def _subfields(data: Data, field: ProtoField | None) -> list[ProtoField]:
    return list(iterate_fields(data, field.start, field.end)) if field else []


def _name(data: Data, field: ProtoField, number: int) -> str:
    match = _first_field(_subfields(data, field), number)
    return data[match.start : match.end].decode() if match else ""


def iterate_fields(data: Data, place: int, end: int) -> Iterator[ProtoField]:
    """Yield the fields of a message; raises ValueError or IndexError where it is damaged."""
    while place < end:
        key, place = _read_varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = _read_varint(data, place)
            yield ProtoField(number, place, place, value)
            continue
        size = SIZES.get(kind, 0)
        if kind == LENGTH_DELIMITED:
            size, place = _read_varint(data, place)
        elif not size:
            raise ValueError(f"a field of kind {kind}")
        if place + size > end:
            raise ValueError("it is cut off")
        yield ProtoField(number, place, place + size, 0)
        place += size


def _read_varint(data: Data, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, place
        if shift > 63:
            raise ValueError("a number without end")
