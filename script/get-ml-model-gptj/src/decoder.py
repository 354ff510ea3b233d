"""GPT-J as an ONNX graph with a cache, its weights in a file beside it.

Facts: a block adds attention and a feed-forward part of the same normalized states; the first
``rotary`` numbers of every query and key are turned by the place of their token, in pairs of
neighbours; there is no bias in the attention. Weights have the names of Hugging Face's
checkpoints. Two changes leave all results as they are: the numbers of a pair are moved apart (first
all first ones, then all second ones, in queries and keys alike), and the division of the scores by
the root of the head's width is done in the weights of the queries.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
FILE = "gptj.onnx"
# Pages of memory: a weight that begins at one can be mapped.
ALIGNMENT = 4096
BLOCK = 1 << 24
# ROUGE of the reference, the share that must be reached, and the number of tokens.
ROUGE = {"ROUGE-1": 42.9865, "ROUGE-2": 20.1235, "ROUGE-L": 29.9881}
TARGET_SHARE = 0.99
TOKENS, TOKEN_SHARE = 4016878.0, 0.9
# Far below every score, and still a number.
NEVER = -1e9
GELU = (0.7978845608028654, 0.044715)

Array = npt.NDArray[np.float32]


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


class Source(Protocol):
    """Where weights come from; each is asked for once, in the order of the graph."""

    def array(self, name: str) -> Array:
        """The weight of this name as float32."""


def shapes(size: Size) -> dict[str, tuple[int, ...]]:
    """Every weight of a network of this size, by its name in a checkpoint."""
    width, inner = size.width, size.inner
    found: dict[str, tuple[int, ...]] = {"transformer.wte.weight": (size.vocabulary, width)}
    for layer in range(size.layers):
        name = f"transformer.h.{layer}"
        found |= {f"{name}.ln_1.weight": (width,), f"{name}.ln_1.bias": (width,)}
        for part in ("q", "k", "v", "out"):
            found[f"{name}.attn.{part}_proj.weight"] = (width, width)
        found |= {
            f"{name}.mlp.fc_in.weight": (inner, width),
            f"{name}.mlp.fc_in.bias": (inner,),
            f"{name}.mlp.fc_out.weight": (width, inner),
            f"{name}.mlp.fc_out.bias": (width,),
        }
    return found | {
        "transformer.ln_f.weight": (width,),
        "transformer.ln_f.bias": (width,),
        "lm_head.weight": (size.vocabulary, width),
        "lm_head.bias": (size.vocabulary,),
    }


def weight_bytes(size: Size) -> int:
    """Bytes of all weights as float32."""
    return 4 * sum(int(np.prod(shape)) for shape in shapes(size).values())


class Graph:
    """Nodes and weights in the making; methods return the name of what they compute.

    Small constants are kept in the graph, weights are appended to ``data``.
    """

    def __init__(self, source: Source, data: IO[bytes], location: str) -> None:
        self._source, self._data, self._location = source, data, location
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Numbers within the graph."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def weight(self, name: str) -> str:
        """A weight as it is."""
        return self.stored(name, self._source.array(name))

    def turned(self, name: str) -> str:
        """The weight of a linear layer, turned so that states can be multiplied by it."""
        return self.stored(name, self._source.array(name).T)

    def array(self, name: str) -> Array:
        """A weight that has to be changed before it is stored."""
        return self._source.array(name)

    def stored(self, name: str, values: Array) -> str:
        """Append an array to the data; its bytes never all lie in memory twice."""
        values = np.ascontiguousarray(values, dtype=np.float32)
        self._data.write(b"\0" * (-self._data.tell() % ALIGNMENT))
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=values.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", self._location),
            ("offset", self._data.tell()),
            ("length", values.nbytes),
        ):
            tensor.external_data.add(key=key, value=str(value))
        self._data.write(values.data.cast("B"))
        self.weights.append(tensor)
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def slice(self, x: str, begin: int, end: int, axis: int) -> str:
        """A part of ``x`` along an axis."""
        return self.op("Slice", x, *(self.constant([n]) for n in (begin, end, axis)))

    def name_output(self, value: str, name: str) -> None:
        """Give a value the name of an output of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))


def apart(weights: Array, size: Size) -> Array:
    """Rows of queries or keys with the pairs of their turned part moved apart."""
    order = np.arange(size.head_width)
    order[: size.rotary] = [*range(0, size.rotary, 2), *range(1, size.rotary, 2)]
    shaped = weights.reshape(size.heads, size.head_width, size.width)
    return shaped[:, order].reshape(size.width, size.width)


@dataclass(frozen=True, slots=True)
class Frame:
    """What all blocks share: mask of the scores, and how far each token's pairs are turned."""

    mask: str
    sine: str
    cosine: str


def frame(graph: Graph, size: Size) -> Frame:
    """The mask [n, 1, s, p + s] and the turns [n, 1, s, rotary / 2] of the new tokens."""
    one = graph.constant([1])
    total = graph.op("Gather", graph.op("Shape", "attention_mask"), one)
    new = graph.op("Gather", graph.op("Shape", "input_ids"), one)
    before = graph.op("Sub", total, new)
    scalar = [graph.op("Squeeze", each, graph.constant([0])) for each in (total, before)]
    order = graph.op("Range", graph.constant(0), scalar[0], graph.constant(1))
    own = graph.op("Range", scalar[1], scalar[0], graph.constant(1))
    own = graph.op("Unsqueeze", own, graph.constant([1]))
    causal = graph.op("Not", graph.op("Greater", order, own))
    shown = graph.op("Greater", "attention_mask", graph.constant([0]))
    shown = graph.op("Unsqueeze", shown, graph.constant([1, 2]))
    seen = graph.op("And", causal, shown)
    zero, never = graph.constant(0.0, np.float32), graph.constant(NEVER, np.float32)
    mask = graph.op("Where", seen, zero, never)
    # A token's place is the number of tokens that it sees, without itself.
    many = graph.op("Cast", seen, to=TensorProto.INT64)
    many = graph.op("ReduceSum", many, graph.constant([3]), keepdims=0)
    places = graph.op("Max", graph.op("Sub", many, one), graph.constant([0]))
    pairs = size.rotary // 2
    speeds = 10000.0 ** (-np.arange(pairs) / pairs)
    angles = np.arange(size.places)[:, None] * speeds[None]
    turns = [
        graph.op("Gather", graph.constant(table, np.float32), places)
        for table in (np.sin(angles), np.cos(angles))
    ]
    return Frame(mask, *turns)


def heads(graph: Graph, x: str, size: Size) -> str:
    """States [n, s, width] as [n, heads, s, head width]."""
    shape = graph.constant([0, 0, size.heads, size.head_width])
    return graph.op("Transpose", graph.op("Reshape", x, shape), perm=[0, 2, 1, 3])


def turn(graph: Graph, x: str, shared: Frame, size: Size) -> str:
    """Turn the pairs of [n, heads, s, head width] by the places of the tokens."""
    half = size.rotary // 2
    first = graph.slice(x, 0, half, 3)
    second = graph.slice(x, half, size.rotary, 3)
    one = graph.op("Mul", first, shared.cosine), graph.op("Mul", second, shared.sine)
    two = graph.op("Mul", second, shared.cosine), graph.op("Mul", first, shared.sine)
    parts = [graph.op("Sub", *one), graph.op("Add", *two)]
    if size.rotary < size.head_width:
        parts.append(graph.slice(x, size.rotary, size.head_width, 3))
    return graph.op("Concat", *parts, axis=3)


def attention(
    graph: Graph, x: str, layer: int, shared: Frame, size: Size
) -> tuple[str, tuple[str, str]]:
    """What attention adds, and the keys and values of all tokens."""
    name = f"transformer.h.{layer}.attn"
    queries = apart(graph.array(f"{name}.q_proj.weight"), size) / np.sqrt(size.head_width)
    found = []
    for part, rows in (
        ("q", queries.astype(np.float32)),
        ("k", apart(graph.array(f"{name}.k_proj.weight"), size)),
    ):
        states = graph.op("MatMul", x, graph.stored(f"{name}.{part}_proj.weight", rows.T))
        found.append(turn(graph, heads(graph, states, size), shared, size))
    states = graph.op("MatMul", x, graph.turned(f"{name}.v_proj.weight"))
    found.append(heads(graph, states, size))
    kept = [
        graph.op("Concat", graph.op("Gather", "past", graph.constant(place), axis=1), new, axis=2)
        for place, new in ((2 * layer, found[1]), (2 * layer + 1, found[2]))
    ]
    turned = graph.op("Transpose", kept[0], perm=[0, 1, 3, 2])
    scores = graph.op("Add", graph.op("MatMul", found[0], turned), shared.mask)
    mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), kept[1])
    mixed = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = graph.op("Reshape", mixed, graph.constant([0, 0, size.width]))
    out = graph.op("MatMul", mixed, graph.turned(f"{name}.out_proj.weight"))
    return out, (kept[0], kept[1])


def feed_forward(graph: Graph, x: str, layer: int) -> str:
    """What the feed-forward part adds."""
    name = f"transformer.h.{layer}.mlp"
    x = graph.op("MatMul", x, graph.turned(f"{name}.fc_in.weight"))
    x = graph.op("Add", x, graph.weight(f"{name}.fc_in.bias"))
    x = gelu(graph, x)
    x = graph.op("MatMul", x, graph.turned(f"{name}.fc_out.weight"))
    return graph.op("Add", x, graph.weight(f"{name}.fc_out.bias"))


def gelu(graph: Graph, x: str) -> str:
    """The activation of GPT-2 and GPT-J, by the hyperbolic tangent."""

    def number(value: float) -> str:
        return graph.constant(value, np.float32)

    cube = graph.op("Mul", graph.op("Mul", x, x), x)
    inner = graph.op("Add", x, graph.op("Mul", cube, number(GELU[1])))
    share = graph.op("Tanh", graph.op("Mul", inner, number(GELU[0])))
    share = graph.op("Mul", graph.op("Add", share, number(1.0)), number(0.5))
    return graph.op("Mul", x, share)


def normalized(graph: Graph, x: str, name: str, size: Size) -> str:
    """Layer normalization."""
    weights = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
    return graph.op("LayerNormalization", x, *weights, axis=-1, epsilon=size.epsilon)


def tensors(size: Size) -> dict[str, list[dict[str, Any]]]:
    """Inputs and outputs as model.json has them."""
    cache = [2 * size.layers, size.heads, -1, size.head_width]

    def tensor(name: str, shape: list[int], dtype: str = "float32") -> dict[str, Any]:
        return {"name": name, "dtype": dtype, "shape": shape}

    return {
        "inputs": [
            tensor("input_ids", [-1], "int64"),
            tensor("attention_mask", [-1], "int64"),
            tensor("past", cache),
        ],
        "outputs": [tensor("logits", [-1, size.vocabulary]), tensor("present", cache)],
    }


def build(graph: Graph, size: Size) -> Any:
    """The whole network; scores are those after the last token only, because no others are used."""
    shared = frame(graph, size)
    x = graph.op("Gather", graph.weight("transformer.wte.weight"), "input_ids")
    presents: list[str] = []
    for layer in range(size.layers):
        y = normalized(graph, x, f"transformer.h.{layer}.ln_1", size)
        mixed, kept = attention(graph, y, layer, shared, size)
        x = graph.op("Add", graph.op("Add", mixed, feed_forward(graph, y, layer)), x)
        presents += [graph.op("Unsqueeze", each, graph.constant([1])) for each in kept]
    graph.name_output(graph.op("Concat", *presents, axis=1), "present")
    x = graph.slice(x, -1, np.iinfo(np.int64).max, 1)
    x = normalized(graph, x, "transformer.ln_f", size)
    x = graph.op("MatMul", x, graph.turned("lm_head.weight"))
    graph.name_output(graph.op("Add", x, graph.weight("lm_head.bias")), "logits")
    infos = {key: [_info(each) for each in found] for key, found in tensors(size).items()}
    made = helper.make_graph(graph.nodes, "gptj", infos["inputs"], infos["outputs"], graph.weights)
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )


def _info(tensor: dict[str, Any]) -> Any:
    kind = TensorProto.INT64 if tensor["dtype"] == "int64" else TensorProto.FLOAT
    sizes = [
        f"{tensor['name']}_{place}" if n == -1 else n for place, n in enumerate(tensor["shape"])
    ]
    return helper.make_tensor_value_info(tensor["name"], kind, ["N", *sizes])


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def write(source: Source, size: Size, out: Path, facts: dict[str, Any]) -> None:
    """Write the graph, its weights and model.json, to which ``facts`` are added, into ``out``."""
    data = out / f"{FILE}.data"
    with data.open("wb") as file:
        model = build(Graph(source, file, data.name), size)
    (out / FILE).write_bytes(model.SerializeToString())
    onnx.checker.check_model(str(out / FILE))
    whole = {
        "file": FILE,
        "sha256": digest(out / FILE),
        "bytes": (out / FILE).stat().st_size,
        "data": {"file": data.name, "sha256": digest(data), "bytes": data.stat().st_size},
        "precision": "fp32",
        **tensors(size),
        **facts,
    }
    (out / "model.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


def accuracy() -> dict[str, Any]:
    """The figures that the rules refer to."""
    figures = [
        {"metric": metric, "unit": "", "reference": value, "target": value * TARGET_SHARE}
        for metric, value in ROUGE.items()
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
