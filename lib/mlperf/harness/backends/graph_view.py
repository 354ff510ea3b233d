"""The connections of an ONNX graph, and its weights: for the modules of libraries."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .onnx_file import weight_beside

# Operators that change neither which convolution a value is of nor its shape.
PASSED = {"Relu", "BatchNormalization", "Pad", "Identity", "Dropout", "Cast"}


class UnknownGraphError(ValueError):
    """The graph is none of those that a library has a module for."""


@dataclass(frozen=True, slots=True)
class KnownGraph:
    """A graph for which ``library`` has a module, which ``build`` makes.

    ``reference`` is the model of the values that the module's ``logits`` answers to ``example``:
    probabilities are 0 and 1 often. ``build`` raises UnknownGraphError for weights that do not fit.
    """

    library: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reference: Any
    example: tuple[Any, ...]
    build: Callable[[], Any]
    # Of the part of the graph that stays a converted one.
    operators: frozenset[str] = frozenset()


class GraphView:
    """The nodes of an ONNX graph, by what they are connected to; ``folder`` has its weights."""

    def __init__(self, model: Any, folder: Path) -> None:
        graph = model.graph
        self._model, self._folder = model, folder
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._tensors[node.output[0]] = node.attribute[0].t
        self._producers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
        self.nodes = list(graph.node)
        self._inputs = {info.name: info for info in graph.input if info.name not in self._tensors}
        self.inputs = list(self._inputs)
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
        while node is not None and (node.op_type in PASSED or self.is_scaling(node)):
            computed = (source for source in node.input if source not in self._tensors)
            name = next(computed, node.input[0])
            node = self._producers.get(name)
        return name

    def is_scaling(self, node: Any) -> bool:
        """Return whether a node multiplies or shifts channels by constants."""
        return node.op_type in ("Mul", "Add") and any(
            len(shape) in (3, 4) and shape[-3] == max(shape) and shape[-2:] == (1, 1)
            for shape in map(self.shape, node.input)
        )

    def normalizations(self, node: Any) -> list[Any]:
        """Return what scales the output of a convolution before anything else reads it."""
        following: list[Any] = []
        readers = self._readers.get(node.output[0], [])
        while len(readers) == 1 and (
            readers[0].op_type == "BatchNormalization" or self.is_scaling(readers[0])
        ):
            following.append(readers[0])
            readers = self._readers.get(readers[0].output[0], [])
        return following

    def kind(self, name: str) -> str:
        """Return the operator that a value comes from."""
        return str(self._producers[self.root(name)].op_type)

    def after(self, name: str, kind: str) -> list[Any]:
        """Return the nodes of an operator with an input that is ``name``, passed on or not."""
        return [
            node
            for node in self.of(kind)
            if not self.is_scaling(node) and name in map(self.root, node.input)
        ]

    def constant_of(self, node: Any) -> Any:
        """Return the input of a node of two that is a constant; raises UnknownGraphError."""
        return only(name for name in node.input if name in self._tensors)

    def part(self, outputs: Sequence[str], known: Sequence[str] = ()) -> Any:
        """Return the model of what lies between values: it computes ``outputs``.

        Its inputs are those of ``known``, and of the graph, that it needs.
        """
        import onnx

        def info(name: str, infos: Mapping[str, Any]) -> Any:
            blank = partial(onnx.helper.make_tensor_value_info, name, onnx.TensorProto.FLOAT, None)
            return infos.get(name) or blank()

        sources = [*self.inputs, *known]
        nodes, names = self._between(set(sources), outputs)
        types = {tensor.name: tensor for tensor in self._model.graph.output}
        graph = onnx.GraphProto(
            name="part",
            node=[node for node in self.nodes if id(node) in nodes],
            initializer=[tensor for name, tensor in self._tensors.items() if name in names],
            input=[info(name, self._inputs) for name in sources if name in names],
            output=[info(name, types) for name in outputs],
        )
        return onnx.ModelProto(
            ir_version=self._model.ir_version, opset_import=self._model.opset_import, graph=graph
        )

    def _between(self, sources: Set[str], outputs: Sequence[str]) -> tuple[set[int], set[str]]:
        """Return which nodes compute ``outputs`` out of ``sources``, and the values they read."""
        nodes: set[int] = set()
        names: set[str] = set()
        waiting = list(outputs)
        while waiting:
            name = waiting.pop()
            names.add(name)
            if not name or name in self._tensors or name in sources:
                continue
            node = self._producers[name]
            if id(node) not in nodes:
                nodes.add(id(node))
                waiting += node.input
        return nodes, names


def version_of(library: str) -> str:
    """Return a library and its version, as results name it."""
    return f"{library} {importlib.metadata.version(library)}"


def linear(view: GraphView, node: Any) -> tuple[Any, Any]:
    """Return a matrix as PyTorch has it, [out, in], and its bias."""
    weight = view.weight(node.input[1])
    if node.op_type == "Gemm":
        is_turned = bool(attribute(node, "transB", 0))
        return (weight if is_turned else weight.T.contiguous()), view.weight(node.input[2])
    return weight.T.contiguous(), view.weight(view.constant_of(added_to(view, node)))


def added_to(view: GraphView, node: Any) -> Any:
    """Return the node that adds the bias of a matrix."""
    return only(added for added in view.of("Add") if node.output[0] in added.input)


def parameters(*tensors: Any) -> Iterable[Any]:
    """Yield tensors as parameters that are not trained."""
    return (torch.nn.Parameter(tensor, requires_grad=False) for tensor in tensors)


def attribute(node: Any, name: str, default: Any) -> Any:
    """Return an attribute of a node, ``default`` where it has none."""
    import onnx

    attributes = {entry.name: entry for entry in node.attribute}
    return onnx.helper.get_attribute_value(attributes[name]) if name in attributes else default


def only(nodes: Iterable[Any]) -> Any:
    """Return the only one of these; raises UnknownGraphError where there are none or several."""
    matches = list(nodes)
    if len(matches) != 1:
        raise UnknownGraphError(f"{len(matches)} operators instead of one")
    return matches[0]
