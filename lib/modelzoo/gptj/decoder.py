"""GPT-J as an ONNX graph with a cache, its weights in a separate file.

Facts: a block adds attention and a feed-forward part of the same normalized states; the first
``rotary`` numbers of every query and key are rotated by the position of their token, in pairs of
neighbours; there is no bias in the attention. Weights have the names of Hugging Face's
checkpoints. Two changes leave all results as they are: the numbers of a pair are moved apart (first
all first ones, then all second ones, in queries and keys alike), and the division of the scores by
the root of the head's width is done in the weights of the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import TensorProto

from modelzoo import models
from modelzoo.graph import Array, OnnxGraph, value

OPSET = 17
FILE = "gptj.onnx"
# ROUGE of the reference, the share that must be reached, and the number of tokens.
ROUGE = {"ROUGE-1": 42.9865, "ROUGE-2": 20.1235, "ROUGE-L": 29.9881}
TARGET_SHARE = 0.99
TOKENS, TOKEN_SHARE = 4016878.0, 0.9
# Far below every score, and still a number.
NEVER = -1e9
GELU = (0.7978845608028654, 0.044715)


@dataclass(frozen=True, slots=True)
class Size:
    """The shape of the network; the defaults are those of GPT-J with 6 billion weights."""

    vocabulary: int = 50401
    width: int = 4096
    heads: int = 16
    layers: int = 28
    inner: int = 16384
    rotary: int = 64
    places: int = 2048
    epsilon: float = 1e-5

    @property
    def head_width(self) -> int:
        """Numbers of one head for one token."""
        return self.width // self.heads


class DecoderWeights(Protocol):
    """A source of weights, which are read once, in the order of the graph."""

    def array(self, name: str) -> Array:
        """The weight of this name as float32, in the checkpoint's shape."""


def shapes(size: Size) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights of a network of this size, by name in a checkpoint."""
    width, inner = size.width, size.inner
    by_name: dict[str, tuple[int, ...]] = {"transformer.wte.weight": (size.vocabulary, width)}
    for layer in range(size.layers):
        name = f"transformer.h.{layer}"
        by_name |= {f"{name}.ln_1.weight": (width,), f"{name}.ln_1.bias": (width,)}
        for part in ("q", "k", "v", "out"):
            by_name[f"{name}.attn.{part}_proj.weight"] = (width, width)
        by_name |= {
            f"{name}.mlp.fc_in.weight": (inner, width),
            f"{name}.mlp.fc_in.bias": (inner,),
            f"{name}.mlp.fc_out.weight": (width, inner),
            f"{name}.mlp.fc_out.bias": (width,),
        }
    return by_name | {
        "transformer.ln_f.weight": (width,),
        "transformer.ln_f.bias": (width,),
        "lm_head.weight": (size.vocabulary, width),
        "lm_head.bias": (size.vocabulary,),
    }


def weight_bytes(size: Size) -> int:
    """Bytes of all weights as float32."""
    return 4 * sum(int(np.prod(shape)) for shape in shapes(size).values())


class Decoder(OnnxGraph):
    """The network in the making; weights are appended to the file ``data``."""

    def __init__(self, source: DecoderWeights, data: Path) -> None:
        super().__init__(constants="c", data=data)
        self._source = source

    def weight(self, name: str) -> str:
        """A weight as it is."""
        return self.kept(name, self._source.array(name))

    def transposed(self, name: str) -> str:
        """The weight of a linear layer, transposed: states are multiplied by it."""
        return self.kept(name, self._source.array(name).T)

    def array(self, name: str) -> Array:
        """A weight that has to be changed before it is stored, in the checkpoint's shape."""
        return self._source.array(name)

    def kept(self, name: str, values: Array) -> str:
        """Store an array of any shape; its bytes never all lie in memory twice."""
        return self.stored(name, values.shape, [((0,) * values.ndim, values)])


def apart(weights: Array, size: Size) -> Array:
    """Queries' or keys' weights [width, width]; the pairs of their rotated part are moved apart."""
    order = np.arange(size.head_width)
    order[: size.rotary] = [*range(0, size.rotary, 2), *range(1, size.rotary, 2)]
    shaped = weights.reshape(size.heads, size.head_width, size.width)
    return shaped[:, order].reshape(size.width, size.width)


@dataclass(frozen=True, slots=True)
class SharedTensors:
    """Tensors that all blocks share: mask of the scores, rotary embedding of the tokens."""

    mask: str
    sine: str
    cosine: str


def frame(graph: Decoder, size: Size) -> SharedTensors:
    """The mask [n, 1, s, p + s] and rotary embedding [n, 1, s, rotary / 2] of the new tokens."""
    one = graph.ints(1)
    total = graph.op("Gather", graph.op("Shape", "attention_mask"), one)
    new = graph.op("Gather", graph.op("Shape", "input_ids"), one)
    before = graph.op("Sub", total, new)
    scalar = [graph.op("Squeeze", tensor, graph.ints(0)) for tensor in (total, before)]
    order = graph.op("Range", graph.const(0, np.int64), scalar[0], graph.const(1, np.int64))
    own = graph.op("Range", scalar[1], scalar[0], graph.const(1, np.int64))
    own = graph.op("Unsqueeze", own, graph.ints(1))
    causal = graph.op("Not", graph.op("Greater", order, own))
    shown = graph.op("Greater", "attention_mask", graph.ints(0))
    shown = graph.op("Unsqueeze", shown, graph.ints(1, 2))
    seen = graph.op("And", causal, shown)
    zero, never = graph.const(0.0), graph.const(NEVER)
    mask = graph.op("Where", seen, zero, never)
    # A token's position is the number of tokens that it sees, without itself.
    many = graph.op("Cast", seen, to=TensorProto.INT64)
    many = graph.op("ReduceSum", many, graph.ints(3), keepdims=0)
    places = graph.op("Max", graph.op("Sub", many, one), graph.ints(0))
    pairs = size.rotary // 2
    speeds = 10000.0 ** (-np.arange(pairs) / pairs)
    angles = np.arange(size.places)[:, None] * speeds[None]
    rotations = [
        graph.op("Gather", graph.const(table), places) for table in (np.sin(angles), np.cos(angles))
    ]
    return SharedTensors(mask, *rotations)


def heads(graph: Decoder, x: str, size: Size) -> str:
    """States [n, s, width] as [n, heads, s, head width]."""
    shape = graph.ints(0, 0, size.heads, size.head_width)
    return graph.op("Transpose", graph.op("Reshape", x, shape), perm=[0, 2, 1, 3])


def rotated(graph: Decoder, x: str, shared: SharedTensors, size: Size) -> str:
    """Rotate the pairs of [n, heads, s, head width] by the positions of the tokens."""
    half = size.rotary // 2
    first = graph.cut(x, 0, half, 3)
    second = graph.cut(x, half, size.rotary, 3)
    one = graph.op("Mul", first, shared.cosine), graph.op("Mul", second, shared.sine)
    two = graph.op("Mul", second, shared.cosine), graph.op("Mul", first, shared.sine)
    parts = [graph.op("Sub", *one), graph.op("Add", *two)]
    if size.rotary < size.head_width:
        parts.append(graph.cut(x, size.rotary, size.head_width, 3))
    return graph.op("Concat", *parts, axis=3)


def attention(
    graph: Decoder, x: str, layer: int, shared: SharedTensors, size: Size
) -> tuple[str, tuple[str, str]]:
    """What attention adds, and the keys and values of all tokens."""
    name = f"transformer.h.{layer}.attn"
    queries = apart(graph.array(f"{name}.q_proj.weight"), size) / np.sqrt(size.head_width)
    projections = []
    for part, rows in (
        ("q", queries.astype(np.float32)),
        ("k", apart(graph.array(f"{name}.k_proj.weight"), size)),
    ):
        states = graph.op("MatMul", x, graph.kept(f"{name}.{part}_proj.weight", rows.T))
        projections.append(rotated(graph, heads(graph, states, size), shared, size))
    states = graph.op("MatMul", x, graph.transposed(f"{name}.v_proj.weight"))
    projections.append(heads(graph, states, size))
    memory = [
        graph.op(
            "Concat", graph.op("Gather", "past", graph.const(place, np.int64), axis=1), new, axis=2
        )
        for place, new in ((2 * layer, projections[1]), (2 * layer + 1, projections[2]))
    ]
    transposed = graph.op("Transpose", memory[0], perm=[0, 1, 3, 2])
    scores = graph.op("Add", graph.op("MatMul", projections[0], transposed), shared.mask)
    mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), memory[1])
    mixed = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = graph.op("Reshape", mixed, graph.ints(0, 0, size.width))
    out = graph.op("MatMul", mixed, graph.transposed(f"{name}.out_proj.weight"))
    return out, (memory[0], memory[1])


def feed_forward(graph: Decoder, x: str, layer: int) -> str:
    """What the feed-forward part adds."""
    name = f"transformer.h.{layer}.mlp"
    x = graph.op("MatMul", x, graph.transposed(f"{name}.fc_in.weight"))
    x = graph.op("Add", x, graph.weight(f"{name}.fc_in.bias"))
    x = gelu(graph, x)
    x = graph.op("MatMul", x, graph.transposed(f"{name}.fc_out.weight"))
    return graph.op("Add", x, graph.weight(f"{name}.fc_out.bias"))


def gelu(graph: Decoder, x: str) -> str:
    """The activation of GPT-2 and GPT-J, by the hyperbolic tangent."""

    def number(value: float) -> str:
        return graph.const(value)

    cube = graph.op("Mul", graph.op("Mul", x, x), x)
    inner = graph.op("Add", x, graph.op("Mul", cube, number(GELU[1])))
    share = graph.op("Tanh", graph.op("Mul", inner, number(GELU[0])))
    share = graph.op("Mul", graph.op("Add", share, number(1.0)), number(0.5))
    return graph.op("Mul", x, share)


def normalized(graph: Decoder, x: str, name: str, size: Size) -> str:
    """Layer normalization."""
    weights = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
    return graph.op("LayerNormalization", x, *weights, axis=-1, epsilon=size.epsilon)


def tensors(size: Size) -> dict[str, list[dict[str, Any]]]:
    """Inputs and outputs as model.json has them."""
    cache = [2 * size.layers, size.heads, -1, size.head_width]
    tokens = models.tensors(["input_ids", "attention_mask"], -1, dtype="int64")
    return {
        "inputs": [*tokens, models.tensor("past", *cache)],
        "outputs": [
            models.tensor("logits", -1, size.vocabulary),
            models.tensor("present", *cache),
        ],
    }


def build(graph: Decoder, size: Size) -> Any:
    """The whole network; scores are those after the last token only, because no others are used."""
    shared = frame(graph, size)
    x = graph.op("Gather", graph.weight("transformer.wte.weight"), "input_ids")
    presents: list[str] = []
    for layer in range(size.layers):
        y = normalized(graph, x, f"transformer.h.{layer}.ln_1", size)
        mixed, memory = attention(graph, y, layer, shared, size)
        x = graph.op("Add", graph.op("Add", mixed, feed_forward(graph, y, layer)), x)
        presents += [graph.op("Unsqueeze", tensor, graph.ints(1)) for tensor in memory]
    graph.name(graph.op("Concat", *presents, axis=1), "present")
    x = graph.cut(x, -1, np.iinfo(np.int64).max, 1)
    x = normalized(graph, x, "transformer.ln_f", size)
    x = graph.op("MatMul", x, graph.transposed("lm_head.weight"))
    graph.name(graph.op("Add", x, graph.weight("lm_head.bias")), "logits")
    infos = {key: [_info(tensor) for tensor in tensors_] for key, tensors_ in tensors(size).items()}
    return graph.model("gptj", infos["inputs"], infos["outputs"], OPSET)


def _info(tensor: dict[str, Any]) -> Any:
    name = tensor["name"]
    sizes = [f"{name}_{place}" if n == -1 else n for place, n in enumerate(tensor["shape"])]
    return value(name, tensor["dtype"], "N", *sizes)


def write(source: DecoderWeights, size: Size, out: Path, facts: dict[str, Any]) -> None:
    """Write the graph, its weights and model.json, to which ``facts`` are added, into ``out``."""
    data = out / f"{FILE}.data"
    made = models.saved(out / FILE, build(Decoder(source, data), size))
    onnx.checker.check_model(str(out / FILE))
    files = {**made, "data": models.graph_facts(data), "precision": "fp32"}
    models.write_facts(out, {**files, **tensors(size), **facts})


def accuracy() -> dict[str, Any]:
    """The figures that the rules refer to."""
    figures = [
        {"metric": metric, "unit": "", "reference": score, "target": score * TARGET_SHARE}
        for metric, score in ROUGE.items()
    ]
    tokens = {"metric": "gen_len", "unit": "tokens", "reference": TOKENS}
    return {**figures[0], "further": [*figures[1:], {**tokens, "target": TOKENS * TOKEN_SHARE}]}


def options(end: int, pad: int) -> dict[str, int]:
    """How text is generated by the rules."""
    return {
        "beam_width": 4,
        "min_new_tokens": 30,
        "max_new_tokens": 128,
        "eos_token_id": end,
        "pad_token_id": pad,
        "largest_prompt": 1919,
    }
