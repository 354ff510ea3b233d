"""Modules of torchvision with the weights of an ONNX graph: ResNet-50 and RetinaNet.

A detector's network is torchvision's. What the graph computes before it (mean and deviation of the
pixels) and behind it (anchors, the best boxes, suppression) stays the graph's own, converted: there
exporters differ, and a limit in it is not to be guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from .graph_view import (
    GraphView,
    KnownGraph,
    UnknownGraphError,
    added_to,
    attribute,
    linear,
    only,
    parameters,
    version_of,
)

# Blocks of the stages of ResNet-50 and ResNeXt-50, whose blocks stride in the middle as those of
# v1.5 do; the sides of images for which networks are compared, a detector's too: it takes any.
STAGES = (3, 4, 6, 3)
IMAGE = 224
# Of RetinaNet: channels of the pyramid, boxes predicted at a place, convolutions before the last.
FEATURES, ANCHORS, TOWER = 256, 9, 4


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


def resnet50(view: GraphView) -> KnownGraph:
    """Return ResNet-50 as a classifier; raises UnknownGraphError for another graph."""
    if len(view.of("Conv")) != _convolution_count():
        raise UnknownGraphError("it has another number of convolutions")
    named = _trunk(view).named
    head = only(view.of("Gemm", "MatMul"))
    images = torch.randn(2, 3, IMAGE, IMAGE, generator=torch.Generator().manual_seed(1))
    return KnownGraph(
        f"{version_of('torchvision')} resnet50",
        tuple(view.inputs),
        tuple(view.outputs),
        view.part([(head if head.op_type == "Gemm" else added_to(view, head)).output[0]]),
        (images,),
        partial(_classifier, view, named, head),
    )


def _classifier(view: GraphView, named: Mapping[str, Any], head: Any) -> ImageClassifier:
    import torchvision

    weight, bias = linear(view, head)
    with torch.device("meta"):
        network = torchvision.models.resnet50(weights=None, num_classes=len(bias))
    for name, node in named.items():
        _fill(network, name, *_folded(view, node))
    network.fc.weight, network.fc.bias = parameters(weight, bias)
    network.maxpool = _pool(view)
    network.to(memory_format=torch.channels_last)
    return ImageClassifier(network, [view.kind(name) for name in view.outputs])


def _convolution_count() -> int:
    return 1 + sum(3 * blocks + 1 for blocks in STAGES)


@dataclass(frozen=True, slots=True)
class ResidualTrunk:
    """The convolutions of a ResNet by torchvision's names, and the value that a stage ends in."""

    named: Mapping[str, Any]
    ends: Sequence[str]


def _trunk(view: GraphView) -> ResidualTrunk:
    stem = only(node for node in view.of("Conv") if view.shape(node.input[1])[1:2] == (3,))
    value = only(view.after(stem.output[0], "MaxPool")).output[0]
    narrowest = min(_outputs(view, node) for node in view.after(value, "Conv"))
    named, ends = {"conv1": stem}, []
    for stage, blocks in enumerate(STAGES):
        width = narrowest << stage
        for number in range(blocks):
            at = f"layer{stage + 1}.{number}"
            entries = view.after(value, "Conv")
            first = only(node for node in entries if _outputs(view, node) == width)
            second = only(view.after(first.output[0], "Conv"))
            third = only(view.after(second.output[0], "Conv"))
            named |= {f"{at}.conv1": first, f"{at}.conv2": second, f"{at}.conv3": third}
            if number == 0:
                wide = _outputs(view, third)
                named[f"{at}.downsample.0"] = only(
                    node for node in entries if node is not first and _outputs(view, node) == wide
                )
            value = only(view.after(third.output[0], "Add")).output[0]
        ends.append(value)
    return ResidualTrunk(named, ends)


def _outputs(view: GraphView, node: Any) -> int:
    """Return how many channels a convolution computes."""
    return view.shape(node.input[1])[0]


def _folded(view: GraphView, node: Any) -> tuple[Any, Any]:
    """Return the weight and bias of a convolution, with the normalization that follows it."""
    weight = view.weight(node.input[1])
    bias = view.weight(node.input[2]) if len(node.input) > 2 else torch.zeros(len(weight))
    for norm in view.normalizations(node):
        if norm.op_type == "BatchNormalization":
            scale, shift, mean, variance = (view.weight(name) for name in norm.input[1:5])
            factor = scale / torch.sqrt(variance + attribute(norm, "epsilon", 1e-5))
            weight, bias = weight * factor[:, None, None, None], (bias - mean) * factor + shift
            continue
        values = view.weight(view.constant_of(norm)).reshape(-1)
        if norm.op_type == "Mul":
            weight, bias = weight * values[:, None, None, None], bias * values
        else:
            bias = bias + values
    return weight, bias


def _fill(network: Any, name: str, weight: Any, bias: Any) -> None:
    """Put a convolution with a bias where torchvision has one and its normalization."""
    parent_name, _, leaf = name.rpartition(".")
    parent, bare = network.get_submodule(parent_name), network.get_submodule(name)
    _check_shape(name, bare, weight)
    sizes = (bare.in_channels, bare.out_channels, bare.kernel_size, bare.stride, bare.padding)
    filled = torch.nn.Conv2d(*sizes, groups=bare.groups, device="meta")
    filled.weight, filled.bias = parameters(weight, bias)
    setattr(parent, leaf, filled)
    setattr(parent, "1" if leaf == "0" else leaf.replace("conv", "bn"), torch.nn.Identity())


def _check_shape(name: str, bare: Any, weight: Any) -> None:
    if bare.weight.shape != weight.shape:
        raise UnknownGraphError(f"{name} has the shape {tuple(weight.shape)}")


def _pool(view: GraphView) -> Any:
    """Return the pooling of the graph: TensorFlow pads behind the image only."""
    pads = attribute(only(view.of("MaxPool")), "pads", (0, 0, 0, 0))
    if tuple(pads) == (1, 1, 1, 1):
        return torch.nn.MaxPool2d(3, 2, 1)
    top, left, bottom, right = pads
    # What is pooled is the output of a ReLU: nothing in it is below 0.
    pad = torch.nn.ZeroPad2d((left, right, top, bottom))
    return torch.nn.Sequential(pad, torch.nn.MaxPool2d(3, 2))


# RetinaNet of torchvision.


class ObjectDetector(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """torchvision's network between what the graph computes before and behind it.

    ``before`` takes the images, ``behind`` the images and what the network answers, by the names
    of ``values``: the levels of the pyramid, then the classes and the boxes of all levels.
    """

    def __init__(
        self, network: Any, before: Any, behind: Any, values: Sequence[str], needed: Sequence[str]
    ) -> None:
        super().__init__()
        self.network, self.before, self.behind = network, before, behind
        self._values, self._needed = tuple(values), tuple(needed)

    def forward(self, images: Any) -> Any:
        """``images`` as the graph takes them; the answers are those of the graph."""
        values = dict(zip(self._values, (images, *self.logits(images)), strict=True))
        return self.behind(*(values[name] for name in self._needed))

    def logits(self, images: Any) -> tuple[Any, ...]:
        """Float32: the levels, then what both heads say of them, before any box is chosen."""
        dtype = self.network.head.classification_head.cls_logits.weight.dtype
        x = self.before(images).to(dtype=dtype, memory_format=torch.channels_last)
        levels = tuple(self.network.backbone(x).values())
        towers = [(head.conv, last) for head, last in _heads(self.network)]
        said = (last(tower(level)) for tower, last in towers for level in levels)
        return tuple(value.float() for value in (*levels, *said))


def _heads(network: Any) -> list[tuple[Any, Any]]:
    """Return both heads of a RetinaNet, with the convolutions that they end in."""
    classes, boxes = network.head.classification_head, network.head.regression_head
    return [(classes, classes.cls_logits), (boxes, boxes.bbox_reg)]


@dataclass(frozen=True, slots=True)
class FeaturePyramid:
    """The convolutions behind the trunk: across, out and on top of it, and those of the heads.

    ``levels`` are the values of the pyramid, from the largest, ``said`` those of both heads.
    """

    inner: Sequence[Any]
    outer: Sequence[Any]
    extra: Sequence[Any]
    towers: Sequence[Sequence[Any]]
    said: Sequence[str]

    @property
    def levels(self) -> list[str]:
        """Return the values of the pyramid."""
        return [node.output[0] for node in (*self.outer, *self.extra)]


def detector(view: GraphView) -> KnownGraph:
    """Return RetinaNet with a ResNeXt-50; raises UnknownGraphError for another graph."""
    trunk = _trunk(view)
    pyramid = _pyramid(view, trunk)
    values = [*pyramid.levels, *pyramid.said]
    before = view.part([trunk.named["conv1"].input[0]])
    behind = view.part(view.outputs, values)
    kinds = {node.op_type for part in (before, behind) for node in part.graph.node}
    if "Conv" in kinds or len(view.inputs) != 1:
        raise UnknownGraphError("it has more convolutions, or inputs")
    images = torch.rand(1, 3, IMAGE, IMAGE, generator=torch.Generator().manual_seed(1))
    return KnownGraph(
        f"{version_of('torchvision')} RetinaNet, its boxes by the graph",
        tuple(view.inputs),
        tuple(view.outputs),
        view.part(values),
        (images,),
        partial(_detector, view, trunk, pyramid, before, behind),
        frozenset(kinds),
    )


def _pyramid(view: GraphView, trunk: ResidualTrunk) -> FeaturePyramid:
    inner, outer = [], []
    for end in trunk.ends[1:]:
        inner.append(only(n for n in view.after(end, "Conv") if _outputs(view, n) == FEATURES))
        sums = view.after(inner[-1].output[0], "Add")
        # The topmost has nothing above it to be added.
        value = only(sums or [inner[-1]]).output[0]
        outer.append(only(view.after(value, "Conv")))
    sixth = only(n for n in view.after(outer[-1].output[0], "Conv") if _is_halving(n))
    seventh = only(n for n in view.after(sixth.output[0], "Conv") if _is_halving(n))
    extra = [sixth, seventh]
    levels = [list(_towers(view, node.output[0])) for node in (*outer, *extra)]
    towers = [_common([level[head] for level in levels]) for head in range(2)]
    said = [level[head][-1].output[0] for head in range(2) for level in levels]
    return FeaturePyramid(inner, outer, extra, towers, said)


def _is_halving(node: Any) -> bool:
    return tuple(attribute(node, "strides", (1, 1))) == (2, 2)


def _towers(view: GraphView, level: str) -> Iterator[list[Any]]:
    """Yield the convolutions that a level goes through: for classes, then for boxes."""
    chains = []
    for first in (node for node in view.after(level, "Conv") if not _is_halving(node)):
        chain = [first]
        for _ in range(TOWER):
            chain.append(only(view.after(chain[-1].output[0], "Conv")))
        chains.append(chain)
    boxes = only(chain for chain in chains if _outputs(view, chain[-1]) == 4 * ANCHORS)
    yield only(chain for chain in chains if chain is not boxes)
    yield boxes


def _common(chains: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the convolutions of a head, which all levels share; raises UnknownGraphError."""
    if len({tuple(tuple(node.input[1:]) for node in chain) for chain in chains}) != 1:
        raise UnknownGraphError("its levels have heads of their own")
    return chains[0]


def _detector(
    view: GraphView, trunk: ResidualTrunk, pyramid: FeaturePyramid, before: Any, behind: Any
) -> ObjectDetector:
    from . import torch_operators

    network = _retinanet(view, trunk, pyramid)
    # Converting changes a model.
    needed = [info.name for info in behind.graph.input]
    first, last = torch_operators.convert(before), torch_operators.convert(behind)
    values = [view.inputs[0], *pyramid.levels, *pyramid.said]
    return ObjectDetector(network, first, last, values, needed)


def _retinanet(view: GraphView, trunk: ResidualTrunk, pyramid: FeaturePyramid) -> Any:
    from torchvision.models.detection.backbone_utils import BackboneWithFPN
    from torchvision.models.detection.retinanet import RetinaNet
    from torchvision.models.resnet import Bottleneck, ResNet
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    middle = trunk.named["layer1.0.conv2"]
    groups = int(attribute(middle, "group", 1))
    stages = {f"layer{stage}": str(stage) for stage in (2, 3, 4)}
    widths = [_outputs(view, trunk.named[f"{stage}.0.conv3"]) for stage in stages]
    with torch.device("meta"):
        per_group = _outputs(view, middle) // groups
        body = ResNet(Bottleneck, list(STAGES), groups=groups, width_per_group=per_group)
        top = LastLevelP6P7(FEATURES, FEATURES)
        backbone = BackboneWithFPN(body, stages, widths, FEATURES, extra_blocks=top)
        network = RetinaNet(backbone, _outputs(view, pyramid.towers[0][-1]) // ANCHORS)
    for name, node in trunk.named.items():
        _fill(network.backbone.body, name, *_folded(view, node))
    pyramid_of = network.backbone.fpn
    _assign(view, pyramid_of.inner_blocks, pyramid.inner)
    _assign(view, pyramid_of.layer_blocks, pyramid.outer)
    _assign(view, pyramid_of.extra_blocks, pyramid.extra)
    for (head, _), nodes in zip(_heads(network), pyramid.towers, strict=True):
        _assign(view, head, nodes)
    return network.requires_grad_(False).to(memory_format=torch.channels_last)


def _assign(view: GraphView, module: Any, nodes: Sequence[Any]) -> None:
    """Give the convolutions in ``module``, in its order, the weights of ``nodes``."""
    # The last of a head is its own attribute before the others in some releases.
    bare = {name: part for name, part in module.named_modules() if _is_convolution(part)}
    ordered = sorted(bare, key=lambda name: name in ("cls_logits", "bbox_reg"))
    for name, node in zip(ordered, nodes, strict=True):
        weight, bias = _folded(view, node)
        _check_shape(name, bare[name], weight)
        bare[name].weight, bare[name].bias = parameters(weight, bias)


def _is_convolution(module: Any) -> bool:
    return isinstance(module, torch.nn.Conv2d)
