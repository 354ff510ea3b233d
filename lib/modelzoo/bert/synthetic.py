"""Build a BERT of real size with random weights: as fast as a trained one.

The graph is what a trained BERT exports to: embeddings, layers of self-attention with a softmax
over all tokens and a feed-forward part with GELU, and one linear layer for both logits.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from modelzoo import models, program
from modelzoo.graph import OnnxGraph, value

MODEL_FILE = "bert_synthetic.onnx"
INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("output_start_logits", "output_end_logits")
VOCABULARY = 30522
POSITIONS = 512
HEAD = 64
SEED = 7
OPSET = 17


class Bert(OnnxGraph):
    """Builder of the network; its methods return the name of their output."""

    def weight(self, *shape: int) -> str:
        """Small random numbers, as large as trained ones are."""
        return self.noise(*shape, scale=0.02)

    def number(self, one: int) -> str:
        """A whole number without a dimension."""
        return self.const(one, np.int64)

    def linear(self, x: str, wide: int, narrow: int) -> str:
        """``x`` [..., wide] times a matrix, plus a bias."""
        return self.op("Add", self.op("MatMul", x, self.weight(wide, narrow)), self.weight(narrow))

    def normed(self, x: str, width: int) -> str:
        """Layer normalization."""
        scale = self.const(np.ones(width))
        return self.op("LayerNormalization", x, scale, self.weight(width), epsilon=1e-12)

    def gelu(self, x: str) -> str:
        """x times the share of the normal distribution below x."""
        half, root, one = self.const(0.5), self.const(np.sqrt(2)), self.const(1)
        inner = self.op("Add", self.op("Erf", self.op("Div", x, root)), one)
        return self.op("Mul", self.op("Mul", x, inner), half)


def embeddings(graph: Bert, width: int) -> str:
    """Return the normalized sum of the embeddings of tokens, positions and segments."""
    ids, _, segments = INPUTS
    tokens = graph.op("Gather", graph.weight(VOCABULARY, width), ids)
    kinds = graph.op("Gather", graph.weight(2, width), segments)
    length = graph.op("Gather", graph.op("Shape", ids), graph.number(1))
    steps = graph.op("Range", graph.number(0), length, graph.number(1))
    places = graph.op("Gather", graph.weight(POSITIONS, width), steps)
    return graph.normed(graph.op("Add", graph.op("Add", tokens, kinds), places), width)


def attention(graph: Bert, x: str, absent: str, width: int) -> str:
    """Self-attention over all tokens; ``absent`` [n, 1, 1, t] is added to the scores."""
    heads = width // HEAD
    split = graph.ints(0, 0, heads, HEAD)
    joined = graph.ints(0, 0, width)

    def headed(order: Sequence[int]) -> str:
        shaped = graph.op("Reshape", graph.linear(x, width, width), split)
        return graph.op("Transpose", shaped, perm=list(order))

    query, key, value = headed((0, 2, 1, 3)), headed((0, 2, 3, 1)), headed((0, 2, 1, 3))
    scale = graph.const(np.sqrt(HEAD))
    scores = graph.op("Div", graph.op("MatMul", query, key), scale)
    shares = graph.op("Softmax", graph.op("Add", scores, absent), axis=-1)
    mixed = graph.op("Transpose", graph.op("MatMul", shares, value), perm=[0, 2, 1, 3])
    return graph.linear(graph.op("Reshape", mixed, joined), width, width)


def build(layers: int, width: int) -> Any:
    """The whole model."""
    graph = Bert(SEED)
    x = embeddings(graph, width)
    mask = graph.op("Cast", INPUTS[1], to=TensorProto.FLOAT)
    missing = graph.op("Sub", graph.const(1), mask)
    far = graph.op("Mul", missing, graph.const(-1e4))
    absent = graph.op("Unsqueeze", far, graph.ints(1, 2))
    for _ in range(layers):
        x = graph.normed(graph.op("Add", x, attention(graph, x, absent, width)), width)
        wide = graph.gelu(graph.linear(x, width, 4 * width))
        x = graph.normed(graph.op("Add", x, graph.linear(wide, 4 * width, width)), width)
    logits = graph.linear(x, width, 2)
    for number, name in enumerate(OUTPUTS):
        graph.op("Gather", logits, graph.number(number), axis=2)
        graph.name_last(name)
    inputs = [value(name, "int64", "batch", "tokens") for name in INPUTS]
    outputs = [value(name, "float32", "batch", "tokens") for name in OUTPUTS]
    return graph.model("bert", inputs, outputs, OPSET)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the model and model.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    options = parser.parse_args(arguments)
    model = build(options.layers, options.width)
    facts = {
        "name": f"bert_synthetic_{options.layers}x{options.width}",
        **models.saved(options.out / MODEL_FILE, model),
        "precision": "fp32",
        "inputs": models.tensors(INPUTS, -1, dtype="int64"),
        "outputs": models.tensors(OUTPUTS, -1),
        "accuracy": models.accuracy("F1", "%"),
    }
    models.write_facts(options.out, facts)
    print(f"{options.layers} layers of {options.width}: {facts['bytes']} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
