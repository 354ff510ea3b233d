"""Build a BERT of real size with weights out of a seed: as fast as a trained one, and ignorant.

The graph is what a trained BERT exports to: embeddings, layers of self-attention with a softmax
over all tokens and a feed-forward part with GELU, and one linear layer for both logits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MODEL_FILE = "bert_synthetic.onnx"
INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("output_start_logits", "output_end_logits")
VOCABULARY = 30522
POSITIONS = 512
HEAD = 64
SEED = 7
OPSET = 17


class Graph:
    """Nodes and weights in the making; every method returns the name of what it computes."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int) -> str:
        """Small random numbers, as large as trained ones are."""
        array = self._generator.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        return self.constant(array)

    def constant(self, array: Any) -> str:
        """A fixed tensor."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(self, x: str, wide: int, narrow: int) -> str:
        """``x`` [..., wide] times a matrix, plus a bias."""
        return self.op("Add", self.op("MatMul", x, self.weight(wide, narrow)), self.weight(narrow))

    def normed(self, x: str, width: int) -> str:
        """Layer normalization."""
        scale = self.constant(np.ones(width, dtype=np.float32))
        return self.op("LayerNormalization", x, scale, self.weight(width), epsilon=1e-12)

    def gelu(self, x: str) -> str:
        """x times the share of the normal distribution below x."""
        half = self.constant(np.float32(0.5))
        root = self.constant(np.float32(np.sqrt(2)))
        one = self.constant(np.float32(1))
        inner = self.op("Add", self.op("Erf", self.op("Div", x, root)), one)
        return self.op("Mul", self.op("Mul", x, inner), half)


def embeddings(graph: Graph, width: int) -> str:
    """Tokens, places and segments, added up and normalized."""
    ids, _, segments = INPUTS
    tokens = graph.op("Gather", graph.weight(VOCABULARY, width), ids)
    kinds = graph.op("Gather", graph.weight(2, width), segments)
    length = graph.op("Gather", graph.op("Shape", ids), graph.constant(np.int64(1)))
    steps = graph.op("Range", graph.constant(np.int64(0)), length, graph.constant(np.int64(1)))
    places = graph.op("Gather", graph.weight(POSITIONS, width), steps)
    return graph.normed(graph.op("Add", graph.op("Add", tokens, kinds), places), width)


def attention(graph: Graph, x: str, absent: str, width: int) -> str:
    """Self-attention over all tokens; ``absent`` [n, 1, 1, t] is added to the scores."""
    heads = width // HEAD
    split = graph.constant(np.array([0, 0, heads, HEAD], dtype=np.int64))
    joined = graph.constant(np.array([0, 0, width], dtype=np.int64))

    def headed(order: Sequence[int]) -> str:
        shaped = graph.op("Reshape", graph.linear(x, width, width), split)
        return graph.op("Transpose", shaped, perm=list(order))

    query, key, value = headed((0, 2, 1, 3)), headed((0, 2, 3, 1)), headed((0, 2, 1, 3))
    scale = graph.constant(np.float32(np.sqrt(HEAD)))
    scores = graph.op("Div", graph.op("MatMul", query, key), scale)
    shares = graph.op("Softmax", graph.op("Add", scores, absent), axis=-1)
    mixed = graph.op("Transpose", graph.op("MatMul", shares, value), perm=[0, 2, 1, 3])
    return graph.linear(graph.op("Reshape", mixed, joined), width, width)


def build(layers: int, width: int) -> Any:
    """The whole model."""
    graph = Graph(SEED)
    x = embeddings(graph, width)
    mask = graph.op("Cast", INPUTS[1], to=TensorProto.FLOAT)
    missing = graph.op("Sub", graph.constant(np.float32(1)), mask)
    far = graph.op("Mul", missing, graph.constant(np.float32(-1e4)))
    absent = graph.op("Unsqueeze", far, graph.constant(np.array([1, 2], dtype=np.int64)))
    for _ in range(layers):
        x = graph.normed(graph.op("Add", x, attention(graph, x, absent, width)), width)
        wide = graph.gelu(graph.linear(x, width, 4 * width))
        x = graph.normed(graph.op("Add", x, graph.linear(wide, 4 * width, width)), width)
    logits = graph.linear(x, width, 2)
    for number, name in enumerate(OUTPUTS):
        picked = graph.constant(np.int64(number))
        graph.nodes.append(helper.make_node("Gather", [logits, picked], [name], axis=2))
    shape = ["batch", "tokens"]
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            "bert",
            [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in INPUTS],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in OUTPUTS],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model and model.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    options = parser.parse_args(arguments)
    path: Path = options.out / MODEL_FILE
    onnx.save(build(options.layers, options.width), path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    facts = {
        "name": f"bert_synthetic_{options.layers}x{options.width}",
        "file": MODEL_FILE,
        "sha256": digest.hexdigest(),
        "bytes": path.stat().st_size,
        "precision": "fp32",
        "inputs": [{"name": name, "dtype": "int64", "shape": [-1]} for name in INPUTS],
        "outputs": [{"name": name, "dtype": "float32", "shape": [-1]} for name in OUTPUTS],
        "accuracy": {"metric": "F1", "unit": "%", "reference": 0.0, "target": 0.0},
    }
    (options.out / "model.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"{options.layers} layers of {options.width}: {facts['bytes']} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
