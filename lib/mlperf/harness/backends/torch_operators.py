"""ONNX operators that onnx2torch lacks or implements in part, with converters of our own.

They are found under a domain of their own, so that they never meet a converter that another
version of onnx2torch has: ``prepare`` moves the nodes of a model there. Each of them means the same
in all versions of the operator set, as far as its converter takes it.
"""

from __future__ import annotations

import contextlib
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnx2torch
import torch
import torchvision
from onnx2torch.node_converters.registry import add_converter
from onnx2torch.utils.common import (
    OnnxMapping,
    OperationConverterResult,
    get_const_value,
    onnx_mapping_from_node,
)

from . import torch_lstm
from .base import Array
from .onnx_file import ROOT, weight_beside

DOMAIN, VERSION = "cmbench", 1
STANDARD = ("", "ai.onnx")
# The size up to which a constant counts as one that shapes are computed from.
FEW = 1024


class Clip(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Values limited to ``low`` and ``high``, where there are such bounds.

    Bounds are attributes in old versions of the operator and inputs in new ones.
    """

    def __init__(self, low: float | None, high: float | None) -> None:
        super().__init__()
        self._bounds = low, high

    def forward(self, x: Any, low: Any = None, high: Any = None) -> Any:
        """Values of the type of ``x``, which may not be that of computed bounds."""
        least, most = self._bounds
        # Numbers stay numbers: a copy to a GPU would end the capture of a graph.
        if least is not None or most is not None:
            x = x.clamp(least, most)
        for value, narrow in ((low, torch.maximum), (high, torch.minimum)):
            if value is not None:
                x = narrow(x, torch.as_tensor(value, device=x.device).to(x.dtype))
        return x


class Compare(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Two tensors compared value by value."""

    def __init__(self, compare: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._compare = compare

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        """Bool, in the shape that both are broadcast to."""
        return self._compare(a, b)


class CumSum(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Sums of all values so far along an axis: with or without the own one, from either end."""

    def __init__(self, exclusive: bool, reverse: bool) -> None:
        super().__init__()
        self._exclusive, self._reverse = exclusive, reverse

    def forward(self, x: torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
        """In the shape and type of ``x``; ``axis`` is one number."""
        dim = int(axis)
        sums = (x.flip(dim) if self._reverse else x).cumsum(dim, dtype=x.dtype)
        if self._exclusive:
            sums = sums.roll(1, dim)
            sums.select(dim, 0).zero_()
        return sums.flip(dim) if self._reverse else sums


class GatherND(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Slices of a tensor, each at an index into its first axes."""

    def __init__(self, batch_dims: int) -> None:
        super().__init__()
        self._batch = batch_dims

    def forward(self, data: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """``indices`` [batch.., places.., k]: [batch.., places.., the axes after the first k]."""
        batch, depth = self._batch, indices.shape[-1]
        if batch == 0:
            return data[tuple(indices.unbind(-1))]
        own, places = data.shape[batch:], indices.shape[batch:-1]
        # All batch axes as one, with the number of its batch for every place.
        flat = data.reshape(-1, *own)
        inner = indices.reshape(flat.shape[0], -1, depth)
        numbers = torch.arange(len(inner), device=data.device)[:, None].expand(inner.shape[:2])
        values = flat[(numbers, *inner.unbind(-1))]
        return values.reshape(*data.shape[:batch], *places, *own[depth:])


class ScatterND(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A tensor with other values at indices into its first axes."""

    def forward(self, data: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> Any:
        """``indices`` [places.., k], ``updates`` [places.., the axes after the first k]."""
        result = data.clone()
        result[tuple(indices.unbind(-1))] = updates.to(data.dtype)
        return result


class SliceOperator(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A part of a tensor, cut along some of its axes."""

    def forward(self, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
        """All but ``x`` are int64 [k]: places along each axis; without ``axes`` the first k."""
        count = len(starts)
        parts = [slice(None)] * x.dim()
        turned = []
        for start, end, axis, step in zip(
            starts.tolist(),
            ends.tolist(),
            range(count) if axes is None else axes.tolist(),
            [1] * count if steps is None else steps.tolist(),
            strict=True,
        ):
            first, last, _ = slice(start, end, step).indices(size := x.shape[axis])
            if step > 0:
                parts[axis] = slice(first, max(first, last), step)
            else:
                # PyTorch cuts forwards only: the same part of the axis turned round. Backwards
                # ONNX begins at the first value at the earliest.
                parts[axis] = slice(size - 1 - max(first, 0), max(size - 1 - last, 0), -step)
                turned.append(axis)
        return (x.flip(turned) if turned else x)[tuple(parts)]


class LayerNormalization(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Values of the last axes with a mean of 0 and a variance of 1, scaled and shifted."""

    def __init__(self, axis: int, epsilon: float) -> None:
        super().__init__()
        self._axis, self._epsilon = axis, epsilon

    def forward(self, x: Any, scale: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
        """In the shape of ``x``; scale and bias have its axes from the first normalised one."""
        shape = x.shape[self._axis :]
        return torch.nn.functional.layer_norm(x, shape, scale, bias, self._epsilon)


class NonMaxSuppression(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """The bounding boxes of the highest scores by image and class, without overlaps."""

    def __init__(self, center_point_box: int) -> None:
        super().__init__()
        self._form = "cxcywh" if center_point_box else ""

    def forward(
        self,
        boxes: torch.Tensor,
        scores: torch.Tensor,
        max_output_boxes_per_class: torch.Tensor | None = None,
        iou_threshold: torch.Tensor | None = None,
        score_threshold: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``boxes`` [n, p, 4], ``scores`` [n, c, p]: [found, 3], numbers of image, class and box.

        Any two opposite corners make a box.
        """
        most = int(max_output_boxes_per_class or 0)
        overlap = float(iou_threshold or 0.0)
        least = -torch.inf if score_threshold is None else float(score_threshold)
        selected = [torch.empty(0, 3, dtype=torch.int64, device=boxes.device)]
        for image, own in enumerate(self._corners(boxes.float())):
            above = scores[image] > least
            for label in above.any(1).nonzero().flatten().tolist():
                places = above[label].nonzero().flatten()
                values = scores[image, label, places].float()
                kept = torchvision.ops.nms(own[places], values, overlap)[:most]
                rows = boxes.new_empty(len(kept), 3, dtype=torch.int64)
                rows[:, 0], rows[:, 1], rows[:, 2] = image, label, places[kept]
                selected.append(rows)
        return torch.cat(selected)

    def _corners(self, boxes: torch.Tensor) -> torch.Tensor:
        """Lowest corner first, as torchvision wants them."""
        if self._form:
            corners: torch.Tensor = torchvision.ops.box_convert(boxes, self._form, "xyxy")
            return corners
        first, second = boxes.chunk(2, -1)
        return torch.cat([torch.minimum(first, second), torch.maximum(first, second)], -1)


def _made(module: Callable[[Any], torch.nn.Module], node: Any, graph: Any) -> Any:
    """Return a converter for operators that need nothing but their attributes."""
    return OperationConverterResult(module(node.attributes), onnx_mapping_from_node(node))


def _layer_normalization(node: Any, graph: Any) -> Any:
    if len(node.output_values) > 1:
        raise NotImplementedError("LayerNormalization with mean or deviation as outputs")
    attributes = node.attributes
    module = LayerNormalization(attributes.get("axis", -1), attributes.get("epsilon", 1e-5))
    return OperationConverterResult(module, onnx_mapping_from_node(node))


def _scatter_nd(node: Any, graph: Any) -> Any:
    if node.attributes.get("reduction", "none") != "none":
        raise NotImplementedError("ScatterND that adds or compares")
    return OperationConverterResult(ScatterND(), onnx_mapping_from_node(node))


class ShapeOperator(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Sizes as a tensor, which a trace follows; numbers would stay those of its example."""

    def __init__(self, start: int, end: int | None) -> None:
        super().__init__()
        self._part = slice(start, end)

    def forward(self, x: torch.Tensor) -> Any:
        """Int64, where ``x`` is."""
        if torch.compiler.is_compiling():  # to which the function below gives the numbers
            return torch.tensor(x.shape[self._part], device=x.device)
        return torch._shape_as_tensor(x).to(x.device)[self._part]


class ReshapeOperator(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Values in another shape, of ``sizes`` where these are constants.

    Those are numbers of the host: to look at a tensor on a GPU would end the capture of a graph.
    """

    def __init__(self, sizes: list[int] | None) -> None:
        super().__init__()
        self._sizes = sizes

    def forward(self, x: Any, shape: torch.Tensor | None = None) -> Any:
        """``shape`` is int64; a size of 0 is that of ``x``, one of -1 follows from the others."""
        sizes: Any = self._sizes
        if shape is not None:
            # A trace follows tensors, and the compiler numbers.
            sizes = shape.tolist() if torch.compiler.is_compiling() else list(shape)
        whole = [x.shape[n] if size == 0 else size for n, size in enumerate(sizes)]
        return torch.reshape(x, whole if shape is None else torch.Size(whole))


def _reshape(node: Any, graph: Any) -> Any:
    if node.attributes.get("allowzero", 0) == 1:
        raise NotImplementedError("Reshape with allowzero=1")
    data, shape = node.input_values
    try:
        sizes = get_const_value(shape, graph).tolist()
    except KeyError:
        return OperationConverterResult(ReshapeOperator(None), onnx_mapping_from_node(node))
    mapping = OnnxMapping((data,), node.output_values)
    return OperationConverterResult(ReshapeOperator(sizes), mapping)


class RangeOperator(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Numbers from ``start`` up to ``limit``, which a trace follows too."""

    def forward(self, start: Any, limit: Any, delta: Any) -> Any:
        """In the type of the three tensors, which have one value each."""
        return torch.arange(start, limit, delta, device=start.device)


CONVERTERS: dict[str, Callable[[Any, Any], Any]] = {
    "Clip": partial(_made, lambda options: Clip(options.get("min"), options.get("max"))),
    "CumSum": partial(
        _made, lambda options: CumSum(bool(options.get("exclusive")), bool(options.get("reverse")))
    ),
    "GatherND": partial(_made, lambda options: GatherND(options.get("batch_dims", 0))),
    "GreaterOrEqual": partial(_made, lambda options: Compare(operator.ge)),
    "Identity": partial(_made, lambda options: torch.nn.Identity()),
    "LSTM": torch_lstm.convert,
    "LayerNormalization": _layer_normalization,
    "LessOrEqual": partial(_made, lambda options: Compare(operator.le)),
    "NonMaxSuppression": partial(
        _made, lambda options: NonMaxSuppression(options.get("center_point_box", 0))
    ),
    "Range": partial(_made, lambda options: RangeOperator()),
    "Reshape": _reshape,
    "ScatterND": _scatter_nd,
    "Shape": partial(
        _made, lambda options: ShapeOperator(options.get("start", 0), options.get("end"))
    ),
    "Slice": partial(_made, lambda options: SliceOperator()),
}
for _name, _converter in CONVERTERS.items():
    add_converter(operation_type=_name, version=VERSION, domain=DOMAIN)(_converter)


def convert(model: Any) -> Any:
    """Return the module of ``model``, which is changed; raises NotImplementedError."""
    prepare(model)
    with warnings.catch_warnings(), _weights_from(ROOT):
        warnings.simplefilter("ignore")
        return onnx2torch.convert(model)


def prepare(model: Any) -> None:
    """Change ``model``, a ModelProto, such that onnx2torch converts it rightly."""
    _part_outputs(model.graph)
    _infer_shapes(model)
    for number, node in enumerate(model.graph.node):
        # onnx2torch mistakes an unnamed Cast that is the second for one of the name Cast_1.
        node.name = f"{node.op_type}_{number}"
    _claim(model)


def _infer_shapes(model: Any) -> None:
    """Write down the shapes of values, which cannot be inferred beyond an operator of our own.

    Large weights are left out, because they alone could take minutes to pass on.
    """
    known = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    graph, source = known.graph, model.graph
    graph.name = source.name
    for name in ("node", "input", "output", "value_info"):
        getattr(graph, name).extend(getattr(source, name))
    for tensor in source.initializer:
        if math.prod(tensor.dims) <= FEW:
            graph.initializer.append(tensor)
        else:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    del source.value_info[:]
    source.value_info.extend(onnx.shape_inference.infer_shapes(known).graph.value_info)


def _claim(model: Any) -> None:
    """Make the nodes that have converters here ask for them."""
    own = [n for n in model.graph.node if n.op_type in CONVERTERS and n.domain in STANDARD]
    # The bounds and sizes of old ones are attributes, as onnx2torch takes them.
    own = [n for n in own if n.op_type not in ("Slice", "Reshape") or len(n.input) > 1]
    for node in own:
        node.domain = DOMAIN
    if own:
        opset = model.opset_import.add()
        opset.domain, opset.version = DOMAIN, VERSION


def _part_outputs(graph: Any) -> None:
    """Give names to outputs of nodes that have none, and a node to each output of the graph.

    onnx2torch takes an output without a name for an input that is left out, and gives all outputs
    of a node where the graph's output is one of them.
    """
    several = [node for node in graph.node if len(node.output) > 1]
    wanted = {info.name for info in graph.output}
    inner = {name: f"{name}/alone" for node in several for name in node.output if name in wanted}
    for number, node in enumerate(several):
        for place, name in enumerate(node.output):
            node.output[place] = inner.get(name, name) or f"unnamed/{number}/{place}"
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = inner.get(name, name)
    graph.node.extend(onnx.helper.make_node("Identity", [inner[n]], [n]) for n in inner)


@contextlib.contextmanager
def _weights_from(folder: Path) -> Iterator[None]:
    """Let the converter read each weight when it needs it, out of the files that hold them.

    With all of them in the graph it would copy the model over and over.
    """
    from onnx2torch.onnx_tensor import OnnxTensor

    usual = OnnxTensor.to_numpy

    def read(tensor: Any) -> Array:
        if not tensor.proto.external_data:
            array: Array = usual(tensor)
            return array
        return weight_beside(tensor.proto, folder)

    OnnxTensor.to_numpy = read
    try:
        yield
    finally:
        OnnxTensor.to_numpy = usual
