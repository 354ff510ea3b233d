"""The tiny detector: its PyTorch form for training and its ONNX forms for three benchmarks.

One network serves RetinaNet and both SSDs; what differs is how a picture goes in and how boxes
come out, and that is in the ONNX graph, with the names, types and ranks of the real models. The
graphs are written node by node, so that names, operator set and bytes do not depend on an
exporter. Every place of a 12 x 12 grid tells how likely an object of each class is centred there
and how far its box reaches in the four directions. A place counts only where no neighbour is
surer, which stands for the suppression of overlapping boxes.
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

SIDE = 96
STRIDE = 8
GRID = SIDE // STRIDE
CLASSES = 6
# Outputs, stride and dilation of the 3 x 3 convolutions.
LAYERS = ((16, 2, 1), (32, 2, 1), (32, 1, 1), (48, 2, 1), (48, 1, 1), (48, 1, 2))
MOST = 100
LEAST_SCORE = 0.05
MEANS = (0.485, 0.456, 0.406)
DEVIATIONS = (0.229, 0.224, 0.225)
OPSET = 13
IR_VERSION = 7

Weights = npt.NDArray[np.float32]


class Layer(nn.Module):
    """A convolution with batch normalisation and ReLU: one convolution when exported."""

    def __init__(self, inputs: int, outputs: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, dilation, dilation, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""
        return torch.relu(self.norm(self.conv(x)))

    def folded(self) -> tuple[Weights, Weights]:
        """Kernel and bias of the one convolution that computes the same in inference."""
        norm = self.norm
        assert norm.running_var is not None
        assert norm.running_mean is not None
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        kernel = self.conv.weight * scale[:, None, None, None]
        bias = norm.bias - norm.running_mean * scale
        return kernel.detach().numpy().copy(), bias.detach().numpy().copy()


class Detector(nn.Module):
    """For pictures [n, 3, 96, 96], normalised: logits [n, 6, 12, 12], reaches [n, 4, 12, 12].

    A reach is the natural logarithm of a distance in strides: to the left, top, right, bottom.
    """

    def __init__(self) -> None:
        super().__init__()
        widths = [3, *(outputs for outputs, _, _ in LAYERS)]
        self.layers = nn.ModuleList(
            Layer(inputs, *layer) for inputs, layer in zip(widths, LAYERS, strict=False)
        )
        self.head = nn.Conv2d(widths[-1], CLASSES + 4, 1)
        # Hardly any place holds an object: training starts from there.
        nn.init.constant_(self.head.bias[:CLASSES], -4.0)  # type: ignore[index, unused-ignore]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and reaches."""
        for layer in self.layers:
            x = layer(x)
        found = self.head(x)
        return found[:, :CLASSES], found[:, CLASSES:]


@dataclass(frozen=True, slots=True)
class Form:
    """How a benchmark's model takes pictures and gives boxes.

    ``outputs`` names boxes, labels, scores and, for some, their count. ``pixels`` are boxes in
    pixels of the input in place of shares of its sides; ``rows_first`` puts y before x.
    ``labels`` are the values for the classes in order. With ``single`` the model takes one
    picture and gives as many boxes as it found.
    """

    input: str
    outputs: dict[str, str]
    labels: tuple[int, ...]
    pictures: str = "normalised"
    pixels: bool = False
    rows_first: bool = False
    single: bool = False
    float_labels: bool = False


def forms(categories: tuple[int, ...]) -> dict[str, Form]:
    """The forms by benchmark; ``categories`` are the numbers of the classes in the data set."""
    return {
        "retinanet": Form(
            "images",
            {"boxes": "boxes", "labels": "labels", "scores": "scores"},
            categories,
            pictures="shares",
            pixels=True,
            single=True,
        ),
        "ssd-mobilenet": Form(
            "image_tensor:0",
            {
                "count": "num_detections:0",
                "boxes": "detection_boxes:0",
                "scores": "detection_scores:0",
                "labels": "detection_classes:0",
            },
            categories,
            pictures="bytes",
            rows_first=True,
            float_labels=True,
        ),
        "ssd-resnet34": Form(
            "image",
            {"boxes": "bboxes", "labels": "labels", "scores": "scores"},
            tuple(range(1, CLASSES + 1)),
        ),
    }


@dataclass(slots=True)
class Graph:
    """Collects the nodes and weights of one ONNX graph."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Append a node and return the name of its output."""
        self.nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def const(self, name: str, values: Any, dtype: Any = np.float32) -> str:
        """Append a constant and return its name."""
        array = np.ascontiguousarray(np.asarray(values, dtype=dtype))
        self.weights.append(numpy_helper.from_array(array, name))
        return name


def to_onnx(network: Detector, form: Form) -> onnx.ModelProto:
    """The inference graph of a trained network in a benchmark's form, checked by ONNX."""
    network.eval()
    graph = Graph()
    logits, reaches = _parts(graph, _body(graph, network, _pictures(graph, form)))
    _boxes(graph, form, reaches, *_best(graph, logits))
    made = helper.make_graph(
        graph.nodes, "detector_tiny", [_input(form)], _outputs(form), graph.weights
    )
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def _input(form: Form) -> onnx.ValueInfoProto:
    if form.pictures == "bytes":
        return helper.make_tensor_value_info(
            form.input, TensorProto.UINT8, ["batch", SIDE, SIDE, 3]
        )
    batch = 1 if form.single else "batch"
    return helper.make_tensor_value_info(form.input, TensorProto.FLOAT, [batch, 3, SIDE, SIDE])


def _outputs(form: Form) -> list[onnx.ValueInfoProto]:
    lead: list[Any] = ["found"] if form.single else ["batch", MOST]
    label = TensorProto.FLOAT if form.float_labels else TensorProto.INT64
    about = {
        "count": (TensorProto.FLOAT, ["batch"]),
        "boxes": (TensorProto.FLOAT, [*lead, 4]),
        "labels": (label, lead),
        "scores": (TensorProto.FLOAT, lead),
    }
    return [helper.make_tensor_value_info(name, *about[k]) for k, name in form.outputs.items()]


def _pictures(graph: Graph, form: Form) -> str:
    """Pictures as the network takes them, from those that the benchmark feeds."""
    source = form.input
    if form.pictures == "bytes":
        wide = graph.add("Cast", [source], "in/float", to=TensorProto.FLOAT)
        moved = graph.add("Transpose", [wide], "in/nchw", perm=[0, 3, 1, 2])
        source = graph.add("Mul", [moved, graph.const("in/unit", 1 / 255)], "in/shares")
    if form.pictures != "normalised":
        means = graph.const("in/means", np.reshape(MEANS, (1, 3, 1, 1)))
        centred = graph.add("Sub", [source, means], "in/centred")
        scale = graph.const("in/scale", 1 / np.reshape(DEVIATIONS, (1, 3, 1, 1)))
        source = graph.add("Mul", [centred, scale], "in/normalised")
    return source


def _body(graph: Graph, network: Detector, x: str) -> str:
    """The convolutions; returns the head's output [n, 10, 12, 12]."""
    for number, (layer, (_, stride, dilation)) in enumerate(
        zip(network.layers, LAYERS, strict=True)
    ):
        assert isinstance(layer, Layer)
        kernel, bias = layer.folded()
        name = f"layer{number}"
        inputs = [x, graph.const(f"{name}/kernel", kernel), graph.const(f"{name}/bias", bias)]
        conv = graph.add(
            "Conv",
            inputs,
            f"{name}/conv",
            kernel_shape=[3, 3],
            strides=[stride] * 2,
            pads=[dilation] * 4,
            dilations=[dilation] * 2,
        )
        x = graph.add("Relu", [conv], f"{name}/relu")
    head = network.head
    assert head.bias is not None
    inputs = [
        x,
        graph.const("head/kernel", head.weight.detach().numpy()),
        graph.const("head/bias", head.bias.detach().numpy()),
    ]
    return graph.add("Conv", inputs, "head/conv", kernel_shape=[1, 1])


def _parts(graph: Graph, found: str) -> tuple[str, str]:
    """The head's output as logits and reaches."""
    names = ["logits", "reaches"]
    sizes = graph.const("parts", [CLASSES, 4], np.int64)
    graph.nodes.append(helper.make_node("Split", [found, sizes], names, "parts", axis=1))
    return names[0], names[1]


def _best(graph: Graph, logits: str) -> tuple[str, str, str]:
    """The surest places: scores [n, 100], their classes and their cells [n, 100]."""
    scores = graph.add("Sigmoid", [logits], "sure")
    around = graph.add(
        "MaxPool", [scores], "around", kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4
    )
    # Not "Equal": a runtime may round the two differently in its own formats.
    lower = graph.add("Sub", [around, scores], "lower")
    gate = graph.add("Less", [lower, graph.const("gate/least", 1e-6)], "gate")
    peaks = graph.add(
        "Mul", [scores, graph.add("Cast", [gate], "gate/float", to=TensorProto.FLOAT)], "peaks"
    )
    shape = graph.const("flat/shape", [-1, CLASSES * GRID * GRID], np.int64)
    flat = graph.add("Reshape", [peaks, shape], "flat")
    count = graph.const("top/count", [MOST], np.int64)
    graph.nodes.append(helper.make_node("TopK", [flat, count], ["top", "top/index"], "top", axis=1))
    cells = graph.const("cells", GRID * GRID, np.int64)
    classes = graph.add("Div", ["top/index", cells], "top/class")
    whole = graph.add("Mul", [classes, cells], "top/whole")
    return "top", classes, graph.add("Sub", ["top/index", whole], "top/cell")


def _boxes(graph: Graph, form: Form, reaches: str, scores: str, classes: str, cells: str) -> None:
    """Decode the reaches of the surest places and end in the form's outputs."""
    corners = graph.add("Mul", [_corners(graph, reaches), graph.const("unit", 1 / GRID)], "corners")
    inside = graph.add(
        "Clip", [corners, graph.const("zero", 0.0), graph.const("one", 1.0)], "inside"
    )
    table = graph.add("Transpose", [inside], "table", perm=[0, 2, 1])
    axis = graph.const("last", [-1], np.int64)
    index = graph.add("Unsqueeze", [cells, axis], "cell/column")
    wide = graph.add(
        "Tile", [index, graph.const("cell/four", [1, 1, 4], np.int64)], "cell/four times"
    )
    boxes = graph.add("GatherElements", [table, wide], "chosen", axis=1)
    order = [1, 0, 3, 2] if form.rows_first else [0, 1, 2, 3]
    boxes = graph.add("Gather", [boxes, graph.const("order", order, np.int64)], "ordered", axis=2)
    if form.pixels:
        boxes = graph.add("Mul", [boxes, graph.const("side", float(SIDE))], "pixels")
    kind = np.float32 if form.float_labels else np.int64
    labels = graph.add("Gather", [graph.const("labels/all", form.labels, kind), classes], "label")
    results = {"boxes": boxes, "labels": labels, "scores": scores}
    if form.single:
        results = _only_found(graph, results)
    for name, source in results.items():
        graph.nodes.append(helper.make_node("Identity", [source], [form.outputs[name]]))
    if "count" in form.outputs:
        sure = graph.add("Less", [graph.const("least", LEAST_SCORE), scores], "counted")
        ones = graph.add("Cast", [sure], "counted/float", to=TensorProto.FLOAT)
        axes = graph.const("counted/axis", [1], np.int64)
        graph.add("ReduceSum", [ones, axes], form.outputs["count"], keepdims=0)


def _corners(graph: Graph, reaches: str) -> str:
    """Left, top, right and bottom [n, 4, 144] of the box of every place, in strides."""
    shape = graph.const("reach/shape", [-1, 4, GRID * GRID], np.int64)
    away = graph.add("Exp", [graph.add("Reshape", [reaches, shape], "reach/flat")], "reach")
    sign = graph.const("reach/sign", np.reshape([-1, -1, 1, 1], (1, 4, 1)))
    return graph.add(
        "Add",
        [graph.add("Mul", [away, sign], "reach/signed"), graph.const("centres", centres())],
        "corners/strides",
    )


def _only_found(graph: Graph, results: dict[str, str]) -> dict[str, str]:
    """The boxes of the one picture that are sure enough, without the batch."""
    first = graph.const("first", [0], np.int64)
    flat = {
        name: graph.add("Squeeze", [source, first], f"{name}/flat")
        for name, source in results.items()
    }
    sure = graph.add("Less", [graph.const("least", LEAST_SCORE), flat["scores"]], "kept")
    places = graph.add("NonZero", [sure], "kept/places")
    line = graph.const("kept/line", [-1], np.int64)
    rows = graph.add("Reshape", [places, line], "kept/rows")
    return {
        name: graph.add("Gather", [source, rows], f"{name}/kept", axis=0)
        for name, source in flat.items()
    }


def centres() -> Weights:
    """The middle of every place [1, 4, 144] as x, y, x, y, in strides."""
    y, x = np.mgrid[0:GRID, 0:GRID].reshape(2, -1) + 0.5
    return np.stack([x, y, x, y])[None].astype(np.float32)
