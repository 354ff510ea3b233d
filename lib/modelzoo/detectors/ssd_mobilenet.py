"""SSD with MobileNet for images of 300 x 300: the network and its decoding of boxes.

Facts: Howard et al., MobileNets (2017); Liu et al., SSD (2016), as TensorFlow's object detection
has them: 1917 boxes of six levels, for each of 90 classes the best 100 above 0.3 of which no two
overlap by more than 0.6, 100 of them at the end, filled up with zeros. The published file does the
last step image by image in a loop; here it is done for all at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from modelzoo.detectors.graph import Array, DetectorGraph, value

SIDE, CLASSES = 300, 91
# Depth and stride of the pairs of a depthwise and a 1 x 1 convolution.
PAIRS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)),
)
# The pair whose results are the first level; the last pair's are the second.
FIRST_LEVEL = 11
# Depth in between and at the end of the further levels.
FURTHER = ((256, 512), (128, 256), (128, 256), (64, 128))
SIDES = (19, 10, 5, 3, 2, 1)
SMALLEST, LARGEST = 0.2, 0.95
MOVE, STRETCH = 0.1, 0.2
LEAST_SCORE, MOST, OVERLAP = 0.3, 100, 0.6
# Chosen so that noise gives as many candidates as photographs do.
SPREAD, BIAS = 64.0, -6.0
SEED = 17


def same(size: int, stride: int) -> list[int]:
    """Padding in pixels as TensorFlow does it: the result has 1 / stride of the size."""
    total = max(0, (-(-size // stride) - 1) * stride + 3 - size)
    return [total // 2, total // 2, total - total // 2, total - total // 2]


def small(graph: DetectorGraph, x: str) -> str:
    """A rectifier that ends at 6."""
    return graph.op("Clip", x, graph.const(0.0), graph.const(6.0))


def features(graph: DetectorGraph, x: str) -> list[tuple[str, int]]:
    """The six levels that boxes are looked for in, with their depths."""
    size = SIDE
    x = small(graph, graph.conv(x, 3, 32, 3, 2, pad=same(size, 2)))
    size, into, levels = -(-size // 2), 32, []
    for number, (out, stride) in enumerate(PAIRS, start=1):
        pads = same(size, stride)
        x = small(graph, graph.conv(x, into, into, 3, stride, groups=into, pad=pads))
        x = small(graph, graph.conv(x, into, out))
        size, into = -(-size // stride), out
        if number in (FIRST_LEVEL, len(PAIRS)):
            levels.append((x, into))
    for between, out in FURTHER:
        x = small(graph, graph.conv(x, into, between))
        x = small(graph, graph.conv(x, between, out, 3, 2, pad=same(size, 2)))
        size, into = -(-size // 2), out
        levels.append((x, into))
    return levels


def priors() -> Array:
    """The boxes [1917, 4] that the network moves and stretches: centre y, x, height, width."""
    scales = [*np.linspace(SMALLEST, LARGEST, len(SIDES)), 1.0]
    boxes_by_level = []
    for level, side in enumerate(SIDES):
        scale, following = scales[level], scales[level + 1]
        if level:
            shapes = [(scale, ratio) for ratio in (1.0, 2.0, 0.5, 3.0, 1 / 3)]
            shapes.append(((scale * following) ** 0.5, 1.0))
        else:
            shapes = [(0.1, 1.0), (scale, 2.0), (scale, 0.5)]
        sizes = np.asarray([(size / ratio**0.5, size * ratio**0.5) for size, ratio in shapes])
        places = (np.arange(side) + 0.5) / side
        down, across = np.meshgrid(places, places, indexing="ij")
        centres = np.stack([down, across], axis=-1).reshape(-1, 1, 2)
        boxes = np.concatenate(np.broadcast_arrays(centres, sizes[None]), axis=-1)
        boxes_by_level.append(boxes.reshape(-1, 4))
    return np.concatenate(boxes_by_level).astype(np.float32)


def predictions(graph: DetectorGraph, levels: list[tuple[str, int]]) -> tuple[str, str]:
    """Return the offsets of boxes [n, 1917, 4] and their scores by class [n, 1917, 91]."""
    moves: list[str] = []
    classes: list[str] = []
    for number, (x, into) in enumerate(levels):
        count = 6 if number else 3
        for out, made, gain, bias in (
            (4, moves, 0.1, 0.0),
            (CLASSES, classes, SPREAD, BIAS),
        ):
            y = graph.conv(x, into, count * out, gain=gain, bias=bias)
            made.append(graph.shape(graph.op("Transpose", y, perm=[0, 2, 3, 1]), 0, -1, out))
    return graph.op("Concat", *moves, axis=1), graph.op("Concat", *classes, axis=1)


def decode(graph: DetectorGraph, moves: str) -> str:
    """The boxes [n, 1917, 4]: top, left, bottom, right as shares, inside of the image."""
    boxes = graph.decoded(moves, priors(), (MOVE, STRETCH))
    return graph.op("Clip", boxes, graph.const(0.0), graph.const(1.0))


def keep(graph: DetectorGraph, boxes: str, scores: str) -> None:
    """Name the outputs: the best 100 boxes per image after suppression of overlaps."""
    scores = graph.op("Transpose", graph.cut(scores, 1, CLASSES, 2), perm=[0, 2, 1])
    chosen = graph.suppressed(boxes, scores, MOST, OVERLAP, LEAST_SCORE)
    # The scores of the chosen ones in a table of zeros, whose best are the answer.
    table = graph.op("Mul", scores, graph.const(0.0))
    table = graph.op("ScatterND", table, chosen, graph.op("GatherND", scores, chosen))
    count = len(priors())
    best, places = graph.ops(
        "TopK", graph.shape(table, 0, -1), graph.whole(MOST), outputs=2, axis=1
    )
    is_sure = graph.op("Cast", graph.op("Greater", best, graph.const(0.0)), to=1)
    prior = graph.op("Mod", places, graph.whole(count))
    label = graph.op("Add", graph.op("Div", places, graph.whole(count)), graph.whole(1))
    label = graph.op("Mul", graph.op("Cast", label, to=1), is_sure)
    indices = graph.op("Unsqueeze", prior, graph.whole(2))
    kept_boxes = graph.op("GatherND", boxes, indices, batch_dims=1)
    kept_boxes = graph.op("Mul", kept_boxes, graph.op("Unsqueeze", is_sure, graph.whole(2)))
    graph.name(graph.op("ReduceSum", is_sure, graph.whole(1), keepdims=0), "num_detections:0")
    graph.name(kept_boxes, "detection_boxes:0")
    graph.name(best, "detection_scores:0")
    graph.name(label, "detection_classes:0")


def build() -> Any:
    """The whole model, for any number of images."""
    graph = DetectorGraph(SEED)
    x = graph.op("Cast", "image_tensor:0", to=1)
    x = graph.op("Sub", graph.op("Mul", x, graph.const(2 / 255)), graph.const(1.0))
    x = graph.op("Transpose", x, perm=[0, 3, 1, 2])
    moves, classes = predictions(graph, features(graph, x))
    keep(graph, decode(graph, moves), graph.op("Sigmoid", classes))
    outputs = [
        value("num_detections:0", "float32", "n"),
        value("detection_boxes:0", "float32", "n", MOST, 4),
        value("detection_scores:0", "float32", "n", MOST),
        value("detection_classes:0", "float32", "n", MOST),
    ]
    images = value("image_tensor:0", "uint8", "n", SIDE, SIDE, 3)
    return graph.detector("ssd_mobilenet", [images], outputs)
