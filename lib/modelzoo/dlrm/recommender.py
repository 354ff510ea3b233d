"""Both versions of MLPerf's DLRM as ONNX graphs, their weights in a separate file.

Facts. Version 1 (facebookresearch/dlrm): an MLP for the counts, a table per category, all dot
products between them below the diagonal, an MLP on top. Version 2 (torchrec, DLRM_DCN): several
values per category, whose rows are summed; the concatenation goes through three layers
of a cross network of low rank, then through an MLP. All layers but the last one end in a ReLU, the
last one in a sigmoid. Weights have the names of the published checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx

from modelzoo import models
from modelzoo.dlrm import table_sizes
from modelzoo.graph import OnnxGraph, Piece, value

OPSET = 13
DENSE = 13
FEATURES = 26
ACCURACY = {"v1": 80.25, "v2": 80.31}


@dataclass(frozen=True, slots=True)
class Size:
    """The shape of a DLRM: rows of the tables, values per category, widths of the layers.

    ``cross`` and ``rank`` are the layers and the rank of the second version's cross network.
    """

    version: str
    rows: tuple[int, ...]
    hot: tuple[int, ...]
    width: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    cross: int = 0
    rank: int = 0

    @property
    def joined(self) -> int:
        """Numbers that go into the MLP on top."""
        parts = len(self.rows) + 1
        if self.version == "v1":
            return self.width + parts * (parts - 1) // 2
        return parts * self.width


class DlrmWeights(Protocol):
    """Where weights come from."""

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight; KeyError when there is none of this name."""

    def pieces(self, name: str) -> Iterable[Piece]:
        """The parts of a weight, which cover it."""


def real(version: str) -> Size:
    """The size by the rules."""
    known = table_sizes.read_sizes()
    cross = {"cross": 3, "rank": 512} if version == "v2" else {}
    return Size(
        version=version,
        rows=tuple(known[version]["rows"]),
        hot=tuple(known[version]["hot"]),
        width=known["width"],
        bottom=(512, 256, known["width"]),
        top=(1024, 1024, 512, 256, 1),
        **cross,
    )


def layers(size: Size, part: str) -> list[tuple[str, tuple[int, int]]]:
    """Return names and shapes of the linear layers of ``bottom`` or ``top``."""
    widths = size.bottom if part == "bottom" else size.top
    into = (DENSE if part == "bottom" else size.joined, *widths[:-1])
    shapes = list(zip(widths, into, strict=True))
    if size.version == "v1":
        letter = "bot_l" if part == "bottom" else "top_l"
        names = [f"{letter}.{2 * number}" for number in range(len(widths))]
    elif part == "bottom":
        names = [f"dense_arch.model._mlp.{number}._linear" for number in range(len(widths))]
    else:
        names = [f"over_arch.model.0._mlp.{n}._linear" for n in range(len(widths) - 1)]
        names.append("over_arch.model.1")
    return list(zip(names, shapes, strict=True))


def table(size: Size, feature: int) -> str:
    """The name of the table of a category."""
    if size.version == "v1":
        return f"emb_l.{feature}.weight"
    bags = "sparse_arch.embedding_bag_collection.embedding_bags"
    return f"{bags}.t_cat_{feature}.weight"


def shapes(size: Size) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights of a network of this size, by name in a checkpoint."""
    by_name: dict[str, tuple[int, ...]] = {
        table(size, feature): (rows, size.width) for feature, rows in enumerate(size.rows)
    }
    for part in ("bottom", "top"):
        for name, shape in layers(size, part):
            by_name |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for layer in range(size.cross):
        name = "inter_arch.crossnet"
        by_name |= {
            f"{name}.V_kernels.{layer}": (size.rank, size.joined),
            f"{name}.W_kernels.{layer}": (size.joined, size.rank),
            f"{name}.bias.{layer}": (size.joined,),
        }
    return by_name


def weight_bytes(size: Size) -> int:
    """Bytes of all weights."""
    return 4 * sum(int(np.prod(shape)) for shape in shapes(size).values())


class Recommender(OnnxGraph):
    """Builder of the network; weights are appended to the file ``data``.

    ``tell`` is called with the bytes of every piece that was written.
    """

    def __init__(self, source: DlrmWeights, data: Path, tell: Callable[[int], None]) -> None:
        super().__init__(constants="c", data=data)
        self._source, self._tell = source, tell

    def weight(self, name: str) -> str:
        """Copy a weight to the file piece by piece."""
        return self.stored(name, self._source.shape(name), self._source.pieces(name), self._tell)

    def linear(self, x: str, weight: str, bias: str) -> str:
        """A fully connected layer."""
        return self.op("Gemm", x, self.weight(weight), self.weight(bias), transB=1)

    def bare(self, x: str, weight: str) -> str:
        """A linear layer without bias."""
        return self.op("Gemm", x, self.weight(weight), transB=1)


def tower(graph: Recommender, x: str, size: Size, part: str) -> str:
    """An MLP; the last layer of the upper one has no ReLU."""
    names = [name for name, _ in layers(size, part)]
    for number, name in enumerate(names):
        x = graph.linear(x, f"{name}.weight", f"{name}.bias")
        if part == "bottom" or number + 1 < len(names):
            x = graph.op("Relu", x)
    return x


def looked_up(graph: Recommender, size: Size) -> list[str]:
    """Return the summed rows [n, 1, width] of the categories."""
    embeddings, begin = [], 0
    for feature, many in enumerate(size.hot):
        bounds = (graph.ints(begin), graph.ints(begin + many), graph.ints(1))
        columns = graph.op("Slice", "indices", *bounds)
        rows = graph.op("Gather", graph.weight(table(size, feature)), columns, axis=0)
        if many > 1:
            rows = graph.op("ReduceSum", rows, graph.ints(1), keepdims=1)
        embeddings.append(rows)
        begin += many
    return embeddings


def products(graph: Recommender, x: str, rows: str, size: Size) -> str:
    """The counts' vector, and all dot products [n, parts, parts] below the diagonal."""
    parts = len(size.rows) + 1
    dots = graph.op("MatMul", rows, graph.op("Transpose", rows, perm=[0, 2, 1]))
    flat = graph.op("Reshape", dots, graph.ints(0, parts * parts))
    below = [i * parts + j for i in range(parts) for j in range(i)]
    return graph.op("Concat", x, graph.op("Gather", flat, graph.ints(*below), axis=1), axis=1)


def crossed(graph: Recommender, rows: str, size: Size) -> str:
    """Return the cross network: x0 * (W V x + b) + x per layer."""
    first = x = graph.op("Reshape", rows, graph.ints(0, size.joined))
    name = "inter_arch.crossnet"
    for layer in range(size.cross):
        inner = graph.bare(x, f"{name}.V_kernels.{layer}")
        outer = graph.linear(inner, f"{name}.W_kernels.{layer}", f"{name}.bias.{layer}")
        x = graph.op("Add", graph.op("Mul", first, outer), x)
    return x


def build(graph: Recommender, size: Size) -> Any:
    """The whole network."""
    x = tower(graph, "dense_x", size, "bottom")
    parts = [graph.op("Unsqueeze", x, graph.ints(1)), *looked_up(graph, size)]
    rows = graph.op("Concat", *parts, axis=1)
    y = products(graph, x, rows, size) if size.version == "v1" else crossed(graph, rows, size)
    odds = tower(graph, y, size, "top")
    graph.op("Sigmoid", odds)
    inputs = [
        value("dense_x", "float32", "N", DENSE),
        value("indices", "int64", "N", sum(size.hot)),
    ]
    pred = value(graph.name_last("pred"), "float32", "N", 1)
    return graph.model(f"dlrm_{size.version}", inputs, [pred], OPSET)


def write(
    source: DlrmWeights,
    size: Size,
    out: Path,
    facts: dict[str, Any],
    tell: Callable[[int], None],
) -> None:
    """Write the graph, its weights and model.json, to which ``facts`` are added, into ``out``.

    ``tell`` is called with the bytes of every piece that was written.
    """
    path = out / f"dlrm_{size.version}.onnx"
    data = out / f"{path.name}.data"
    made = models.saved(path, build(Recommender(source, data, tell), size))
    onnx.checker.check_model(str(path))
    description = {
        **made,
        "data": models.graph_facts(data),
        "precision": "fp32",
        "inputs": [
            models.tensor("dense_x", DENSE),
            models.tensor("indices", sum(size.hot), dtype="int64"),
        ],
        "outputs": [models.tensor("pred", 1)],
        "accuracy": accuracy(ACCURACY[size.version]),
        **facts,
        "options": {"layout": "pair-first", **facts.get("options", {})},
    }
    models.write_facts(out, description)


def accuracy(reference: float) -> dict[str, Any]:
    """The figure that the rules refer to."""
    return models.accuracy("AUC", "%", reference, digits=6)
