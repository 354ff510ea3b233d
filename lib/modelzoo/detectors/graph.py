"""An ONNX graph of a detector in the making, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modelzoo.graph import Array, OnnxGraph, value

OPSET = 13


class DetectorGraph(OnnxGraph):
    """A graph with the operations of all detectors; methods return the name of their output.

    Names of outputs that the model must have are given at the end, with ``name``.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, constants="c")

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

        ``size`` is the side of the kernel in pixels, ``gain`` 2 before a rectifier, which halves
        the squares, ``pad`` the same on all sides or top, left, bottom and right.
        """
        fan = into // groups * size * size
        weight = self.noise(out, into // groups, size, size, scale=(gain / fan) ** 0.5)
        values = self.random.standard_normal(out, dtype=np.float32) * np.float32(0.01)
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
        """The rectifier."""
        return self.op("Relu", x)

    def shape(self, x: str, *sizes: int) -> str:
        """Return the values reshaped; 0 keeps a size, -1 is the rest."""
        return self.op("Reshape", x, self.whole(*sizes))

    def take(self, x: str, indices: str, axis: int = 0) -> str:
        """The chosen ones along one axis."""
        return self.op("Gather", x, indices, axis=axis)

    def residual(self, x: str, y: str, sizes: tuple[int, int], stride: int) -> str:
        """What a block has made, ``y``, and what came in, brought to its shape."""
        if sizes[0] != sizes[1] or stride > 1:
            x = self.conv(x, *sizes, 1, stride, gain=1.0)
        return self.relu(self.op("Add", x, y))

    def around(self, centres: str, sizes: str, axis: int) -> str:
        """Bounding boxes as low and high corners from their centres and sizes."""
        reach = self.op("Mul", sizes, self.const(0.5))
        low, high = self.op("Sub", centres, reach), self.op("Add", centres, reach)
        return self.op("Concat", low, high, axis=axis)

    def decoded(self, moves: str, priors: Array, scales: tuple[float, float]) -> str:
        """The bounding boxes [n, k, 4] of SSD: ``priors`` [k, 4] (centre, size), moved, stretched.

        ``moves`` [n, k, 4] is what the network says; ``scales`` are those of both of its halves.
        """
        start = priors[None]
        places, sizes = self.const(start[..., :2]), self.const(start[..., 2:])
        move = self.op("Mul", self.cut(moves, 0, 2, 2), self.const(scales[0]))
        stretch = self.op("Mul", self.cut(moves, 2, 4, 2), self.const(scales[1]))
        centres = self.op("Add", self.op("Mul", move, sizes), places)
        return self.around(centres, self.op("Mul", self.op("Exp", stretch), sizes), 2)

    def suppressed(self, boxes: str, scores: str, most: int, overlap: float, least: float) -> str:
        """Non-maximum suppression: indices [k, 3] of image, class and bounding box."""
        limits = self.whole(most), self.const([overlap]), self.const([least])
        return self.op("NonMaxSuppression", boxes, scores, *limits)

    def detector(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The finished model."""
        return self.model(name, inputs, outputs, OPSET, producer_name="cmbench")


__all__ = ["Array", "DetectorGraph", "value"]
