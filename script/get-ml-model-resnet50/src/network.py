"""The tiny residual network: its PyTorch form for training and its ONNX form for the benchmark.

The ONNX graph has the signature of MLPerf's ResNet-50 (names, types, a background class 0, so
that the label is ``argmax - 1``) at one eighth of its input side. It is written node by node
instead of by an exporter, so that names, operator set and bytes do not depend on the version of
PyTorch. Batch normalisation and the input scale are folded into the convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

INPUT_NAME = "input_tensor:0"
LABEL_NAME = "ArgMax:0"
SCORES_NAME = "softmax_tensor:0"
SIDE = 28
CLASSES = 11
WIDTHS = (16, 32, 48)
INPUT_SCALE = 1.0 / 64.0
OPSET = 11
IR_VERSION = 6

Weights = npt.NDArray[np.float32]


class ConvNorm(nn.Module):
    """A convolution without bias and its batch normalisation: one convolution when exported."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""
        result: Tensor = self.norm(self.conv(x))
        return result

    def folded(self) -> tuple[Weights, Weights]:
        """Kernel and bias of the one convolution that computes the same in inference."""
        norm = self.norm
        assert norm.running_var is not None
        assert norm.running_mean is not None
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        kernel = self.conv.weight * scale[:, None, None, None]
        bias = norm.bias - norm.running_mean * scale
        return kernel.detach().numpy().copy(), bias.detach().numpy().copy()


class Block(nn.Module):
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
            [Block(narrow, narrow, 1), Block(narrow, middle, 2), Block(middle, wide, 2)]
        )
        self.head = nn.Linear(wide, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """The scores before softmax."""
        x = torch.relu(self.stem(images * INPUT_SCALE))
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(x.mean(dim=(2, 3)))
        return scores


@dataclass(slots=True)
class GraphWriter:
    """Collects the nodes and weights of one ONNX graph."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Append a node and return the name of its output."""
        self.nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def constant(self, name: str, values: Weights) -> str:
        """Append a weight and return its name."""
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def convolution(self, name: str, module: ConvNorm, source: str, scale: float = 1.0) -> str:
        """Append a folded convolution of ``source`` times ``scale``; returns its output."""
        kernel, bias = module.folded()
        size, stride = module.conv.kernel_size[0], module.conv.stride[0]
        inputs = [
            source,
            self.constant(f"{name}/kernel", kernel * np.float32(scale)),
            self.constant(f"{name}/bias", bias),
        ]
        return self.add(
            "Conv",
            inputs,
            name,
            kernel_shape=[size] * 2,
            strides=[stride] * 2,
            pads=[size // 2] * 4,
        )

    def block(self, name: str, module: Block, source: str) -> str:
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
    graph = GraphWriter()
    x = graph.convolution("stem/conv", network.stem, INPUT_NAME, INPUT_SCALE)
    x = graph.add("Relu", [x], "stem/relu")
    for number, block in enumerate(network.blocks):
        assert isinstance(block, Block)
        x = graph.block(f"block{number}", block, x)
    x = graph.add("GlobalAveragePool", [x], "pool")
    x = graph.add("Flatten", [x], "flat")
    head = [
        x,
        graph.constant("head/weight", network.head.weight.detach().numpy()),
        graph.constant("head/bias", network.head.bias.detach().numpy()),
    ]
    scores = graph.add("Gemm", head, "scores", transB=1)
    graph.add("Softmax", [scores], SCORES_NAME, axis=1)
    graph.add("ArgMax", [scores], LABEL_NAME, axis=1, keepdims=0)
    return _model(graph)


def _model(graph: GraphWriter) -> onnx.ModelProto:
    images = helper.make_tensor_value_info(INPUT_NAME, TensorProto.FLOAT, ["N", 3, SIDE, SIDE])
    outputs = [
        helper.make_tensor_value_info(LABEL_NAME, TensorProto.INT64, ["N"]),
        helper.make_tensor_value_info(SCORES_NAME, TensorProto.FLOAT, ["N", CLASSES]),
    ]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "resnet50_tiny", [images], outputs, graph.weights),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="cmbench",
    )
    onnx.checker.check_model(model, full_check=True)
    return model
