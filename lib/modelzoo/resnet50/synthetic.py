"""Build ResNet-50 v1.5 with random weights: as fast as the trained one.

Facts: He et al., Deep Residual Learning (2015); v1.5 puts the stride of a block on its 3 x 3
convolution. Batch normalization is folded into the convolutions, as exporters do it. Inputs and
outputs are those of MLPerf's ONNX file: 1001 classes, of which class 0 is the background.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from modelzoo import models, program
from modelzoo.graph import OnnxGraph, value

MODEL_FILE = "resnet50_synthetic.onnx"
INPUT_NAME, LABEL_NAME, SCORES_NAME = "input_tensor:0", "ArgMax:0", "softmax_tensor:0"
SIDE, CLASSES = 224, 1001
# Blocks per stage; their 3 x 3 convolutions are twice as wide as those of the stage before, and
# the output of a block is four times as wide.
STAGES = (3, 4, 6, 3)
WIDTH = 64
SEED = 7
OPSET = 13


class ResNet(OnnxGraph):
    """Builder of the network; its methods return the name of their output."""

    def conv(self, x: str, into: int, out: int, size: int, stride: int = 1) -> str:
        """A convolution that keeps values about as large as they are; ``size`` in pixels."""
        weight = self.noise(out, into, size, size, scale=(2.0 / (into * size * size)) ** 0.5)
        bias = self.noise(out, scale=0.01)
        pads, strides = [size // 2] * 4, [stride, stride]
        return self.op(
            "Conv", x, weight, bias, kernel_shape=[size, size], pads=pads, strides=strides
        )

    def linear(self, x: str, into: int, out: int) -> str:
        """A fully connected layer."""
        weight, bias = self.noise(into, out, scale=0.02), self.noise(out, scale=0.01)
        return self.op("Gemm", x, weight, bias)


def block(graph: ResNet, x: str, into: int, width: int, stride: int) -> str:
    """A bottleneck: narrow, look around, widen, add what came in."""
    y = graph.op("Relu", graph.conv(x, into, width, 1))
    y = graph.op("Relu", graph.conv(y, width, width, 3, stride))
    y = graph.conv(y, width, 4 * width, 1)
    if stride > 1 or into != 4 * width:
        x = graph.conv(x, into, 4 * width, 1, stride)
    return graph.op("Relu", graph.op("Add", x, y))


def build(narrowest: int = WIDTH) -> Any:
    """The whole model; with a ``narrowest`` below 64 channels it is as deep, and quicker."""
    graph = ResNet(SEED)
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
    graph.op("Softmax", logits, axis=1)
    graph.name_last(SCORES_NAME)
    graph.op("ArgMax", logits, axis=1, keepdims=0)
    graph.name_last(LABEL_NAME)
    images = value(INPUT_NAME, "float32", "batch", 3, SIDE, SIDE)
    outputs = [value(LABEL_NAME, "int64", "batch"), value(SCORES_NAME, "float32", "batch", CLASSES)]
    return graph.model("resnet50", [images], outputs, OPSET)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model and model.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--width", type=int, default=WIDTH, help="channels of the first stage")
    options = parser.parse_args(arguments)
    facts = {
        "name": "resnet50_synthetic" + (f"_{options.width}" if options.width != WIDTH else ""),
        **models.saved(options.out / MODEL_FILE, build(options.width)),
        "precision": "fp32",
        "inputs": [models.tensor(INPUT_NAME, 3, SIDE, SIDE)],
        "outputs": [
            models.tensor(LABEL_NAME, dtype="int64"),
            models.tensor(SCORES_NAME, CLASSES),
        ],
        "options": {"label_offset": 1},
        "accuracy": models.accuracy("top-1", "%"),
    }
    models.write_facts(options.out, facts)
    print(f"{facts['bytes']} bytes written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
