"""A builder of ONNX graphs: nodes, constants, random weights, weights in a separate file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.float32]
# A part of a weight: the indices at which it begins, and its numbers.
Piece = tuple[tuple[int, ...], Array]
# Weights in a file begin at pages of memory, so that they can be mapped.
ALIGNMENT = 4096
# Bytes of a weight that are made or copied at once.
BLOCK = 1 << 26
KINDS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}


class OnnxGraph:
    """Nodes and weights; methods return the name of their output.

    Random weights come from ``seed``. Constants are called ``constants`` and a number; the first
    output of node 5 is ``n5`` with ``first`` behind it. ``data`` is the file for stored weights.
    """

    def __init__(
        self, seed: int = 0, *, constants: str = "w", first: str = "", data: Path | None = None
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._constants, self._first = constants, first
        self._data, self._end = data, 0
        if data is not None:
            data.write_bytes(b"")

    def const(
        self, values: npt.ArrayLike, dtype: npt.DTypeLike = np.float32, name: str = ""
    ) -> str:
        """Add a constant, by default of float32."""
        name = name or f"{self._constants}{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def ints(self, *values: int) -> str:
        """Add a constant int64 [n]: shapes, axes and bounds of other operations."""
        return self.const(values, np.int64)

    def noise(self, *shape: int, scale: float) -> str:
        """Add random weights with the standard deviation ``scale``."""
        values = self.random.standard_normal(shape, dtype=np.float32)
        return self.const(values * np.float32(scale))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.ops(kind, *inputs, outputs=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        name = f"n{len(self.nodes)}"
        names = [name + (f"_{k}" if k else self._first) for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def add(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node that is called as its output is."""
        self.nodes.append(helper.make_node(kind, list(inputs), [output], output, **attributes))
        return output

    def name_last(self, wanted: str) -> str:
        """Give the output of the last node the name of an output of the model."""
        self.nodes[-1].output[0] = wanted
        return wanted

    def name(self, x: str, wanted: str) -> None:
        """Make ``x`` an output of the model, with the name ``wanted``."""
        self.nodes.append(helper.make_node("Identity", [x], [wanted]))

    def cut(self, x: str, begin: int, end: int, axis: int) -> str:
        """Add a Slice of ``x`` along one axis."""
        return self.op("Slice", x, self.ints(begin), self.ints(end), self.ints(axis))

    def stored(
        self,
        name: str,
        shape: Sequence[int],
        pieces: Iterable[Piece],
        tell: Callable[[int], None] = lambda _: None,
    ) -> str:
        """Write a weight as float32 to the data file, piece by piece.

        ``tell`` is called with the bytes of every piece.
        """
        assert self._data is not None
        begin = self._end + (-self._end % ALIGNMENT)
        self._end = begin + 4 * int(np.prod(shape))
        with self._data.open("r+b") as file:
            file.truncate(self._end)
        room = np.memmap(self._data, np.float32, "r+", begin, tuple(shape))
        for places, piece in pieces:
            part = tuple(slice(p, p + n) for p, n in zip(places, piece.shape, strict=True))
            room[part] = piece
            tell(piece.nbytes)
        room.flush()
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        facts = {"location": self._data.name, "offset": begin, "length": self._end - begin}
        for key, value in facts.items():
            tensor.external_data.add(key=key, value=str(value))
        self.weights.append(tensor)
        return name

    def model(
        self,
        name: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        opset: int,
        ir_version: int = 8,
        **more: Any,
    ) -> onnx.ModelProto:
        """The finished model; ``more`` is ``producer_name``, for example."""
        made = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(made, opset_imports=opsets, ir_version=ir_version, **more)


def value(name: str, dtype: str, *shape: int | str) -> onnx.ValueInfoProto:
    """An input or output of a graph; a size without a number is a name."""
    return helper.make_tensor_value_info(name, KINDS[dtype], list(shape))


def checked(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, which ONNX's own checker accepts."""
    onnx.checker.check_model(model, full_check=True)
    return model


def blocks(shape: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Begin and end of the rows of a weight of float32 that are made or copied at once."""
    row = 4 * int(np.prod(shape[1:], dtype=np.int64))
    many = max(1, BLOCK // max(1, row))
    return ((begin, min(begin + many, shape[0])) for begin in range(0, shape[0], many))
