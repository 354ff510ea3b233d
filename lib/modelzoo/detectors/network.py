"""The tiny detector: its PyTorch form for training and its ONNX forms for three benchmarks.

One network serves RetinaNet and both SSDs; what differs is how an image goes in and how boxes
come out, and that is in the ONNX graph, with the names, types and ranks of the real models. The
graphs are written node by node, so that names, operator set and bytes do not depend on an
exporter. Every cell of a 12 x 12 grid predicts how likely an object of a class is centred in it
and how far its box reaches in the four directions. A cell counts only where no neighbour has a
higher score, which replaces the suppression of overlapping boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from modelzoo import graph as onnx_graph
from modelzoo.graph import Array, checked, value
from modelzoo.layers import ConvNorm

SIDE = 96
STRIDE = 8
GRID = SIDE // STRIDE
CLASSES = 6
# Outputs, stride and dilation of the 3 x 3 convolutions.
LAYERS = ((16, 2, 1), (32, 2, 1), (32, 1, 1), (48, 2, 1), (48, 1, 1), (48, 1, 2))
MAX_DETECTIONS = 100
LEAST_SCORE = 0.05
MEANS = (0.485, 0.456, 0.406)
DEVIATIONS = (0.229, 0.224, 0.225)
OPSET = 13
IR_VERSION = 7


class TinyDetector(nn.Module):
    """For images [n, 3, 96, 96], normalised: logits [n, 6, 12, 12], reaches [n, 4, 12, 12].

    A reach is the natural logarithm of a distance in strides: to the left, top, right, bottom.
    """

    def __init__(self) -> None:
        super().__init__()
        widths = [3, *(outputs for outputs, _, _ in LAYERS)]
        self.layers = nn.ModuleList(
            ConvNorm(inputs, outputs, 3, stride, dilation)
            for inputs, (outputs, stride, dilation) in zip(widths, LAYERS, strict=False)
        )
        self.head = nn.Conv2d(widths[-1], CLASSES + 4, 1)
        # Hardly any cell holds an object: training starts from there.
        nn.init.constant_(self.head.bias[:CLASSES], -4.0)  # type: ignore[index, unused-ignore]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and reaches."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        outputs = self.head(x)
        return outputs[:, :CLASSES], outputs[:, CLASSES:]


@dataclass(frozen=True, slots=True)
class DetectorForm:
    """How a benchmark's model takes images and gives boxes.

    ``outputs`` names boxes, labels, scores and, for some, their count. ``pixels`` are boxes in
    pixels of the input instead of shares of its sides; ``rows_first`` puts y before x.
    ``labels`` are the values for the classes in order. With ``single`` the model takes one
    image and gives as many boxes as it found.
    """

    input: str
    outputs: dict[str, str]
    labels: tuple[int, ...]
    images: str = "normalised"
    pixels: bool = False
    rows_first: bool = False
    single: bool = False
    float_labels: bool = False


def forms(categories: tuple[int, ...]) -> dict[str, DetectorForm]:
    """The forms by benchmark; ``categories`` are the numbers of the classes in the data set."""
    return {
        "retinanet": DetectorForm(
            "images",
            {"boxes": "boxes", "labels": "labels", "scores": "scores"},
            categories,
            images="shares",
            pixels=True,
            single=True,
        ),
        "ssd-mobilenet": DetectorForm(
            "image_tensor:0",
            {
                "count": "num_detections:0",
                "boxes": "detection_boxes:0",
                "scores": "detection_scores:0",
                "labels": "detection_classes:0",
            },
            categories,
            images="bytes",
            rows_first=True,
            float_labels=True,
        ),
        "ssd-resnet34": DetectorForm(
            "image",
            {"boxes": "bboxes", "labels": "labels", "scores": "scores"},
            tuple(range(1, CLASSES + 1)),
        ),
    }


class TinyDetectorGraph(onnx_graph.OnnxGraph):
    """The graph of a trained network, its nodes and constants named."""

    def fixed(self, name: str, values: Any, dtype: Any = np.float32) -> str:
        """Append a constant, of at least one dimension, and return its name."""
        return self.const(np.atleast_1d(np.asarray(values, dtype=dtype)), dtype, name)


def to_onnx(network: TinyDetector, form: DetectorForm) -> onnx.ModelProto:
    """The inference graph of a trained network in a benchmark's form, checked by ONNX."""
    network.eval()
    graph = TinyDetectorGraph()
    logits, reaches = _parts(graph, _body(graph, network, _images(graph, form)))
    _boxes(graph, form, reaches, *_best(graph, logits))
    made = graph.model("detector_tiny", [_input(form)], _outputs(form), OPSET, IR_VERSION)
    return checked(made)


def _input(form: DetectorForm) -> onnx.ValueInfoProto:
    if form.images == "bytes":
        return value(form.input, "uint8", "batch", SIDE, SIDE, 3)
    return value(form.input, "float32", 1 if form.single else "batch", 3, SIDE, SIDE)


def _outputs(form: DetectorForm) -> list[onnx.ValueInfoProto]:
    lead: tuple[Any, ...] = ("found",) if form.single else ("batch", MAX_DETECTIONS)
    about: dict[str, tuple[Any, ...]] = {
        "count": ("float32", "batch"),
        "boxes": ("float32", *lead, 4),
        "labels": ("float32" if form.float_labels else "int64", *lead),
        "scores": ("float32", *lead),
    }
    return [value(name, *about[kind]) for kind, name in form.outputs.items()]


def _images(graph: TinyDetectorGraph, form: DetectorForm) -> str:
    """Images as the network takes them, from those that the benchmark feeds."""
    source = form.input
    if form.images == "bytes":
        wide = graph.add("Cast", [source], "in/float", to=TensorProto.FLOAT)
        moved = graph.add("Transpose", [wide], "in/nchw", perm=[0, 3, 1, 2])
        source = graph.add("Mul", [moved, graph.fixed("in/unit", 1 / 255)], "in/shares")
    if form.images != "normalised":
        means = graph.fixed("in/means", np.reshape(MEANS, (1, 3, 1, 1)))
        centred = graph.add("Sub", [source, means], "in/centred")
        scale = graph.fixed("in/scale", 1 / np.reshape(DEVIATIONS, (1, 3, 1, 1)))
        source = graph.add("Mul", [centred, scale], "in/normalised")
    return source


def _body(graph: TinyDetectorGraph, network: TinyDetector, x: str) -> str:
    """The convolutions; returns the head's output [n, 10, 12, 12]."""
    for number, (layer, (_, stride, dilation)) in enumerate(
        zip(network.layers, LAYERS, strict=True)
    ):
        assert isinstance(layer, ConvNorm)
        kernel, bias = layer.folded()
        name = f"layer{number}"
        inputs = [x, graph.fixed(f"{name}/kernel", kernel), graph.fixed(f"{name}/bias", bias)]
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
        graph.fixed("head/kernel", head.weight.detach().numpy()),
        graph.fixed("head/bias", head.bias.detach().numpy()),
    ]
    return graph.add("Conv", inputs, "head/conv", kernel_shape=[1, 1])


def _parts(graph: TinyDetectorGraph, head: str) -> tuple[str, str]:
    """The head's output as logits and reaches."""
    names = ["logits", "reaches"]
    sizes = graph.fixed("parts", [CLASSES, 4], np.int64)
    graph.nodes.append(helper.make_node("Split", [head, sizes], names, "parts", axis=1))
    return names[0], names[1]


def _best(graph: TinyDetectorGraph, logits: str) -> tuple[str, str, str]:
    """Return the cells with the highest scores: scores, classes and cells, all [n, 100]."""
    scores = graph.add("Sigmoid", [logits], "sure")
    around = graph.add(
        "MaxPool", [scores], "around", kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4
    )
    # Not "Equal": a runtime may round the two differently in its own formats.
    lower = graph.add("Sub", [around, scores], "lower")
    gate = graph.add("Less", [lower, graph.fixed("gate/least", 1e-6)], "gate")
    peaks = graph.add(
        "Mul", [scores, graph.add("Cast", [gate], "gate/float", to=TensorProto.FLOAT)], "peaks"
    )
    shape = graph.fixed("flat/shape", [-1, CLASSES * GRID * GRID], np.int64)
    flat = graph.add("Reshape", [peaks, shape], "flat")
    count = graph.fixed("top/count", [MAX_DETECTIONS], np.int64)
    graph.nodes.append(helper.make_node("TopK", [flat, count], ["top", "top/index"], "top", axis=1))
    cells = graph.fixed("cells", GRID * GRID, np.int64)
    classes = graph.add("Div", ["top/index", cells], "top/class")
    whole = graph.add("Mul", [classes, cells], "top/whole")
    return "top", classes, graph.add("Sub", ["top/index", whole], "top/cell")


def _boxes(
    graph: TinyDetectorGraph,
    form: DetectorForm,
    reaches: str,
    scores: str,
    classes: str,
    cells: str,
) -> None:
    """Decode the reaches of the best cells into the form's outputs."""
    corners = graph.add("Mul", [_corners(graph, reaches), graph.fixed("unit", 1 / GRID)], "corners")
    inside = graph.add(
        "Clip", [corners, graph.fixed("zero", 0.0), graph.fixed("one", 1.0)], "inside"
    )
    table = graph.add("Transpose", [inside], "table", perm=[0, 2, 1])
    axis = graph.fixed("last", [-1], np.int64)
    index = graph.add("Unsqueeze", [cells, axis], "cell/column")
    wide = graph.add(
        "Tile", [index, graph.fixed("cell/four", [1, 1, 4], np.int64)], "cell/four times"
    )
    boxes = graph.add("GatherElements", [table, wide], "chosen", axis=1)
    order = [1, 0, 3, 2] if form.rows_first else [0, 1, 2, 3]
    boxes = graph.add("Gather", [boxes, graph.fixed("order", order, np.int64)], "ordered", axis=2)
    if form.pixels:
        boxes = graph.add("Mul", [boxes, graph.fixed("side", float(SIDE))], "pixels")
    kind = np.float32 if form.float_labels else np.int64
    labels = graph.add("Gather", [graph.fixed("labels/all", form.labels, kind), classes], "label")
    results = {"boxes": boxes, "labels": labels, "scores": scores}
    if form.single:
        results = _keep_sure(graph, results)
    for name, source in results.items():
        graph.name(source, form.outputs[name])
    if "count" in form.outputs:
        sure = graph.add("Less", [graph.fixed("least", LEAST_SCORE), scores], "counted")
        ones = graph.add("Cast", [sure], "counted/float", to=TensorProto.FLOAT)
        axes = graph.fixed("counted/axis", [1], np.int64)
        graph.add("ReduceSum", [ones, axes], form.outputs["count"], keepdims=0)


def _corners(graph: TinyDetectorGraph, reaches: str) -> str:
    """Return left, top, right and bottom [n, 4, 144] of the boxes of all cells, in strides."""
    shape = graph.fixed("reach/shape", [-1, 4, GRID * GRID], np.int64)
    away = graph.add("Exp", [graph.add("Reshape", [reaches, shape], "reach/flat")], "reach")
    sign = graph.fixed("reach/sign", np.reshape([-1, -1, 1, 1], (1, 4, 1)))
    return graph.add(
        "Add",
        [graph.add("Mul", [away, sign], "reach/signed"), graph.fixed("centres", centres())],
        "corners/strides",
    )


def _keep_sure(graph: TinyDetectorGraph, results: dict[str, str]) -> dict[str, str]:
    """Return the boxes of the one image above the least score, without the batch."""
    first = graph.fixed("first", [0], np.int64)
    flat = {
        name: graph.add("Squeeze", [source, first], f"{name}/flat")
        for name, source in results.items()
    }
    sure = graph.add("Less", [graph.fixed("least", LEAST_SCORE), flat["scores"]], "kept")
    places = graph.add("NonZero", [sure], "kept/places")
    line = graph.fixed("kept/line", [-1], np.int64)
    rows = graph.add("Reshape", [places, line], "kept/rows")
    return {
        name: graph.add("Gather", [source, rows], f"{name}/kept", axis=0)
        for name, source in flat.items()
    }


def centres() -> Array:
    """Return the centres of all cells [1, 4, 144] as x, y, x, y, in strides."""
    y, x = np.mgrid[0:GRID, 0:GRID].reshape(2, -1) + 0.5
    return np.stack([x, y, x, y])[None].astype(np.float32)
