"""The tiny residual network: its PyTorch form for training and its ONNX form for the benchmark.

The ONNX graph has the signature of MLPerf's ResNet-50 (names, types, a background class 0, so
that the label is ``argmax - 1``) at one eighth of its input side. It is written node by node
instead of by an exporter, so that names, operator set and bytes do not depend on the version of
PyTorch. Batch normalisation and the input scale are folded into the convolutions.
"""

from __future__ import annotations

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from modelzoo.graph import OnnxGraph, checked, value
from modelzoo.layers import ConvNorm

INPUT_NAME = "input_tensor:0"
LABEL_NAME = "ArgMax:0"
SCORES_NAME = "softmax_tensor:0"
SIDE = 28
CLASSES = 11
WIDTHS = (16, 32, 48)
INPUT_SCALE = 1.0 / 64.0
OPSET = 11
IR_VERSION = 6


class ResidualBlock(nn.Module):
    """The basic residual block; the shortcut is a 1 x 1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = ConvNorm(inputs, outputs, 3, stride)
        self.second = ConvNorm(outputs, outputs, 3, 1)
        changes = stride != 1 or inputs != outputs
        self.shortcut = ConvNorm(inputs, outputs, 1, stride) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        """Map [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""
        short = x if self.shortcut is None else self.shortcut(x)
        return torch.relu(self.second(torch.relu(self.first(x))) + short)


class TinyResNet(nn.Module):
    """Scores [n, 11] of images [n, 3, 28, 28] from which the channel means were subtracted."""

    def __init__(self) -> None:
        super().__init__()
        narrow, middle, wide = WIDTHS
        self.stem = ConvNorm(3, narrow, 3, 2)
        self.blocks = nn.ModuleList(
            [
                ResidualBlock(narrow, narrow, 1),
                ResidualBlock(narrow, middle, 2),
                ResidualBlock(middle, wide, 2),
            ]
        )
        self.head = nn.Linear(wide, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """The scores before softmax."""
        x = torch.relu(self.stem(images * INPUT_SCALE))
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(x.mean(dim=(2, 3)))
        return scores


class ResNetWriter(OnnxGraph):
    """The graph of a trained network, its nodes named after the modules."""

    def convolution(self, name: str, module: ConvNorm, source: str, scale: float = 1.0) -> str:
        """Append a folded convolution of ``source`` times ``scale``; returns its output."""
        kernel, bias = module.folded()
        size, stride = module.conv.kernel_size[0], module.conv.stride[0]
        inputs = [
            source,
            self.const(kernel * np.float32(scale), name=f"{name}/kernel"),
            self.const(bias, name=f"{name}/bias"),
        ]
        shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4}
        return self.add("Conv", inputs, name, **shape)

    def block(self, name: str, module: ResidualBlock, source: str) -> str:
        """Append a residual block; returns its output."""
        first = self.convolution(f"{name}/first", module.first, source)
        relu = self.add("Relu", [first], f"{name}/relu")
        second = self.convolution(f"{name}/second", module.second, relu)
        short = source
        if module.shortcut is not None:
            short = self.convolution(f"{name}/shortcut", module.shortcut, source)
        total = self.add("Add", [second, short], f"{name}/add")
        return self.add("Relu", [total], f"{name}/out")


def to_onnx(network: TinyResNet) -> onnx.ModelProto:
    """The inference graph of a trained network, checked by ONNX."""
    network.eval()
    graph = ResNetWriter()
    x = graph.convolution("stem/conv", network.stem, INPUT_NAME, INPUT_SCALE)
    x = graph.add("Relu", [x], "stem/relu")
    for number, block in enumerate(network.blocks):
        assert isinstance(block, ResidualBlock)
        x = graph.block(f"block{number}", block, x)
    x = graph.add("GlobalAveragePool", [x], "pool")
    x = graph.add("Flatten", [x], "flat")
    head = [
        x,
        graph.const(network.head.weight.detach().numpy(), name="head/weight"),
        graph.const(network.head.bias.detach().numpy(), name="head/bias"),
    ]
    scores = graph.add("Gemm", head, "scores", transB=1)
    graph.add("Softmax", [scores], SCORES_NAME, axis=1)
    graph.add("ArgMax", [scores], LABEL_NAME, axis=1, keepdims=0)
    images = value(INPUT_NAME, "float32", "N", 3, SIDE, SIDE)
    outputs = [value(LABEL_NAME, "int64", "N"), value(SCORES_NAME, "float32", "N", CLASSES)]
    made = graph.model(
        "resnet50_tiny", [images], outputs, OPSET, IR_VERSION, producer_name="cmbench"
    )
    return checked(made)
