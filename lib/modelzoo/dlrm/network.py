"""The tiny recommendation model: its PyTorch form for training and its ONNX form.

It is a DLRM: an MLP for the counts, one embedding per category, all dot products between
them, and an MLP on top. The ONNX graph is written node by node, so that names and operators do not
depend on the version of PyTorch. Version v1 has the inputs of MLPerf's DLRM export (``dense_x``,
``offsets`` and ``indices`` with the feature first, one value per category); v2 takes several
values per category in the columns of ``indices`` and sums their embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from modelzoo.graph import OnnxGraph, checked, value

DENSE_NAME = "dense_x"
OFFSETS_NAME = "offsets"
INDICES_NAME = "indices"
OUTPUT_NAME = "pred"
OPSET = 13
IR_VERSION = 7


class TinyDlrm(nn.Module):
    """Log-odds [n] for counts [n, 13] and values [n, sum of ``hot``] counted per category."""

    def __init__(self, rows: Sequence[int], hot: Sequence[int], width: int = 16) -> None:
        super().__init__()
        self.width, self.features = width, len(rows)
        owner = np.repeat(np.arange(len(rows)), hot)
        self.register_buffer("base", torch.from_numpy(np.cumsum([0, *rows[:-1]])[owner]))
        self.register_buffer("owner", torch.from_numpy(owner))
        self.table = nn.Parameter(torch.randn(sum(rows), width) * 0.1)
        self.bottom = nn.ModuleList([nn.Linear(13, 32), nn.Linear(32, width)])
        pairs = (len(rows) + 1) * len(rows) // 2
        self.top = nn.ModuleList([nn.Linear(width + pairs, 32), nn.Linear(32, 1)])
        below = torch.tril_indices(len(rows) + 1, len(rows) + 1, -1)
        self.register_buffer("below", below[0] * (len(rows) + 1) + below[1])

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        """See the class."""
        assert isinstance(self.base, Tensor)
        assert isinstance(self.owner, Tensor)
        assert isinstance(self.below, Tensor)
        x = torch.relu(self.bottom[1](torch.relu(self.bottom[0](dense))))
        looked_up = self.table[indices + self.base]
        pooled = torch.zeros(len(dense), self.features, self.width)
        pooled = pooled.index_add(1, self.owner, looked_up)
        rows = torch.cat([x[:, None], pooled], dim=1)
        products = (rows @ rows.transpose(1, 2)).flatten(1)[:, self.below]
        hidden = torch.relu(self.top[0](torch.cat([x, products], dim=1)))
        odds: Tensor = self.top[1](hidden)[:, 0]
        return odds


class DlrmWriter(OnnxGraph):
    """The graph of a trained network, its nodes and constants named."""

    def fixed(self, name: str, values: Any) -> str:
        """Append a constant of its own type and return its name."""
        return self.const(values, np.asarray(values).dtype, name)

    def linear(self, name: str, module: nn.Linear, source: str, activation: str) -> str:
        """Append a layer with its activation; returns its output."""
        inputs = [
            source,
            self.fixed(f"{name}/weight", module.weight.detach().numpy()),
            self.fixed(f"{name}/bias", module.bias.detach().numpy()),
        ]
        result = self.add("Gemm", inputs, f"{name}/sum", transB=1)
        return self.add(activation, [result], f"{name}/out" if name != "top1" else OUTPUT_NAME)


def to_onnx(network: TinyDlrm, version: str) -> onnx.ModelProto:
    """The inference graph of a trained network, checked by ONNX."""
    graph = DlrmWriter()
    buffers = dict(network.named_buffers())
    x = graph.linear("bottom0", network.bottom[0], DENSE_NAME, "Relu")
    x = graph.linear("bottom1", network.bottom[1], x, "Relu")
    indices = _one_hot(graph, network.features) if version == "v1" else INDICES_NAME
    base = graph.fixed("base", buffers["base"].numpy())
    places = graph.add("Add", [indices, base], "places")
    table = graph.fixed("table", network.table.detach().numpy())
    embedded = graph.add("Gather", [table, places], "embedded", axis=0)
    if version != "v1":
        owner = buffers["owner"].numpy()
        share = (np.arange(network.features)[:, None] == owner[None]).astype(np.float32)
        embedded = graph.add("MatMul", [graph.fixed("share", share), embedded], "pooled")
    axes = graph.fixed("axes", np.asarray([1], dtype=np.int64))
    first = graph.add("Unsqueeze", [x, axes], "first")
    rows = graph.add("Concat", [first, embedded], "rows", axis=1)
    turned = graph.add("Transpose", [rows], "turned", perm=[0, 2, 1])
    flat = graph.add("Flatten", [graph.add("MatMul", [rows, turned], "all")], "flat", axis=1)
    below = graph.fixed("below", buffers["below"].numpy())
    products = graph.add("Gather", [flat, below], "products", axis=1)
    joined = graph.add("Concat", [x, products], "joined", axis=1)
    hidden = graph.linear("top0", network.top[0], joined, "Relu")
    graph.linear("top1", network.top[1], hidden, "Sigmoid")
    return _model(graph, version, network.features, len(buffers["owner"]))


def _one_hot(graph: DlrmWriter, features: int) -> str:
    """Return the values of categories [n, 26] from ``indices`` and ``offsets``, both [26, n]."""
    picked = graph.add("GatherElements", [INDICES_NAME, OFFSETS_NAME], "picked", axis=1)
    return graph.add("Transpose", [picked], "values", perm=[1, 0])


def _model(graph: DlrmWriter, version: str, features: int, columns: int) -> onnx.ModelProto:
    inputs = [value(DENSE_NAME, "float32", "N", 13)]
    if version == "v1":
        inputs.append(value(OFFSETS_NAME, "int64", features, "N"))
        inputs.append(value(INDICES_NAME, "int64", features, "N"))
    else:
        inputs.append(value(INDICES_NAME, "int64", "N", columns))
    outputs = [value(OUTPUT_NAME, "float32", "N", 1)]
    name = f"dlrm_{version}_tiny"
    made = graph.model(name, inputs, outputs, OPSET, IR_VERSION, producer_name="cmbench")
    return checked(made)
