"""Which nodes of a graph stay float when it is quantized to 8-bit integers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

# The layers that hold nearly all the work; what decides the answer (Softmax, ArgMax) stays float.
QUANTIZED = ("Conv", "Gemm", "MatMul", "Add", "GlobalAveragePool", "Relu", "Clip")
# Those of them that have weights. A Relu or Clip after them is taken into them, so that no step of
# their range is spent on what it cuts off.
LAYERS = ("Conv", "Gemm", "MatMul")
# Heads of a detector have so many times as many channels for classes as for boxes, at least.
APART = 4


def left_float(graph: Any) -> list[str]:
    """Return the nodes of a graph for whose values 256 steps are too coarse.

    After the last convolutions or products of matrices only the answer is worked out: where boxes
    are, which are kept. That costs little, as do the last convolutions that place boxes.
    """
    seen: set[str] = set()
    last, after = [], []
    for node in reversed(graph.node):
        counts = bool(seen.intersection(node.output))
        if node.op_type in LAYERS and not counts:
            last.append(node)
        if node.op_type in LAYERS or counts:
            seen.update(node.input)
        elif node.op_type in QUANTIZED:
            after.append(node.name)
    if any(node.op_type == "Conv" for node in graph.node):
        return [*after, *_placing(graph, last)]
    return sorted({*after, *_of_attention(graph), *(node.name for node in last)})


def _of_attention(graph: Any) -> Iterator[str]:
    """In a transformer, sums (masks of -10000 and more are among them) and attention itself.

    What attention multiplies are no weights.
    """
    weights = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        attends = node.op_type == "MatMul" and not weights.intersection(node.input)
        if attends or node.op_type == "Add":
            yield node.name


def _placing(graph: Any, last: Sequence[Any]) -> list[str]:
    """Return the convolutions among the last layers that predict boxes, not classes.

    A detector has both per level. Boxes take four channels where classes take dozens, so that
    the convolutions lie on two sides of the middle between fewest and most channels.
    """
    sizes = {tensor.name: tensor.dims for tensor in graph.initializer}
    channels = {
        node.name: sizes[node.input[1]][0]
        for node in last
        if node.op_type == "Conv" and node.input[1] in sizes
    }
    if not channels or max(channels.values()) < APART * min(channels.values()):
        return []
    middle = math.sqrt(min(channels.values()) * max(channels.values()))
    return [name for name, count in channels.items() if count < middle]
