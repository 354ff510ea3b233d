"""SSD with ResNet-34 for images of 1200 x 1200: the network and its decoding of boxes.

Facts: Liu et al., SSD (2016), on the first three stages of ResNet-34 (He et al., 2015), the third
without stride; sizes, strides and thresholds are those of MLPerf's reference: 15130 boxes, for each
of 80 classes the best 200 above 0.05 of which no two overlap by more than a half, 200 at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from modelzoo.detectors.graph import Array, DetectorGraph, value

SIDE, CLASSES = 1200, 81
STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 1))
# Depth in between and at the end of the further levels, their stride and padding.
FURTHER = ((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 2, 0), (128, 256, 1, 0))
# Boxes per cell, cells of a side and further shapes of the levels.
LEVELS = ((50, (2,)), (25, (2, 3)), (13, (2, 3)), (7, (2, 3)), (3, (2,)), (3, (2,)))
SIZES = (84, 180, 396, 612, 828, 1044, 1260)
MOVE, STRETCH = 0.1, 0.2
LEAST_SCORE, BEST, OVERLAP = 0.05, 200, 0.5
# How far the background is ahead; chosen so that noise gives as many candidates as photographs do.
SPREAD, BACKGROUND = 0.25, 6.0
SEED = 13


def block(graph: DetectorGraph, x: str, into: int, out: int, stride: int) -> str:
    """The basic block: look around twice, add what came in."""
    y = graph.relu(graph.conv(x, into, out, 3, stride))
    y = graph.conv(y, out, out, 3, gain=0.2)
    return graph.residual(x, y, (into, out), stride)


def features(graph: DetectorGraph, x: str) -> list[tuple[str, int]]:
    """The six levels that boxes are looked for in, with their depths."""
    x = graph.relu(graph.conv(x, 3, 64, 7, 2))
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    into = 64
    for blocks, out, stride in STAGES:
        for number in range(blocks):
            x = block(graph, x, into, out, 1 if number else stride)
            into = out
    levels = [(x, into)]
    for between, out, stride, pad in FURTHER:
        x = graph.relu(graph.conv(x, into, between))
        x = graph.relu(graph.conv(x, between, out, 3, stride, pad=pad))
        into = out
        levels.append((x, into))
    return levels


def priors() -> Array:
    """The boxes [15130, 4] that the network moves and stretches: centre and size, as shares.

    In the order of the network's outputs: by shape, then line by line.
    """
    shapes_of_levels = []
    for level, (count, shapes) in enumerate(LEVELS):
        small, large = SIZES[level] / SIDE, SIZES[level + 1] / SIDE
        sizes = [(small, small), ((small * large) ** 0.5,) * 2]
        for shape in shapes:
            root = shape**0.5
            sizes += [(small * root, small / root), (small / root, small * root)]
        places = (np.arange(count) + 0.5) / count
        down, across = np.meshgrid(places, places, indexing="ij")
        shapes_of_levels += [
            np.stack([across, down, np.full_like(across, w), np.full_like(across, h)], -1)
            for w, h in sizes
        ]
    boxes = np.concatenate(
        [boxes_of_shape.reshape(-1, 4) for boxes_of_shape in shapes_of_levels]
    ).astype(np.float32)
    return np.clip(boxes, 0, 1, out=boxes)


def predictions(graph: DetectorGraph, levels: list[tuple[str, int]]) -> tuple[str, str]:
    """Return the offsets of boxes [1, 4, 15130] and their scores by class [1, 81, 15130]."""
    moves, classes = [], []
    for (x, into), (_, shapes) in zip(levels, LEVELS, strict=True):
        count = 2 + 2 * len(shapes)
        # The further levels have a stride of 3 here.
        move = graph.conv(x, into, 4 * count, 3, 3, gain=0.1)
        moves.append(graph.shape(move, 0, 4, -1))
        sure = graph.conv(x, into, CLASSES * count, 3, 3, gain=SPREAD)
        classes.append(graph.shape(sure, 0, CLASSES, -1))
    return graph.op("Concat", *moves, axis=2), graph.op("Concat", *classes, axis=2)


def decode(graph: DetectorGraph, moves: str) -> str:
    """The boxes [1, 15130, 4]: left, top, right, bottom as shares."""
    moves = graph.op("Transpose", moves, perm=[0, 2, 1])
    return graph.decoded(moves, priors(), (MOVE, STRETCH))


def keep(graph: DetectorGraph, boxes: str, scores: str) -> None:
    """Name the outputs: the best boxes of all classes that do not overlap too much."""
    # Without the background, which comes first.
    scores = graph.cut(scores, 1, CLASSES, 1)
    chosen = graph.suppressed(boxes, scores, BEST, OVERLAP, LEAST_SCORE)
    kept = graph.op("GatherND", scores, chosen)
    count = graph.op("Min", graph.op("Shape", kept), graph.whole(BEST))
    kept, order = graph.ops("TopK", kept, count, outputs=2, axis=0)
    chosen = graph.take(chosen, order)
    places = graph.shape(graph.cut(chosen, 2, 3, 1), -1)
    labels = graph.op("Add", graph.shape(graph.cut(chosen, 1, 2, 1), 1, -1), graph.whole(1))
    graph.name(graph.take(boxes, places, axis=1), "bboxes")
    graph.name(labels, "labels")
    graph.name(graph.shape(kept, 1, -1), "scores")


def build() -> Any:
    """The whole model, for one image."""
    graph = DetectorGraph(SEED)
    moves, classes = predictions(graph, features(graph, "image"))
    lead = np.zeros((1, CLASSES, 1), dtype=np.float32)
    lead[0, 0] = BACKGROUND
    scores = graph.op("Softmax", graph.op("Add", classes, graph.const(lead)), axis=1)
    keep(graph, decode(graph, moves), scores)
    outputs = [
        value("bboxes", "float32", 1, "found", 4),
        value("labels", "int64", 1, "found"),
        value("scores", "float32", 1, "found"),
    ]
    return graph.detector("ssd_resnet34", [value("image", "float32", 1, 3, SIDE, SIDE)], outputs)
