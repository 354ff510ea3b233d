"""Build ResNet-50 v1.5 with weights out of a seed: as fast as the trained one, and ignorant.

Facts: He et al., Deep Residual Learning (2015); v1.5 puts the stride of a block on its 3 x 3
convolution. Batch normalization is folded into the convolutions, as exporters do it. Inputs and
outputs are those of MLPerf's ONNX file: 1001 classes, of which class 0 is the background.
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

MODEL_FILE = "resnet50_synthetic.onnx"
INPUT_NAME, LABEL_NAME, SCORES_NAME = "input_tensor:0", "ArgMax:0", "softmax_tensor:0"
SIDE, CLASSES = 224, 1001
# Blocks of each stage; their 3 x 3 convolutions are twice as wide as those of the stage before, and
# the output of a block is four times as wide.
STAGES = (3, 4, 6, 3)
WIDTH = 64
SEED = 7
OPSET = 13


class Graph:
    """Nodes and weights in the making; every method returns the name of what it computes."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def _weight(self, *shape: int, scale: float = 1.0) -> str:
        array = self._generator.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def conv(self, x: str, into: int, out: int, size: int, stride: int = 1) -> str:
        """A convolution that keeps values about as large as they are."""
        weight = self._weight(out, into, size, size, scale=(2.0 / (into * size * size)) ** 0.5)
        bias = self._weight(out, scale=0.01)
        pads, strides = [size // 2] * 4, [stride, stride]
        return self.op(
            "Conv", x, weight, bias, kernel_shape=[size, size], pads=pads, strides=strides
        )

    def linear(self, x: str, into: int, out: int) -> str:
        """A fully connected layer."""
        weight, bias = self._weight(into, out, scale=0.02), self._weight(out, scale=0.01)
        return self.op("Gemm", x, weight, bias)


def block(graph: Graph, x: str, into: int, width: int, stride: int) -> str:
    """A bottleneck: narrow, look around, widen, add what came in."""
    y = graph.op("Relu", graph.conv(x, into, width, 1))
    y = graph.op("Relu", graph.conv(y, width, width, 3, stride))
    y = graph.conv(y, width, 4 * width, 1)
    if stride > 1 or into != 4 * width:
        x = graph.conv(x, into, 4 * width, 1, stride)
    return graph.op("Relu", graph.op("Add", x, y))


def build(narrowest: int = WIDTH) -> Any:
    """The whole model; with a ``narrowest`` below 64 channels it is as deep, and quicker."""
    graph = Graph(SEED)
    x = graph.op("Relu", graph.conv(INPUT_NAME, 3, narrowest, 7, 2))
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    into = narrowest
    for stage, blocks in enumerate(STAGES):
        width = narrowest << stage
        for number in range(blocks):
            stride = 2 if number == 0 and stage else 1
            x = block(graph, x, into, width, stride)
            into = 4 * width
    x = graph.op("Flatten", graph.op("GlobalAveragePool", x))
    logits = graph.linear(x, into, CLASSES)
    graph.nodes.append(helper.make_node("Softmax", [logits], [SCORES_NAME], axis=1))
    best = helper.make_node("ArgMax", [logits], [LABEL_NAME], axis=1, keepdims=0)
    graph.nodes.append(best)
    images = helper.make_tensor_value_info(INPUT_NAME, TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])
    outputs = [
        helper.make_tensor_value_info(LABEL_NAME, TensorProto.INT64, ["batch"]),
        helper.make_tensor_value_info(SCORES_NAME, TensorProto.FLOAT, ["batch", CLASSES]),
    ]
    made = helper.make_graph(graph.nodes, "resnet50", [images], outputs, graph.weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model and model.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--width", type=int, default=WIDTH, help="channels of the first stage")
    options = parser.parse_args(arguments)
    out: Path = options.out
    data = build(options.width).SerializeToString()
    (out / MODEL_FILE).write_bytes(data)
    facts = {
        "name": "resnet50_synthetic" + (f"_{options.width}" if options.width != WIDTH else ""),
        "file": MODEL_FILE,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "precision": "fp32",
        "inputs": [{"name": INPUT_NAME, "dtype": "float32", "shape": [3, SIDE, SIDE]}],
        "outputs": [
            {"name": LABEL_NAME, "dtype": "int64", "shape": []},
            {"name": SCORES_NAME, "dtype": "float32", "shape": [CLASSES]},
        ],
        "options": {"label_offset": 1},
        "accuracy": {"metric": "top-1", "unit": "%", "reference": 0.0, "target": 0.0},
    }
    (out / "model.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"{len(data)} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
