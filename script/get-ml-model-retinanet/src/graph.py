"""An ONNX graph in the making, with weights out of a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
IR_VERSION = 8


class Graph:
    """Nodes and weights; every method returns the name of what it computes.

    Names of outputs that the model must have are given at the end, with ``name``.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def const(self, values: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        """A constant."""
        name = f"c{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def whole(self, *values: int) -> str:
        """A constant int64 [n], as shapes and axes are given."""
        return self.const(values, np.int64)

    def noise(self, *shape: int, scale: float) -> str:
        """Weights that mean nothing."""
        values = self._generator.standard_normal(shape, dtype=np.float32)
        return self.const(values * np.float32(scale))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        return self.ops(kind, *inputs, outputs=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """A node with several outputs."""
        names = [
            f"n{len(self._nodes)}_{k}" if k else f"n{len(self._nodes)}" for k in range(outputs)
        ]
        self._nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def name(self, x: str, wanted: str) -> None:
        """Call ``x`` so for those who use the model."""
        self._nodes.append(helper.make_node("Identity", [x], [wanted]))

    def conv(
        self,
        x: str,
        into: int,
        out: int,
        size: int = 1,
        stride: int = 1,
        *,
        groups: int = 1,
        pad: int | Sequence[int] | None = None,
        gain: float = 2.0,
        bias: float = 0.0,
    ) -> str:
        """A convolution whose results are about as large as what comes in.

        ``gain`` is 2 before a rectifier, which halves the squares, ``pad`` the same on all sides
        or top, left, bottom and right.
        """
        fan = into // groups * size * size
        weight = self.noise(out, into // groups, size, size, scale=(gain / fan) ** 0.5)
        values = self._generator.standard_normal(out, dtype=np.float32) * np.float32(0.01)
        edges = size // 2 if pad is None else pad
        return self.op(
            "Conv",
            x,
            weight,
            self.const(values + np.float32(bias)),
            group=groups,
            kernel_shape=[size, size],
            pads=[edges] * 4 if isinstance(edges, int) else list(edges),
            strides=[stride, stride],
        )

    def relu(self, x: str) -> str:
        """Nothing below 0."""
        return self.op("Relu", x)

    def shape(self, x: str, *sizes: int) -> str:
        """The same values otherwise laid out; 0 keeps a size, -1 is what is left."""
        return self.op("Reshape", x, self.whole(*sizes))

    def cut(self, x: str, begin: int, end: int, axis: int) -> str:
        """A part along one axis."""
        return self.op("Slice", x, self.whole(begin), self.whole(end), self.whole(axis))

    def take(self, x: str, indices: str, axis: int = 0) -> str:
        """The chosen ones along one axis."""
        return self.op("Gather", x, indices, axis=axis)

    def model(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The finished model."""
        made = helper.make_graph(self._nodes, name, inputs, outputs, self._weights)
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(
            made, opset_imports=opset, ir_version=IR_VERSION, producer_name="cmbench"
        )


def tensor(name: str, dtype: str, *shape: int | str) -> Any:
    """An input or output; a size without a number is a name."""
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}
    return helper.make_tensor_value_info(name, kinds[dtype], list(shape))
