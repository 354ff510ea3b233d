"""Build the full 3-D U-Net with weights out of a seed: as fast as the trained one, and ignorant.

Facts: the network of MLPerf for KiTS19 has five levels with 32, 64, 128, 256 and 320 features and
one of 320 at the bottom; in each two convolutions, each followed by instance normalisation and a
rectifier; a convolution with stride goes down, a transposed one up, beside what the level had on
the way down. Names and shapes are those of MLPerf's ONNX file, and so is its size (125 MB).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MODEL_FILE = "3d-unet_synthetic.onnx"
INPUT_NAME, OUTPUT_NAME = "input", "output"
SIDE, CLASSES = 128, 3
WIDTHS = (32, 64, 128, 256, 320, 320)
SEED = 23
OPSET = 11


class Graph:
    """Nodes and weights in the making; every method returns the name of what it computes."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def _weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def _noise(self, *shape: int, scale: float) -> str:
        values = self._generator.standard_normal(shape, dtype=np.float32)
        return self._weight(values * np.float32(scale))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def block(self, x: str, into: int, out: int, stride: int = 1) -> str:
        """A convolution, its results made comparable, nothing below 0."""
        weight = self._noise(out, into, 3, 3, 3, scale=(2.0 / (27 * into)) ** 0.5)
        shape: dict[str, list[int]] = {"kernel_shape": [3] * 3, "strides": [stride] * 3}
        x = self.op("Conv", x, weight, pads=[1] * 6, **shape)
        scale, shift = self._weight(np.ones(out)), self._noise(out, scale=0.1)
        x = self.op("InstanceNormalization", x, scale, shift, epsilon=1e-5)
        return self.op("Relu", x)

    def up(self, x: str, into: int, out: int) -> str:
        """Twice as many voxels along each side."""
        weight = self._noise(into, out, 2, 2, 2, scale=(1.0 / into) ** 0.5)
        bias = self._noise(out, scale=0.01)
        return self.op("ConvTranspose", x, weight, bias, kernel_shape=[2] * 3, strides=[2] * 3)

    def scores(self, x: str, into: int) -> None:
        """The scores of all classes for each voxel, which are the answer."""
        weight = self._noise(CLASSES, into, 1, 1, 1, scale=(1.0 / into) ** 0.5)
        bias = self._noise(CLASSES, scale=0.01)
        self.op("Conv", x, weight, bias, kernel_shape=[1] * 3)
        self.nodes[-1].output[0] = OUTPUT_NAME


def layers(graph: Graph, widths: Sequence[int]) -> None:
    """The whole network."""
    x, into, kept = INPUT_NAME, 1, []
    for level, width in enumerate(widths):
        x = graph.block(x, into, width, stride=2 if level else 1)
        x = graph.block(x, width, width)
        kept.append(x)
        into = width
    for width, beside in zip(reversed(widths[:-1]), reversed(kept[:-1]), strict=True):
        x = graph.op("Concat", graph.up(x, into, width), beside, axis=1)
        x = graph.block(x, 2 * width, width)
        x = graph.block(x, width, width)
        into = width
    graph.scores(x, into)


def build(widths: Sequence[int] = WIDTHS, side: int = SIDE) -> Any:
    """The whole model; the side must be divisible by 2 for each level but one."""
    graph = Graph(SEED)
    layers(graph, widths)
    sides = [side] * 3
    volumes = helper.make_tensor_value_info(INPUT_NAME, TensorProto.FLOAT, ["N", 1, *sides])
    scores = helper.make_tensor_value_info(OUTPUT_NAME, TensorProto.FLOAT, ["N", CLASSES, *sides])
    made = helper.make_graph(graph.nodes, "3d-unet", [volumes], [scores], graph.weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    options = parser.parse_args(arguments)
    data = build().SerializeToString()
    (options.out / MODEL_FILE).write_bytes(data)
    print(f"{MODEL_FILE}: {len(data)} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
