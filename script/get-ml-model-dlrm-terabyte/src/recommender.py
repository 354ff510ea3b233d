"""Both versions of MLPerf's DLRM as ONNX graphs, their weights in a file beside them.

Facts. Version 1 (facebookresearch/dlrm): an MLP for the counts, a table for each category, all dot
products between them below the diagonal, an MLP on top. Version 2 (torchrec, DLRM_DCN): several
values for each category, whose rows are summed; everything side by side goes through three layers
of a cross network of low rank, then through an MLP. All layers but the last one end in a ReLU, the
last one in a sigmoid. Weights have the names of the published checkpoints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
IR_VERSION = 8
DENSE = 13
FEATURES = 26
ALIGNMENT = 4096
# Bytes that are copied or made at once.
BLOCK = 1 << 26
ACCURACY = {"v1": 80.25, "v2": 80.31}
TARGET_SHARE = 0.99

Array = npt.NDArray[np.float32]
# A part of a weight: where it begins, and its numbers.
Piece = tuple[tuple[int, ...], Array]


@dataclass(frozen=True, slots=True)
class Size:
    """The shape of a DLRM: rows of the tables, values of each category, widths of the layers.

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


class Source(Protocol):
    """Where weights come from."""

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight; KeyError when there is none of this name."""

    def pieces(self, name: str) -> Iterator[Piece]:
        """The parts of a weight, which cover it."""


def real(version: str) -> Size:
    """The size by the rules."""
    known = json.loads((Path(__file__).parent / "sizes.json").read_text(encoding="utf-8"))
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
    """Name and shape of each linear layer of ``bottom`` or ``top``."""
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
    """Every weight of a network of this size, by its name in a checkpoint."""
    found: dict[str, tuple[int, ...]] = {
        table(size, feature): (rows, size.width) for feature, rows in enumerate(size.rows)
    }
    for part in ("bottom", "top"):
        for name, shape in layers(size, part):
            found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for layer in range(size.cross):
        name = "inter_arch.crossnet"
        found |= {
            f"{name}.V_kernels.{layer}": (size.rank, size.joined),
            f"{name}.W_kernels.{layer}": (size.joined, size.rank),
            f"{name}.bias.{layer}": (size.joined,),
        }
    return found


def weight_bytes(size: Size) -> int:
    """Bytes of all weights."""
    return 4 * sum(int(np.prod(shape)) for shape in shapes(size).values())


class Graph:
    """Nodes and weights in the making; small numbers stay in the graph, weights go to a file."""

    def __init__(self, source: Source, data: Path, tell: Callable[[int], None]) -> None:
        self._source, self._data, self._tell = source, data, tell
        self._end = 0
        data.write_bytes(b"")
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def constant(self, *values: int) -> str:
        """Whole numbers within the graph."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype=np.int64), name))
        return name

    def weight(self, name: str) -> str:
        """Copy a weight to the file piece by piece."""
        shape = self._source.shape(name)
        begin = self._end + (-self._end % ALIGNMENT)
        self._end = begin + 4 * int(np.prod(shape))
        with self._data.open("r+b") as file:
            file.truncate(self._end)
        room = np.memmap(self._data, np.float32, "r+", begin, shape)
        for places, piece in self._source.pieces(name):
            part = tuple(slice(p, p + n) for p, n in zip(places, piece.shape, strict=True))
            room[part] = piece
            self._tell(piece.nbytes)
        room.flush()
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        facts = {"location": self._data.name, "offset": begin, "length": self._end - begin}
        for key, value in facts.items():
            tensor.external_data.add(key=key, value=str(value))
        self.weights.append(tensor)
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(self, x: str, weight: str, bias: str) -> str:
        """A fully connected layer."""
        return self.op("Gemm", x, self.weight(weight), self.weight(bias), transB=1)

    def turned(self, x: str, weight: str) -> str:
        """A linear layer without bias."""
        return self.op("Gemm", x, self.weight(weight), transB=1)


def tower(graph: Graph, x: str, size: Size, part: str) -> str:
    """An MLP; the last layer of the upper one has no ReLU."""
    names = [name for name, _ in layers(size, part)]
    for number, name in enumerate(names):
        x = graph.linear(x, f"{name}.weight", f"{name}.bias")
        if part == "bottom" or number + 1 < len(names):
            x = graph.op("Relu", x)
    return x


def looked_up(graph: Graph, size: Size) -> list[str]:
    """The summed rows [n, 1, width] of each category."""
    found, begin = [], 0
    for feature, many in enumerate(size.hot):
        bounds = (graph.constant(begin), graph.constant(begin + many), graph.constant(1))
        columns = graph.op("Slice", "indices", *bounds)
        rows = graph.op("Gather", graph.weight(table(size, feature)), columns, axis=0)
        if many > 1:
            rows = graph.op("ReduceSum", rows, graph.constant(1), keepdims=1)
        found.append(rows)
        begin += many
    return found


def products(graph: Graph, x: str, rows: str, size: Size) -> str:
    """The counts' vector, and all dot products [n, parts, parts] below the diagonal."""
    parts = len(size.rows) + 1
    dots = graph.op("MatMul", rows, graph.op("Transpose", rows, perm=[0, 2, 1]))
    flat = graph.op("Reshape", dots, graph.constant(0, parts * parts))
    below = [i * parts + j for i in range(parts) for j in range(i)]
    return graph.op("Concat", x, graph.op("Gather", flat, graph.constant(*below), axis=1), axis=1)


def crossed(graph: Graph, rows: str, size: Size) -> str:
    """The cross network: x0 * (W V x + b) + x in each layer."""
    first = x = graph.op("Reshape", rows, graph.constant(0, size.joined))
    name = "inter_arch.crossnet"
    for layer in range(size.cross):
        inner = graph.turned(x, f"{name}.V_kernels.{layer}")
        outer = graph.linear(inner, f"{name}.W_kernels.{layer}", f"{name}.bias.{layer}")
        x = graph.op("Add", graph.op("Mul", first, outer), x)
    return x


def build(graph: Graph, size: Size) -> Any:
    """The whole network."""
    x = tower(graph, "dense_x", size, "bottom")
    parts = [graph.op("Unsqueeze", x, graph.constant(1)), *looked_up(graph, size)]
    rows = graph.op("Concat", *parts, axis=1)
    y = products(graph, x, rows, size) if size.version == "v1" else crossed(graph, rows, size)
    odds = tower(graph, y, size, "top")
    graph.nodes.append(helper.make_node("Sigmoid", [odds], ["pred"]))
    inputs = [
        helper.make_tensor_value_info("dense_x", TensorProto.FLOAT, ["N", DENSE]),
        helper.make_tensor_value_info("indices", TensorProto.INT64, ["N", sum(size.hot)]),
    ]
    pred = helper.make_tensor_value_info("pred", TensorProto.FLOAT, ["N", 1])
    made = helper.make_graph(graph.nodes, f"dlrm_{size.version}", inputs, [pred], graph.weights)
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=opset, ir_version=IR_VERSION)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def write(
    source: Source, size: Size, out: Path, facts: dict[str, Any], tell: Callable[[int], None]
) -> None:
    """Write the graph, its weights and model.json, to which ``facts`` are added, into ``out``.

    ``tell`` is called with the bytes of every piece that was written.
    """
    path = out / f"dlrm_{size.version}.onnx"
    data = out / f"{path.name}.data"
    path.write_bytes(build(Graph(source, data, tell), size).SerializeToString())
    onnx.checker.check_model(str(path))
    whole = {
        "file": path.name,
        "sha256": digest(path),
        "bytes": path.stat().st_size,
        "data": {"file": data.name, "sha256": digest(data), "bytes": data.stat().st_size},
        "precision": "fp32",
        "inputs": [
            {"name": "dense_x", "dtype": "float32", "shape": [DENSE]},
            {"name": "indices", "dtype": "int64", "shape": [sum(size.hot)]},
        ],
        "outputs": [{"name": "pred", "dtype": "float32", "shape": [1]}],
        "accuracy": accuracy(ACCURACY[size.version]),
        **facts,
        "options": {"layout": "pair-first", **facts.get("options", {})},
    }
    (out / "model.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


def accuracy(reference: float) -> dict[str, Any]:
    """The figure that the rules refer to."""
    target = round(reference * TARGET_SHARE, 6)
    return {"metric": "AUC", "unit": "%", "reference": reference, "target": target}
