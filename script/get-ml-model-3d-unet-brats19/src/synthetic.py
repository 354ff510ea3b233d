"""Build the full 3-D U-Net with weights out of a seed: as fast as the trained one, and ignorant.

Facts: the network is nnU-Net's (Isensee et al., 2020) as MLPerf took it: six levels with 32, 64,
128, 256, 320 and 320 features; in each two blocks of convolution, instance normalisation and leaky
rectifier; a convolution with stride goes down, a transposed one up; scores come out of every level
on the way up, those of the finest are the answer. Names are those of MLPerf's ONNX file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MODEL_FILE = "3dunet_brats_synthetic.onnx"
INPUT_NAME, OUTPUT_NAME = "input", "output"
CHANNELS = CLASSES = 4
WINDOW = (224, 224, 160)
WIDTHS = (32, 64, 128, 256, 320, 320)
SLOPE = 0.01
SEED = 19
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
        """A convolution that keeps values about as large as they are, what follows it included."""
        weight = self._noise(out, into, 3, 3, 3, scale=(2.0 / (27 * into)) ** 0.5)
        bias = self._noise(out, scale=0.01)
        strides, pads = [stride] * 3, [1] * 6
        x = self.op("Conv", x, weight, bias, kernel_shape=[3, 3, 3], strides=strides, pads=pads)
        scale, shift = self._weight(np.ones(out)), self._noise(out, scale=0.1)
        x = self.op("InstanceNormalization", x, scale, shift, epsilon=1e-5)
        return self.op("LeakyRelu", x, alpha=SLOPE)

    def up(self, x: str, into: int, out: int) -> str:
        """Twice as many voxels along each side."""
        weight = self._noise(into, out, 2, 2, 2, scale=(1.0 / into) ** 0.5)
        return self.op("ConvTranspose", x, weight, kernel_shape=[2, 2, 2], strides=[2, 2, 2])

    def scores(self, x: str, into: int) -> str:
        """The scores of all classes for each voxel."""
        weight = self._noise(CLASSES, into, 1, 1, 1, scale=(1.0 / into) ** 0.5)
        return self.op("Conv", x, weight, kernel_shape=[1, 1, 1])


def layers(graph: Graph, widths: Sequence[int]) -> list[str]:
    """The whole network; returns the scores of its levels, the finest last."""
    x, into, kept = INPUT_NAME, CHANNELS, []
    for level, width in enumerate(widths):
        x = graph.block(x, into, width, stride=2 if level else 1)
        x = graph.block(x, width, width)
        kept.append(x)
        into = width
    found = []
    for width, beside in zip(reversed(widths[:-1]), reversed(kept[:-1]), strict=True):
        x = graph.op("Concat", graph.up(x, into, width), beside, axis=1)
        x = graph.block(x, 2 * width, width)
        x = graph.block(x, width, width)
        found.append(graph.scores(x, width))
        into = width
    return found


def build(widths: Sequence[int], window: Sequence[int]) -> Any:
    """The whole model; each side of the window must be divisible by 2 for each level but one."""
    graph = Graph(SEED)
    coarse = layers(graph, widths)
    graph.nodes[-1].output[0] = OUTPUT_NAME
    outputs = []
    for step, name in enumerate([OUTPUT_NAME, *reversed(coarse[:-1])]):
        sides = [side >> step for side in window]
        outputs.append(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", CLASSES, *sides])
        )
    volumes = helper.make_tensor_value_info(INPUT_NAME, TensorProto.FLOAT, ["N", CHANNELS, *window])
    made = helper.make_graph(graph.nodes, "3d-unet", [volumes], outputs, graph.weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def sizes(text: str) -> tuple[int, ...]:
    """Numbers out of a text such as 224,224,160."""
    return tuple(int(word) for word in text.split(","))


def facts_of(data: bytes, window: Sequence[int]) -> dict[str, Any]:
    """What model.json says."""
    regions = {"whole tumor": [1, 2, 3], "tumor core": [2, 3], "enhancing tumor": [3]}
    return {
        "name": "3d_unet_brats_synthetic",
        "file": MODEL_FILE,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "precision": "fp32",
        "inputs": [{"name": INPUT_NAME, "dtype": "float32", "shape": [CHANNELS, *window]}],
        "outputs": [{"name": OUTPUT_NAME, "dtype": "float32", "shape": [CLASSES, *window]}],
        "options": {"regions": regions, "absent_region": "left out", "windows_per_call": 1},
        "accuracy": {"metric": "mean DICE", "unit": "", "reference": 0.0, "target": 0.0},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model and model.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--widths", type=sizes, default=WIDTHS, help="features of each level")
    parser.add_argument("--window", type=sizes, default=WINDOW, help="sides of the window")
    options = parser.parse_args(arguments)
    data = build(options.widths, options.window).SerializeToString()
    (options.out / MODEL_FILE).write_bytes(data)
    text = json.dumps(facts_of(data, options.window), indent=2) + "\n"
    (options.out / "model.json").write_text(text, encoding="utf-8")
    print(f"{len(data)} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
