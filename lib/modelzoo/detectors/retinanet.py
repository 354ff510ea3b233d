"""RetinaNet with ResNeXt-50 32x4d: the network and its decoding of boxes, with any weights.

Facts: Lin et al., Focal Loss for Dense Object Detection (2017); Xie et al., Aggregated Residual
Transformations (2017); thresholds and counts are those that the reference implementation has by
default: candidates above 0.05, the best 1000 of each level of five, an overlap of at most 0.5
among boxes of one class, 300 boxes at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from modelzoo.detectors.graph import Array, DetectorGraph, value

SIDE, CLASSES = 800, 264
# Blocks per stage, the width of its grouped convolutions and that of its results.
STAGES = ((3, 128, 256), (4, 256, 512), (6, 512, 1024), (3, 1024, 2048))
GROUPS = 32
DEEP = 256
MEANS, DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
STRIDES = (8, 16, 32, 64, 128)
SIZES = (32, 64, 128, 256, 512)
SHAPES = 9
LEAST_SCORE, BEST, OVERLAP, MOST = 0.05, 1000, 0.5, 300
# Chosen so that noise gives as many candidates as photographs do; see the README of the script.
SPREAD, BIAS = 1.0, -9.0
# exp of more is too much for a box.
LARGEST = float(np.log(1000 / 16))
SEED = 11


def block(graph: DetectorGraph, x: str, sizes: tuple[int, int, int], stride: int) -> str:
    """A bottleneck with a grouped convolution: narrow, look around, widen, add what came in."""
    into, width, out = sizes
    y = graph.relu(graph.conv(x, into, width))
    y = graph.relu(graph.conv(y, width, width, 3, stride, groups=GROUPS))
    y = graph.conv(y, width, out, gain=0.2)
    return graph.residual(x, y, (into, out), stride)


def backbone(graph: DetectorGraph, x: str) -> list[str]:
    """The results of the last three stages: 512, 1024 and 2048 deep, at 1/8, 1/16 and 1/32."""
    x = graph.relu(graph.conv(x, 3, 64, 7, 2))
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    into, stages = 64, []
    for stage, (blocks, width, out) in enumerate(STAGES):
        for number in range(blocks):
            stride = 2 if number == 0 and stage else 1
            x = block(graph, x, (into, width, out), stride)
            into = out
        stages.append(x)
    return stages[1:]


def pyramid(graph: DetectorGraph, stages: list[str]) -> list[str]:
    """Return five levels, all 256 deep, every one half the size of the one before."""
    above: str | None = None
    levels: list[str] = []
    for x, (_, _, depth) in zip(reversed(stages), reversed(STAGES), strict=False):
        side = graph.conv(x, depth, DEEP, gain=1.0)
        if above is not None:
            # The one above is resized to the size of this one, whatever that is.
            wanted = graph.op("Shape", side)
            wider = graph.op(
                "Resize",
                above,
                "",
                "",
                wanted,
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
            side = graph.op("Add", side, wider)
        above = side
        # The sums have grown by the level above.
        levels.insert(0, graph.conv(side, DEEP, DEEP, 3, gain=1.0 / (len(levels) + 1)))
    levels.append(graph.conv(levels[-1], DEEP, DEEP, 3, 2))
    levels.append(graph.conv(graph.relu(levels[-1]), DEEP, DEEP, 3, 2))
    return levels


def head(graph: DetectorGraph, levels: list[str], out: int, gain: float, bias: float) -> list[str]:
    """Apply four convolutions and a last one to all levels, with the same weights: [cells, out]."""
    shared = SharedConvolutions(graph)
    outputs = []
    for level in levels:
        x = level
        for layer in range(4):
            x = graph.relu(shared.conv(layer, x, DEEP, gain=2.0, bias=0.0))
        x = shared.conv(4, x, SHAPES * out, gain=gain, bias=bias)
        outputs.append(graph.shape(graph.op("Transpose", x, perm=[0, 2, 3, 1]), -1, out))
    return outputs


class SharedConvolutions:
    """Convolutions that are used several times with the same weights."""

    def __init__(self, graph: DetectorGraph) -> None:
        self._graph = graph
        self._made: dict[int, tuple[str, str]] = {}

    def conv(self, layer: int, x: str, out: int, *, gain: float, bias: float) -> str:
        """Layer ``layer``: 3 x 3, 256 deep."""
        if layer not in self._made:
            scale = (gain / (9 * DEEP)) ** 0.5
            weight = self._graph.noise(out, DEEP, 3, 3, scale=scale)
            self._made[layer] = weight, self._graph.const(np.full(out, bias))
        return self._graph.op("Conv", x, *self._made[layer], kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def anchors(side: int) -> list[Array]:
    """Return the anchors [cells * 9, 4] of the levels: left, top, right, bottom."""
    levels = []
    for stride, size in zip(STRIDES, SIZES, strict=True):
        count = -(-side // stride)
        roots = np.sqrt(np.asarray([0.5, 1.0, 2.0]))
        scales = size * 2.0 ** (np.arange(3) / 3)
        # Width first: a shape of 0.5 is half as high as it is wide.
        widths = (scales[None, :] / roots[:, None]).ravel()
        heights = (scales[None, :] * roots[:, None]).ravel()
        corners = np.round(np.stack([-widths, -heights, widths, heights], axis=1) / 2)
        places = np.arange(count) * stride
        across, down = np.meshgrid(places, places)
        shifts = np.stack([across, down, across, down], axis=-1).reshape(-1, 1, 4)
        levels.append((shifts + corners[None]).reshape(-1, 4).astype(np.float32))
    return levels


def best_of(graph: DetectorGraph, logits: str, offsets: str, boxes: Array) -> tuple[str, str, str]:
    """Boxes [n, 4], scores [n] and labels [n] of the best candidates of a level."""
    scores = graph.op("Sigmoid", graph.shape(logits, -1))
    sure = graph.op("Greater", scores, graph.const(LEAST_SCORE))
    places = graph.shape(graph.op("NonZero", sure), -1)
    scores = graph.take(scores, places)
    count = graph.op("Min", graph.op("Shape", scores), graph.whole(BEST))
    scores, order = graph.ops("TopK", scores, count, outputs=2, axis=0)
    places = graph.take(places, order)
    classes = graph.whole(CLASSES)
    anchor = graph.op("Div", places, classes)
    labels = graph.op("Mod", places, classes)
    decoded = decode(graph, graph.take(offsets, anchor), graph.take(graph.const(boxes), anchor))
    return decoded, scores, labels


def decode(graph: DetectorGraph, offsets: str, boxes: str) -> str:
    """Boxes [n, 4] moved and stretched as the network says, inside of the image."""
    half = graph.const(0.5)
    low, high = graph.cut(boxes, 0, 2, 1), graph.cut(boxes, 2, 4, 1)
    sizes = graph.op("Sub", high, low)
    centres = graph.op("Add", low, graph.op("Mul", sizes, half))
    move, stretch = graph.cut(offsets, 0, 2, 1), graph.cut(offsets, 2, 4, 1)
    stretch = graph.op("Min", stretch, graph.const(LARGEST))
    centres = graph.op("Add", centres, graph.op("Mul", move, sizes))
    reach = graph.op("Mul", graph.op("Mul", graph.op("Exp", stretch), sizes), half)
    corners = graph.op(
        "Concat", graph.op("Sub", centres, reach), graph.op("Add", centres, reach), axis=1
    )
    return graph.op("Clip", corners, graph.const(0.0), graph.const(float(SIDE)))


def keep(graph: DetectorGraph, boxes: str, scores: str, labels: str) -> None:
    """Name the outputs: the boxes left after suppression of overlaps within a class."""
    # Boxes of a class are shifted by an offset, so that they overlap no other class.
    apart = graph.op("Mul", graph.op("Cast", labels, to=1), graph.const(SIDE + 1.0))
    moved = graph.op("Add", boxes, graph.shape(apart, -1, 1))
    boxed, scored = graph.shape(moved, 1, -1, 4), graph.shape(scores, 1, 1, -1)
    chosen = graph.suppressed(boxed, scored, MOST, OVERLAP, 0.0)
    chosen = graph.shape(graph.cut(chosen, 2, 3, 1), -1)
    for x, name in ((boxes, "boxes"), (scores, "scores"), (labels, "labels")):
        graph.name(graph.take(x, chosen), name)


def build() -> Any:
    """The whole model, for one image."""
    graph = DetectorGraph(SEED)
    means = graph.const(np.asarray(MEANS).reshape(1, 3, 1, 1))
    deviations = graph.const(np.asarray(DEVIATIONS).reshape(1, 3, 1, 1))
    x = graph.op("Div", graph.op("Sub", "images", means), deviations)
    levels = pyramid(graph, backbone(graph, x))
    logits = head(graph, levels, CLASSES, SPREAD, BIAS)
    offsets = head(graph, levels, 4, 0.1, 0.0)
    candidates = [
        best_of(graph, *level) for level in zip(logits, offsets, anchors(SIDE), strict=True)
    ]
    boxes, scores, labels = (
        graph.op("Concat", *(level[k] for level in candidates), axis=0) for k in range(3)
    )
    keep(graph, boxes, scores, labels)
    outputs = [
        value("boxes", "float32", "found", 4),
        value("labels", "int64", "found"),
        value("scores", "float32", "found"),
    ]
    return graph.detector(
        Path(__file__).stem, [value("images", "float32", 1, 3, SIDE, SIDE)], outputs
    )
