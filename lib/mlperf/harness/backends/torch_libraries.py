"""Modules of torchvision and transformers that compute what a known ONNX graph computes.

A converted graph calls an operator of PyTorch for every node. The module of a library calls fewer
and faster ones: convolutions that lie in memory as a GPU's matrix units want them, attention as one
kernel. A graph is recognized by how its operators are connected, whatever their names are, and its
weights become those of the module. What a graph computes beyond them, such as its padding, is not
looked at: the backend compares what both compute of ``KnownGraph.example`` before it uses one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from . import torch_vision
from .graph_view import (
    GraphView,
    KnownGraph,
    UnknownGraphError,
    attribute,
    linear,
    only,
    version_of,
)

# What a BERT's layer multiplies with, in order.
LINEARS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
# The width of an attention head in every published BERT, and what its graph adds to masked scores.
HEAD, MASKED = 64, -1e4
# The epsilon of all published ones, where it is no attribute.
EPSILON = 1e-12
TOKENS = 16
# What a graph that answers with boxes ends in.
DETECTED = {"NonMaxSuppression"}


def recognized(model: Any, folder: Path) -> KnownGraph:
    """Return the known graph of a model; raises UnknownGraphError, ImportError without the library.

    ``model`` is the ONNX model; its weights may lie in files of ``folder``.
    """
    view = GraphView(model, folder)
    kinds = {node.op_type for node in view.nodes}
    try:
        if "Conv" in kinds and "MaxPool" in kinds:
            return torch_vision.detector(view) if DETECTED & kinds else torch_vision.resnet50(view)
        if "Gather" in kinds and "Softmax" in kinds:
            return _bert(view)
    except (KeyError, IndexError) as error:
        raise UnknownGraphError(f"it is connected otherwise: {error}") from error
    raise UnknownGraphError("no library has a module for it")


# BERT of transformers for question answering.


class QuestionAnswerer(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A BERT whose arguments are those of the graph, in its order."""

    def __init__(self, network: Any, order: Sequence[int]) -> None:
        super().__init__()
        self.network = network
        self._order = tuple(order)

    def forward(self, *inputs: Any) -> tuple[Any, Any]:
        """``inputs`` [n, t] are integers; the answers are float32 [n, t]."""
        ids, mask, segments = (inputs[place] for place in self._order)
        bert, head = self.network.bert, self.network.qa_outputs
        dtype, (n, t) = head.weight.dtype, ids.shape
        # As the graph adds it, and not as the library does, which looks at its values first.
        masked = ((1 - mask).to(dtype) * MASKED)[:, None, None, :].expand(n, 1, t, t)
        x = bert.embeddings(input_ids=ids, token_type_ids=segments)
        for layer in bert.encoder.layer:
            x = layer(x, masked)
            x = x[0] if isinstance(x, tuple) else x
        logits = head(x).float()
        return logits[..., 0].contiguous(), logits[..., 1].contiguous()

    logits = forward


def _bert(view: GraphView) -> KnownGraph:
    linears = [node for node in view.of("MatMul", "Gemm") if view.shape(node.input[1])]
    layers, left = divmod(len(linears) - 1, len(LINEARS))
    norms = _norms(view)
    if layers < 1 or left or len(norms) < 1 + len(NORMS) * layers:
        raise UnknownGraphError("it has other layers")
    tables, order = _tables(view)
    return KnownGraph(
        f"{version_of('transformers')} BertForQuestionAnswering, SDPA",
        tuple(view.inputs),
        tuple(view.outputs),
        view.part(view.outputs),
        _questions(view.shape(tables["word_embeddings"])[0], order),
        partial(_answerer, view, tables, linears, norms, order),
    )


def _answerer(
    view: GraphView,
    tables: Mapping[str, str],
    linears: Sequence[Any],
    norms: Sequence[tuple[str, str]],
    order: Sequence[int],
) -> QuestionAnswerer:
    layers = len(linears) // len(LINEARS)
    names = [f"bert.encoder.layer.{layer}." for layer in range(layers)]
    state = {f"bert.embeddings.{name}.weight": view.weight(at) for name, at in tables.items()}
    heads = [*(name + part for name in names for part in LINEARS), "qa_outputs"]
    for name, node in zip(heads, linears, strict=True):
        state[f"{name}.weight"], state[f"{name}.bias"] = linear(view, node)
    normed = ["bert.embeddings.LayerNorm", *(name + part for name in names for part in NORMS)]
    for name, pair in zip(normed, norms, strict=False):
        state[f"{name}.weight"], state[f"{name}.bias"] = map(view.weight, pair)
    fused = view.of("LayerNormalization")
    epsilon = float(attribute(fused[0], "epsilon", 1e-5)) if fused else EPSILON
    return QuestionAnswerer(_bert_network(state, layers, epsilon), order)


def _bert_network(state: dict[str, Any], layers: int, epsilon: float) -> Any:
    import transformers

    words, width = state["bert.embeddings.word_embeddings.weight"].shape
    config = transformers.BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // HEAD),
        intermediate_size=len(state["bert.encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(state["bert.embeddings.position_embeddings.weight"]),
        type_vocab_size=len(state["bert.embeddings.token_type_embeddings.weight"]),
        layer_norm_eps=epsilon,
        attn_implementation="sdpa",
    )
    with torch.device("meta"):
        network = transformers.BertForQuestionAnswering(config)
    network.load_state_dict(state, strict=True, assign=True)
    # All but weights is made anew: nothing is in the memory of the device "meta".
    network.bert.embeddings.position_ids = torch.arange(config.max_position_embeddings)[None]
    network.bert.embeddings.token_type_ids = torch.zeros(1, config.max_position_embeddings).long()
    return network.requires_grad_(False)


def _tables(view: GraphView) -> tuple[dict[str, str], list[int]]:
    """Return the tables of embeddings, and the places of words, mask and segments as inputs."""
    gathers = [node for node in view.of("Gather") if len(view.shape(node.input[0])) == 2]
    of_inputs = [node for node in gathers if view.root(node.input[1]) in view.inputs]
    word, kind = sorted(of_inputs, key=lambda node: -view.shape(node.input[0])[0])
    position = only(node for node in gathers if node not in of_inputs)
    tables = {
        "word_embeddings": word.input[0],
        "token_type_embeddings": kind.input[0],
        "position_embeddings": position.input[0],
    }
    places = [view.inputs.index(view.root(node.input[1])) for node in (word, kind)]
    mask = only(place for place in range(len(view.inputs)) if place not in places)
    return tables, [places[0], mask, places[1]]


def _norms(view: GraphView) -> list[tuple[str, str]]:
    """Return the scales and shifts of all normalizations, as one operator or as several."""
    fused = [(node.input[1], node.input[2]) for node in view.of("LayerNormalization")]
    scaled = {
        node.output[0]: view.constant_of(node)
        for node in view.of("Mul")
        if any(len(view.shape(name)) == 1 for name in node.input)
    }
    return fused or [
        (scaled[source], view.constant_of(node))
        for node in view.of("Add")
        for source in node.input
        if source in scaled
    ]


def _questions(words: int, order: Sequence[int]) -> tuple[Any, ...]:
    """Return two texts, the second of which is shorter, as the inputs of the graph."""
    generator = torch.Generator().manual_seed(1)
    shape = (2, TOKENS)
    ids = torch.randint(1, words, shape, generator=generator)
    mask, segments = torch.ones(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
    mask[1, TOKENS // 2 :] = 0
    segments[:, TOKENS // 4 :] = 1
    placed = dict(zip(order, (ids, mask, segments), strict=True))
    return tuple(placed[place] for place in range(len(order)))


def answers(module: Callable[..., Any], example: Sequence[Any]) -> tuple[Any, ...]:
    """Return the outputs of a module."""
    with torch.inference_mode():
        outputs = module(*example)
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def difference(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return by what share of the greatest value two answers differ at most.

    Answers that are whole numbers differ by 1 where any of them does.
    """
    return max(_difference(*pair) for pair in zip(one, other, strict=True))


def _difference(one: Any, other: Any) -> float:
    if one.shape != other.shape:
        return float("inf")
    if not other.is_floating_point():
        return float((one != other).any())
    greatest = other.double().abs().max().clamp_min(1e-30)
    return float((one.double() - other.double()).abs().max() / greatest)
