"""torchvision's RetinaNet with the weights of an ONNX graph, beside the graph.

Needs PyTorch, onnx2torch and torchvision beside the project's own packages.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx2torch")
pytest.importorskip("torchvision")

import onnx
import torch

import benchmark_lab as lab
from mlperf.harness.backends import py_torch, torch_lanes, torch_libraries, torch_operators
from mlperf.harness.backends.graph_view import GraphView
from mlperf.harness.settings import GraphSpec, Setup, TensorSpec
from modelzoo import synthetic

# Sides of the images: the graph takes any, and boxes only need to be the same.
SIDE = 128
# The largest difference from the graph in float32, as a share of the greatest value.
CLOSE = {"float32": 1e-5, "bfloat16": 0.1, "float16": 0.01}
PACKED = lab.SCRIPT / "get-ml-model-retinanet/synthetic/retinanet_synthetic.onnx.xz"
OUTPUTS = (
    TensorSpec("boxes", "float32", (4,)),
    TensorSpec("labels", "int64", ()),
    TensorSpec("scores", "float32", ()),
)
NAMES = [tensor.name for tensor in OUTPUTS]


@pytest.fixture(scope="module")
def filled() -> Any:
    model = synthetic.fill(synthetic.read_graph(PACKED))
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = SIDE
    return model


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Any], GraphSpec]:
    def save(model: Any) -> GraphSpec:
        path = tmp_path / "detector.onnx"
        onnx.save(model, path)
        images = (TensorSpec("images", "float32", (3, SIDE, SIDE)),)
        return GraphSpec("main", str(path), "", images, OUTPUTS)

    return save


def copied(model: Any) -> Any:
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    return twin


def scene() -> Any:
    return np.random.default_rng(3).random((1, 3, SIDE, SIDE), np.float32)


def rows(answers: Any) -> Any:
    """Return label and corners of all boxes in an order that equal scores do not change."""
    boxes, labels, _ = answers
    table = np.concatenate([np.asarray(labels)[:, None], np.asarray(boxes).round(1)], axis=1)
    return table[np.lexsort(table.T)]


def test_boxes_are_those_of_the_graph(filled: Any, saved: Callable[[Any], GraphSpec]) -> None:
    graph = saved(filled)
    made = py_torch.PyTorch(Setup("cpu", "float32", {"module": "auto"}))
    (predictor,) = made.open(graph, NAMES, 1, 1)
    assert made.computed_by()["module"].startswith("torchvision")
    answers = [answer.copy() for answer in predictor.predict({"images": scene()})]
    former = py_torch.PyTorch(Setup("cpu", "float32", {"module": "graph"}))
    (plain,) = former.open(graph, NAMES, 1, 1)
    expected = plain.predict({"images": scene()})
    assert [a.dtype for a in answers] == [e.dtype for e in expected]
    assert len(answers[0]) == len(expected[0]) > 100
    np.testing.assert_allclose(answers[2], expected[2], atol=1e-5)
    np.testing.assert_allclose(rows(answers), rows(expected), atol=0.2)


def test_the_network_computes_in_the_number_format_and_boxes_in_float32(
    filled: Any, saved: Callable[[Any], GraphSpec]
) -> None:
    opened = py_torch.from_library(saved(filled), NAMES)
    known = torch_libraries.recognized(filled, Path("/"))
    image = [torch.from_numpy(scene())]
    plain = torch_operators.convert(known.reference).eval()
    expected = torch_libraries.answers(plain, image)
    for precision, dtype in py_torch.DTYPES.items():
        turned = py_torch.held(replace(opened, module=copy.deepcopy(opened.module)), dtype)
        network, behind = turned.module.network, turned.module.behind
        convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
        # Those of the trunk, the pyramid, and two heads that all levels share.
        assert len(convolutions) == 53 + 8 + 10
        assert {m.weight.dtype for m in convolutions} == {dtype or torch.float32}
        last = torch.channels_last
        assert all(m.weight.is_contiguous(memory_format=last) for m in convolutions)
        constants = [*behind.buffers(), *behind.parameters()]
        assert {c.dtype for c in constants if c.is_floating_point()} <= {torch.float32}
        answers = torch_libraries.answers(turned.module.logits, image)
        far = torch_libraries.difference(answers, expected)
        print(f"retinanet {precision}: {far:.1e}")
        assert far <= CLOSE[precision]
        kinds = [answer.dtype for answer in torch_libraries.answers(turned.module, image)]
        assert kinds == [torch.float32, torch.int64, torch.float32]
    # How many boxes there are depends on the images: nothing is captured, nothing compiled.
    assert not torch_lanes.fits(opened.operators)


def test_a_frozen_normalization_is_folded(filled: Any, saved: Callable[[Any], GraphSpec]) -> None:
    """As torchvision's exporter writes it: a product and a sum for every channel."""
    model = copied(filled)
    random = np.random.default_rng(5)
    trunk = [node for node in model.graph.node if node.op_type == "Conv"][:53]
    for number, node in enumerate(trunk):
        width = next(t.dims[0] for t in model.graph.initializer if t.name == node.input[1])
        inner, scaled, last = f"bare{number}", f"scaled{number}", node.output[0]
        node.output[0] = inner
        index = list(model.graph.node).index(node) + 1
        make = onnx.helper.make_node
        model.graph.node.insert(index, make("Add", [f"shift{number}", scaled], [last]))
        model.graph.node.insert(index, make("Mul", [inner, f"scale{number}"], [scaled]))
        for part, low in (("scale", 0.9), ("shift", -0.1)):
            values = random.uniform(low, low + 0.2, (1, width, 1, 1)).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(values, f"{part}{number}"))
    assert py_torch.from_library(saved(model), NAMES).origin.startswith("torchvision")


@pytest.mark.parametrize("change", ["head", "dilation", "sibling"])
def test_another_detector_is_converted(
    change: str, filled: Any, saved: Callable[[Any], GraphSpec]
) -> None:
    model = copied(filled)
    view = GraphView(model, Path("/"))
    nodes = view.of("Conv")
    if change == "head":
        # One level with weights of its own.
        source = next(t for t in model.graph.initializer if t.name == nodes[-1].input[2])
        own = onnx.numpy_helper.to_array(source) + 1
        model.graph.initializer.append(onnx.numpy_helper.from_array(own, "own"))
        nodes[-1].input[2] = "own"
    elif change == "dilation":
        pads = next(a for a in nodes[0].attribute if a.name == "pads")
        pads.ints[:] = [6, 6, 6, 6]
        nodes[0].attribute.append(onnx.helper.make_attribute("dilations", [2, 2]))
    else:
        # A branch of its own between the pyramid and the boxes.
        last = nodes[-1]
        extra = onnx.helper.make_node("Conv", [last.output[0], "w"], ["more"], kernel_shape=[1, 1])
        weight = np.eye(36, dtype=np.float32)[:, :, None, None]
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        for node in model.graph.node:
            node.input[:] = ["more" if name == last.output[0] else name for name in node.input]
        model.graph.node.insert(list(model.graph.node).index(last) + 1, extra)
    assert py_torch.from_library(saved(model), NAMES).origin.startswith(py_torch.CONVERTED)
