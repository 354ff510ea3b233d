"""Modules of torchvision and transformers that compute what a known ONNX graph computes.

A converted graph calls an operator of PyTorch for every node. The module of a library calls fewer
and faster ones: convolutions that lie in memory as a GPU's matrix units want them, attention as one
kernel. A graph is recognized by how its operators are connected, whatever their names are, and its
weights become those of the module. What a graph computes beyond them, such as its padding, is not
looked at: the backend compares what both compute of ``KnownGraph.example`` before it uses one.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .onnx_file import weight_beside

# Operators that change neither which convolution a value is of nor its shape.
PASSED = {"Relu", "BatchNormalization", "Pad", "Identity", "Dropout", "Cast"}
# Blocks of the stages of ResNet-50, and what a BERT's layer multiplies with, in order.
STAGES = (3, 4, 6, 3)
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
IMAGE, TOKENS = 224, 16


class UnknownGraphError(ValueError):
    """The graph is none of those that a library has a module for."""


@dataclass(frozen=True, slots=True)
class KnownGraph:
    """A graph for which ``library`` has a module, which ``build`` makes.

    ``compared`` are the values of the graph that the module's ``logits`` answers to ``example``:
    probabilities are 0 and 1 often. ``build`` raises UnknownGraphError for weights that do not fit.
    """

    library: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    compared: tuple[str, ...]
    example: tuple[Any, ...]
    build: Callable[[], Any]


class GraphView:
    """The nodes of an ONNX graph, by what they are connected to; ``folder`` has its weights."""

    def __init__(self, model: Any, folder: Path) -> None:
        graph = model.graph
        self._folder = folder
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._tensors[node.output[0]] = node.attribute[0].t
        self._producers = {name: node for node in graph.node for name in node.output}
        self.nodes = list(graph.node)
        self.inputs = [info.name for info in graph.input if info.name not in self._tensors]
        self.outputs = [info.name for info in graph.output]

    def of(self, *kinds: str) -> list[Any]:
        """Return the nodes of these operators, in the order of computation."""
        return [node for node in self.nodes if node.op_type in kinds]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a constant, () for what is computed."""
        return tuple(self._tensors[name].dims) if name in self._tensors else ()

    def weight(self, name: str) -> Any:
        """Return the values of a constant as a tensor of its own memory."""
        import onnx

        tensor = self._tensors[name]
        if tensor.external_data:
            return torch.from_numpy(weight_beside(tensor, self._folder))
        return torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())

    def root(self, name: str) -> str:
        """Return the value that ``name`` is but for operators that pass it on."""
        node = self._producers.get(name)
        while node is not None and node.op_type in PASSED:
            name = node.input[0]
            node = self._producers.get(name)
        return name

    def kind(self, name: str) -> str:
        """Return the operator that a value comes from."""
        return str(self._producers[self.root(name)].op_type)

    def after(self, name: str, kind: str) -> list[Any]:
        """Return the nodes of an operator with an input that is ``name``, passed on or not."""
        return [
            node for node in self.of(kind) if name in (self.root(source) for source in node.input)
        ]

    def constant_of(self, node: Any) -> Any:
        """Return the input of a node of two that is a constant; raises UnknownGraphError."""
        return _only(name for name in node.input if name in self._tensors)


def recognized(model: Any, folder: Path) -> KnownGraph:
    """Return what is known of a graph; raises UnknownGraphError, ImportError without the library.

    ``model`` is the ONNX model; its weights may lie in files of ``folder``.
    """
    view = GraphView(model, folder)
    kinds = {node.op_type for node in view.nodes}
    try:
        if "Conv" in kinds and "MaxPool" in kinds:
            return _resnet50(view)
        if "Gather" in kinds and "Softmax" in kinds:
            return _bert(view)
    except (KeyError, IndexError) as error:
        raise UnknownGraphError(f"it is connected otherwise: {error}") from error
    raise UnknownGraphError("no library has a module for it")


def version_of(library: str) -> str:
    """Return a library and its version, as results name it."""
    return f"{library} {importlib.metadata.version(library)}"


# ResNet-50 of torchvision, whose blocks stride in the middle as those of v1.5 do.


class ImageClassifier(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A network with the answers of the graph: labels, probabilities or logits."""

    def __init__(self, network: Any, answers: Sequence[str]) -> None:
        super().__init__()
        self.network = network
        self._answers = tuple(answers)

    def forward(self, images: Any) -> tuple[Any, ...]:
        """``images`` [n, 3, h, w] of any float type; the answers are int64 [n], float32 [n, k]."""
        (logits,) = self.logits(images)
        made = {"ArgMax": lambda: logits.argmax(1), "Softmax": lambda: logits.softmax(1)}
        return tuple(made.get(answer, lambda: logits)() for answer in self._answers)

    def logits(self, images: Any) -> tuple[Any, ...]:
        """Float32 [n, k] alone."""
        weight = self.network.conv1.weight
        images = images.to(dtype=weight.dtype, memory_format=torch.channels_last)
        return (self.network(images).float(),)


def _resnet50(view: GraphView) -> KnownGraph:
    named = _resnet_convolutions(view)
    head = _only(view.of("Gemm", "MatMul"))
    images = torch.randn(2, 3, IMAGE, IMAGE, generator=torch.Generator().manual_seed(1))
    return KnownGraph(
        f"{version_of('torchvision')} resnet50",
        tuple(view.inputs),
        tuple(view.outputs),
        ((head if head.op_type == "Gemm" else _added(view, head)).output[0],),
        (images,),
        partial(_classifier, view, named, head),
    )


def _classifier(view: GraphView, named: Mapping[str, Any], head: Any) -> ImageClassifier:
    import torchvision

    weight, bias = _linear(view, head)
    with torch.device("meta"):
        network = torchvision.models.resnet50(weights=None, num_classes=len(bias))
    for name, node in named.items():
        _fill(network, name, *_folded(view, node))
    network.fc.weight, network.fc.bias = _parameters(weight, bias)
    network.maxpool = _pool(view)
    network.to(memory_format=torch.channels_last)
    return ImageClassifier(network, [view.kind(name) for name in view.outputs])


def _resnet_convolutions(view: GraphView) -> dict[str, Any]:
    """Return the nodes of the convolutions by torchvision's names."""
    if len(view.of("Conv")) != 1 + sum(3 * blocks + 1 for blocks in STAGES):
        raise UnknownGraphError("it has another number of convolutions")
    stem = _only(node for node in view.of("Conv") if view.shape(node.input[1])[1:2] == (3,))
    value = _only(view.after(stem.output[0], "MaxPool")).output[0]
    named = {"conv1": stem}
    for stage, blocks in enumerate(STAGES, 1):
        for number in range(blocks):
            at, width = f"layer{stage}.{number}", 32 << stage
            entries = view.after(value, "Conv")
            first = _only(n for n in entries if view.shape(n.input[1])[0] == width)
            second = _only(view.after(first.output[0], "Conv"))
            third = _only(view.after(second.output[0], "Conv"))
            named |= {f"{at}.conv1": first, f"{at}.conv2": second, f"{at}.conv3": third}
            if number == 0:
                named[f"{at}.downsample.0"] = _only(n for n in entries if n is not first)
            value = _only(view.after(third.output[0], "Add")).output[0]
    return named


def _folded(view: GraphView, node: Any) -> tuple[Any, Any]:
    """Return the weight and bias of a convolution, with the normalization that follows it."""
    weight = view.weight(node.input[1])
    bias = view.weight(node.input[2]) if len(node.input) > 2 else torch.zeros(len(weight))
    for norm in view.of("BatchNormalization"):
        if norm.input[0] == node.output[0]:
            scale, shift, mean, variance = (view.weight(name) for name in norm.input[1:5])
            factor = scale / torch.sqrt(variance + _attribute(norm, "epsilon", 1e-5))
            return weight * factor[:, None, None, None], (bias - mean) * factor + shift
    return weight, bias


def _fill(network: Any, name: str, weight: Any, bias: Any) -> None:
    """Put a convolution with a bias where torchvision has one and its normalization."""
    parent_name, _, leaf = name.rpartition(".")
    parent, bare = network.get_submodule(parent_name), network.get_submodule(name)
    if bare.weight.shape != weight.shape:
        raise UnknownGraphError(f"{name} has the shape {tuple(weight.shape)}")
    sizes = (bare.in_channels, bare.out_channels, bare.kernel_size, bare.stride, bare.padding)
    filled = torch.nn.Conv2d(*sizes, device="meta")
    filled.weight, filled.bias = _parameters(weight, bias)
    setattr(parent, leaf, filled)
    setattr(parent, "1" if leaf == "0" else leaf.replace("conv", "bn"), torch.nn.Identity())


def _pool(view: GraphView) -> Any:
    """Return the pooling of the graph: TensorFlow pads behind the image only."""
    pads = _attribute(_only(view.of("MaxPool")), "pads", (0, 0, 0, 0))
    if tuple(pads) == (1, 1, 1, 1):
        return torch.nn.MaxPool2d(3, 2, 1)
    top, left, bottom, right = pads
    # What is pooled is the output of a ReLU: nothing in it is below 0.
    pad = torch.nn.ZeroPad2d((left, right, top, bottom))
    return torch.nn.Sequential(pad, torch.nn.MaxPool2d(3, 2))


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
        tuple(view.outputs),
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
        state[f"{name}.weight"], state[f"{name}.bias"] = _linear(view, node)
    normed = ["bert.embeddings.LayerNorm", *(name + part for name in names for part in NORMS)]
    for name, pair in zip(normed, norms, strict=False):
        state[f"{name}.weight"], state[f"{name}.bias"] = map(view.weight, pair)
    fused = view.of("LayerNormalization")
    epsilon = float(_attribute(fused[0], "epsilon", 1e-5)) if fused else EPSILON
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
    # What is no weight is made anew: nothing is in the memory of the device "meta".
    network.bert.embeddings.position_ids = torch.arange(config.max_position_embeddings)[None]
    network.bert.embeddings.token_type_ids = torch.zeros(1, config.max_position_embeddings).long()
    return network.requires_grad_(False)


def _tables(view: GraphView) -> tuple[dict[str, str], list[int]]:
    """Return the tables of embeddings, and the places of words, mask and segments as inputs."""
    gathers = [node for node in view.of("Gather") if len(view.shape(node.input[0])) == 2]
    of_inputs = [node for node in gathers if view.root(node.input[1]) in view.inputs]
    word, kind = sorted(of_inputs, key=lambda node: -view.shape(node.input[0])[0])
    position = _only(node for node in gathers if node not in of_inputs)
    tables = {
        "word_embeddings": word.input[0],
        "token_type_embeddings": kind.input[0],
        "position_embeddings": position.input[0],
    }
    places = [view.inputs.index(view.root(node.input[1])) for node in (word, kind)]
    mask = _only(place for place in range(len(view.inputs)) if place not in places)
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


# What both need.


def _linear(view: GraphView, node: Any) -> tuple[Any, Any]:
    """Return a matrix as PyTorch has it, [out, in], and its bias."""
    weight = view.weight(node.input[1])
    if node.op_type == "Gemm":
        is_turned = bool(_attribute(node, "transB", 0))
        return (weight if is_turned else weight.T.contiguous()), view.weight(node.input[2])
    return weight.T.contiguous(), view.weight(view.constant_of(_added(view, node)))


def _added(view: GraphView, node: Any) -> Any:
    """Return the node that adds the bias of a matrix."""
    return _only(added for added in view.of("Add") if node.output[0] in added.input)


def _parameters(*tensors: Any) -> Iterable[Any]:
    return (torch.nn.Parameter(tensor, requires_grad=False) for tensor in tensors)


def _attribute(node: Any, name: str, default: Any) -> Any:
    import onnx

    attributes = {entry.name: entry for entry in node.attribute}
    return onnx.helper.get_attribute_value(attributes[name]) if name in attributes else default


def _only(nodes: Iterable[Any]) -> Any:
    """Return the only one of these; raises UnknownGraphError where there are none or several."""
    matches = list(nodes)
    if len(matches) != 1:
        raise UnknownGraphError(f"{len(matches)} operators instead of one")
    return matches[0]


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
