"""Whisper as two ONNX graphs: the encoder, and one step of the decoder with its cache.

Facts: two convolutions and layers with normalization before each part (GELU, learned positions of
the text); keys have no bias; scores are the states times the embedding of the tokens. The encoder's
graph ends with the keys and values that all layers of the decoder look up, so that they are
computed once. The division of scores by the root of the head's width is done in the weights of the
queries, which leaves all results as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from modelzoo import models
from modelzoo.graph import Array, OnnxGraph, value
from modelzoo.whisper.size import DECODER, ENCODER, WhisperSize, WhisperWeights

OPSET, EPSILON = 17, 1e-5
ENCODER_FILE, STEP_FILE = "whisper_encoder.onnx", "whisper_step.onnx"
KEYS, VALUES, CACHE = "keys", "values", "cache"
# A graph of more bytes than this has its weights in a file of its own.
LARGEST_GRAPH = 1_000_000_000


class WhisperGraph(OnnxGraph):
    """A part of the network in the making."""

    def __init__(self, weights: WhisperWeights, size: WhisperSize, data: Path | None) -> None:
        super().__init__(constants="c", data=data)
        self._source, self.size, self._is_stored = weights, size, data is not None

    def kept(self, name: str, values: Array) -> str:
        """Add an array, in the file of the weights where there is one."""
        if not self._is_stored:
            return self.const(values, name=name)
        return self.stored(name, values.shape, [((0,) * values.ndim, values)])

    def weight(self, name: str) -> str:
        """Add a weight as it is."""
        return self.kept(name, self._source.array(name))

    def linear(self, x: str, name: str, scale: float = 1.0, bias: bool = True) -> str:
        """Add a linear layer, whose result is multiplied by ``scale``."""
        weight = self._source.array(f"{name}.weight").T * np.float32(scale)
        product = self.op("MatMul", x, self.kept(f"{name}.weight", np.ascontiguousarray(weight)))
        if not bias:
            return product
        added = self._source.array(f"{name}.bias") * np.float32(scale)
        return self.op("Add", product, self.kept(f"{name}.bias", added))

    def norm(self, x: str, name: str) -> str:
        """Add a normalization of the last axis."""
        parts = (self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))
        return self.op("LayerNormalization", x, *parts, axis=-1, epsilon=EPSILON)

    def gelu(self, x: str) -> str:
        """Add the exact GELU."""
        scaled = self.op("Div", x, self.const(np.sqrt(2.0)))
        share = self.op("Add", self.op("Erf", scaled), self.const(1.0))
        return self.op("Mul", self.op("Mul", x, share), self.const(0.5))

    def heads(self, x: str, transposed: bool = False) -> str:
        """Turn [n, t, width] into [n, heads, t, head width], or with the last two exchanged."""
        shape = self.ints(0, -1, self.size.heads, self.size.head_width)
        order = [0, 2, 3, 1] if transposed else [0, 2, 1, 3]
        return self.op("Transpose", self.op("Reshape", x, shape), perm=order)

    def queries(self, x: str, name: str) -> str:
        """Add the queries [n, heads, t, head width] of an attention."""
        scale = self.size.head_width**-0.5
        return self.heads(self.linear(x, f"{name}.q_proj", scale))

    def lookup(self, name: str, queries: str, keys: str, values: str) -> str:
        """Add an attention over keys [n, heads, head width, s] and values [n, heads, s, ...]."""
        shares = self.op("Softmax", self.op("MatMul", queries, keys), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", shares, values), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", mixed, self.ints(0, -1, self.size.width))
        return self.linear(joined, f"{name}.out_proj")

    def inner(self, x: str, name: str) -> str:
        """Add the feed-forward part of a layer to ``x``."""
        states = self.norm(x, f"{name}.final_layer_norm")
        states = self.linear(self.gelu(self.linear(states, f"{name}.fc1")), f"{name}.fc2")
        return self.op("Add", x, states)

    def convolution(self, x: str, name: str, stride: int) -> str:
        """Add a convolution of three neighbours with its GELU."""
        parts = (self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))
        return self.gelu(
            self.op("Conv", x, *parts, kernel_shape=[3], pads=[1, 1], strides=[stride])
        )

    def stacked(self, tensors: list[str], output: str) -> None:
        """Make the tensors [n, ...] of all layers an output [n, layers, ...]."""
        whole = [self.op("Unsqueeze", tensor, self.ints(1)) for tensor in tensors]
        self.name(self.op("Concat", *whole, axis=1), output)

    def of_layer(self, x: str, number: int) -> str:
        """Take a layer's part [n, ...] out of [n, layers, ...]."""
        return self.op("Gather", x, self.const(number, np.int64), axis=1)


def encoder(graph: WhisperGraph) -> Any:
    """Return the graph from features to the keys and values of all layers of the decoder."""
    size = graph.size
    x = graph.convolution("features", f"{ENCODER}.conv1", 1)
    x = graph.convolution(x, f"{ENCODER}.conv2", 2)
    x = graph.op("Transpose", x, perm=[0, 2, 1])
    x = graph.op("Add", x, graph.weight(f"{ENCODER}.embed_positions.weight"))
    for layer in range(size.encoder_layers):
        name = f"{ENCODER}.layers.{layer}"
        states, own = graph.norm(x, f"{name}.self_attn_layer_norm"), f"{name}.self_attn"
        keys = graph.heads(graph.linear(states, f"{own}.k_proj", bias=False), transposed=True)
        values = graph.heads(graph.linear(states, f"{own}.v_proj"))
        x = graph.op("Add", x, graph.lookup(own, graph.queries(states, own), keys, values))
        x = graph.inner(x, name)
    states = graph.norm(x, f"{ENCODER}.layer_norm")
    names = [f"{DECODER}.layers.{n}.encoder_attn" for n in range(size.decoder_layers)]
    keys_of = [graph.linear(states, f"{name}.k_proj", bias=False) for name in names]
    graph.stacked([graph.heads(keys, transposed=True) for keys in keys_of], KEYS)
    graph.stacked([graph.heads(graph.linear(states, f"{n}.v_proj")) for n in names], VALUES)
    inputs = [value("features", "float32", "N", size.bands, 2 * size.places)]
    return graph.model("encoder", inputs, _looked_up(size), OPSET)


def _looked_up(size: WhisperSize) -> list[Any]:
    """Return the tensors that lead from the encoder to the decoder."""
    front = ("N", size.decoder_layers, size.heads)
    return [
        value(KEYS, "float32", *front, size.head_width, size.places),
        value(VALUES, "float32", *front, size.places, size.head_width),
    ]


def step(graph: WhisperGraph) -> Any:
    """Return the graph from one token, the cache and the sound to scores and the new cache."""
    size = graph.size
    embedding = graph.weight(f"{DECODER}.embed_tokens.weight")
    x = graph.op("Unsqueeze", graph.op("Gather", embedding, "token"), graph.ints(1))
    place = graph.op("Gather", graph.op("Shape", CACHE), graph.ints(3))
    positions = graph.weight(f"{DECODER}.embed_positions.weight")
    x = graph.op("Add", x, graph.op("Gather", positions, place))
    cache = []
    for layer in range(size.decoder_layers):
        name = f"{DECODER}.layers.{layer}"
        own, other = f"{name}.self_attn", f"{name}.encoder_attn"
        states = graph.norm(x, f"{own}_layer_norm")
        new = (
            graph.linear(states, f"{own}.k_proj", bias=False),
            graph.linear(states, f"{own}.v_proj"),
        )
        memory = [
            graph.op("Concat", graph.of_layer(CACHE, 2 * layer + n), graph.heads(part), axis=2)
            for n, part in enumerate(new)
        ]
        cache += memory
        keys = graph.op("Transpose", memory[0], perm=[0, 1, 3, 2])
        x = graph.op("Add", x, graph.lookup(own, graph.queries(states, own), keys, memory[1]))
        queries = graph.queries(graph.norm(x, f"{other}_layer_norm"), other)
        sound = (graph.of_layer(KEYS, layer), graph.of_layer(VALUES, layer))
        x = graph.op("Add", x, graph.lookup(other, queries, *sound))
        x = graph.inner(x, name)
    states = graph.norm(x, f"{DECODER}.layer_norm")
    scores = graph.op("MatMul", states, graph.op("Transpose", embedding, perm=[1, 0]))
    graph.name(graph.op("Squeeze", scores, graph.ints(1)), "scores")
    graph.stacked(cache, "new_cache")
    front = ("N", 2 * size.decoder_layers, size.heads)
    memory_in = value(CACHE, "float32", *front, "P", size.head_width)
    inputs = [value("token", "int64", "N"), memory_in, *_looked_up(size)]
    outputs = [
        value("scores", "float32", "N", size.vocabulary),
        value("new_cache", "float32", *front, "T", size.head_width),
    ]
    return graph.model("step", inputs, outputs, OPSET)


def write(weights: WhisperWeights, size: WhisperSize, out: Path) -> dict[str, Any]:
    """Write both graphs; return the facts about their files and tensors."""
    whole = 4 * size.parameters
    made = []
    for file, build in ((ENCODER_FILE, encoder), (STEP_FILE, step)):
        data = out / f"{file}.data" if whole > LARGEST_GRAPH else None
        graph = WhisperGraph(weights, size, data)
        made.append(models.saved(out / file, build(graph), deterministic=True))
    data_files = [models.graph_facts(path) for path in sorted(out.glob("whisper_*.onnx.data"))]
    front = (size.decoder_layers, size.heads)
    looked_up = [
        models.tensor(KEYS, *front, size.head_width, size.places),
        models.tensor(VALUES, *front, size.places, size.head_width),
    ]
    cached = (2 * size.decoder_layers, size.heads, -1, size.head_width)
    token = models.tensor("token", dtype="int64")
    part = {
        "name": "step",
        **made[1],
        "inputs": [token, models.tensor(CACHE, *cached), *looked_up],
        "outputs": [
            models.tensor("scores", size.vocabulary),
            models.tensor("new_cache", *cached),
        ],
    }
    return {
        **made[0],
        "precision": "fp32",
        "inputs": [models.tensor("features", size.bands, 2 * size.places)],
        "outputs": looked_up,
        "parts": [part],
        **({"data": data_files} if data_files else {}),
    }
