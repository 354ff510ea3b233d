"""Modules of torchvision and transformers, with the weights of an ONNX graph, beside the graph.

Needs PyTorch, onnx2torch and these libraries beside the project's own packages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx2torch")

import onnx
import torch

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.backends import py_torch, torch_libraries
from mlperf.harness.settings import GraphSpec, ModelSpec, Setup, TensorSpec

# The largest difference from the graph in float32, as a share of the greatest value, by number
# format: bfloat16 has 8 bits, float16 has 11, and errors add up over the layers.
TAME = 1e-2
CLOSE = {"float32": 1e-5, "bfloat16": 0.06, "float16": 0.01}


def spec(folder: Path) -> GraphSpec:
    facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))

    def tensors(kind: str) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(t["name"], t["dtype"], tuple(t["shape"])) for t in facts[kind])

    path = str(folder / facts["file"])
    return GraphSpec("main", path, facts["sha256"], tensors("inputs"), tensors("outputs"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GraphSpec]:
    """ResNet-50, and a BERT of two layers that is small, with random weights."""
    from modelzoo.bert import synthetic as bert
    from modelzoo.resnet50 import synthetic as resnet50

    folder = tmp_path_factory.mktemp("models")
    (folder / "r").mkdir()
    (folder / "b").mkdir()
    resnet50.main(["--out", str(folder / "r")])
    tamed(folder / "r" / resnet50.MODEL_FILE)
    bert.main(["--layers", "2", "--width", "128", "--out", str(folder / "b")])
    return {"resnet50": spec(folder / "r"), "bert": spec(folder / "b")}


def tamed(path: Path) -> None:
    """Make logits so small that probabilities are not 0 and 1, as random weights make them."""
    model = onnx.load(path)
    (head,) = (node for node in model.graph.node if node.op_type == "Gemm")
    for tensor in model.graph.initializer:
        if tensor.name in head.input:
            small = onnx.numpy_helper.to_array(tensor) * np.float32(TAME)
            tensor.CopyFrom(onnx.numpy_helper.from_array(small, tensor.name))
    onnx.save(model, path)


def feeds(graph: GraphSpec, batch: int) -> dict[str, Any]:
    random = np.random.default_rng(3)
    if len(graph.inputs) == 1:
        (image,) = graph.inputs
        return {image.name: random.standard_normal((batch, *image.shape), np.float32)}
    ids, mask, segments = (tensor.name for tensor in graph.inputs)
    shape = (batch, 24)
    made = {ids: random.integers(1, 30000, shape), mask: np.ones(shape, np.int64)}
    made[mask][-1, 10:] = 0
    return {**made, segments: random.integers(0, 2, shape)}


def backend(precision: str, module: str = "auto") -> py_torch.PyTorch:
    return py_torch.PyTorch(Setup("cpu", precision, {"module": module}))


LIBRARIES = {"resnet50": "torchvision", "bert": "transformers"}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_a_library_answers_as_the_graph_does(
    name: str, precision: str, models: dict[str, GraphSpec], record_property: Any
) -> None:
    pytest.importorskip(LIBRARIES[name])
    graph = models[name]
    outputs = [tensor.name for tensor in graph.outputs]
    made = backend(precision)
    (predictor,) = made.open(graph, outputs, 1, 1)
    assert made.computed_by()["module"].startswith(LIBRARIES[name])
    batch = feeds(graph, 3)
    answers = [answer.copy() for answer in predictor.predict(batch)]
    (plain,) = backend("float32", "graph").open(graph, outputs, 1, 1)
    for tensor, one, other in zip(graph.outputs, answers, plain.predict(batch), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert tensor.name != "softmax_tensor:0" or 0.002 < other.max() < 0.9
        if tensor.dtype == "int64":
            continue  # labels of random weights change with the last bit
        far = float(np.abs(one - other).max() / np.abs(other).max())
        record_property(f"{name} {precision} {tensor.name}", far)
        print(f"{name} {precision} {tensor.name}: {far:.1e}")
        assert far <= CLOSE[precision]


def test_weights_are_held_in_the_number_format_of_the_run(models: dict[str, GraphSpec]) -> None:
    pytest.importorskip("torchvision")
    graph = models["resnet50"]
    outputs = [tensor.name for tensor in graph.outputs]
    for module in ("auto", "graph"):
        made = backend("bfloat16", module)
        first = made.open(graph, outputs, 1, 1)
        ((opened,),) = made._opened.values()
        convolutions = [m for m in opened.module.modules() if isinstance(m, torch.nn.Conv2d)]
        assert len(convolutions) == 53
        assert {m.weight.dtype for m in convolutions} == {torch.bfloat16}
        # All layouts of a process share them.
        made.open(graph, outputs, 2, 1)
        assert list(made._opened.values()) == [[opened]]
        assert len(first) == 1


@pytest.mark.parametrize("change", ["pads", "epsilon", "branch"])
def test_what_a_library_computes_otherwise_is_converted(
    change: str, models: dict[str, GraphSpec], tmp_path: Path
) -> None:
    name = "bert" if change == "epsilon" else "resnet50"
    pytest.importorskip(LIBRARIES[name])
    model = onnx.load(models[name].path)
    if change == "pads":
        node = next(n for n in model.graph.node if n.op_type == "Conv" and "7" in str(n.attribute))
        node.attribute.append(onnx.helper.make_attribute("dilations", [2, 2]))
        next(a for a in node.attribute if a.name == "pads").ints[:] = [6, 6, 6, 6]
    elif change == "epsilon":
        # One of them all, beyond the first.
        norm = [n for n in model.graph.node if n.op_type == "LayerNormalization"][2]
        next(a for a in norm.attribute if a.name == "epsilon").f = 10.0
    else:
        model.graph.node.remove(next(n for n in model.graph.node if n.op_type == "MaxPool"))
        relu = next(n for n in model.graph.node if n.op_type == "Relu")
        for node in model.graph.node:
            node.input[:] = [relu.output[0] if i == "n2" else i for i in node.input]
    path = tmp_path / "changed.onnx"
    onnx.save(model, path)
    graph = GraphSpec("main", str(path), "", models[name].inputs, models[name].outputs)
    made = backend("float32")
    (predictor,) = made.open(graph, [tensor.name for tensor in graph.outputs], 1, 1)
    assert made.computed_by()["module"].startswith(py_torch.CONVERTED)
    assert predictor.predict(feeds(graph, 1))[0].shape[0] == 1


def test_without_the_library_the_graph_is_converted_and_it_is_said(
    models: dict[str, GraphSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(library: str) -> str:
        raise ModuleNotFoundError("No package", name=library)

    monkeypatch.setattr(torch_libraries, "version_of", missing)
    made = backend("float32")
    graph = models["bert"]
    made.open(graph, [tensor.name for tensor in graph.outputs], 1, 1)
    assert made.computed_by()["module"] == ("converted ONNX graph (transformers is not installed)")


def test_normalization_in_several_operators_is_recognized(tmp_path: Path) -> None:
    """As exporters write it before operator set 17, with batch normalization not folded."""
    pytest.importorskip("torchvision")
    from modelzoo.resnet50 import synthetic

    model = synthetic.build()
    nodes = list(model.graph.node)
    random = np.random.default_rng(5)
    for number, node in enumerate(n for n in nodes if n.op_type == "Conv"):
        width = next(t.dims[0] for t in model.graph.initializer if t.name == node.input[1])
        inner = f"bare{number}"
        norm = onnx.helper.make_node(
            "BatchNormalization",
            [inner, *(f"{part}{number}" for part in ("s", "b", "m", "v"))],
            [node.output[0]],
            epsilon=1e-3,
        )
        node.output[0] = inner
        model.graph.node.insert(list(model.graph.node).index(node) + 1, norm)
        for part, low in (("s", 0.9), ("b", -0.1), ("m", -0.1), ("v", 0.8)):
            values = random.uniform(low, low + 0.2, width).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(values, f"{part}{number}"))
    path = tmp_path / "normed.onnx"
    onnx.save(model, path)
    images = (TensorSpec(synthetic.INPUT_NAME, "float32", (3, 224, 224)),)
    scores = (TensorSpec(synthetic.SCORES_NAME, "float32", (synthetic.CLASSES,)),)
    opened = py_torch.from_library(
        GraphSpec("main", str(path), "", images, scores), [scores[0].name]
    )
    assert opened.origin.startswith("torchvision")


@pytest.mark.parametrize("folder", ["get-ml-model-resnet50", "get-ml-model-retinanet"])
def test_tiny_models_answer_the_same_channels_last(folder: str) -> None:
    graph = records.decode(ModelSpec, forms.model(lab.SCRIPT / folder / "tiny")).graphs()[0]
    outputs = [tensor.name for tensor in graph.outputs]
    opened = py_torch.from_library(graph, outputs)
    assert opened.origin == py_torch.CONVERTED
    batch = np.random.default_rng(2).uniform(0, 200, (1, *graph.inputs[0].shape))
    image = torch.from_numpy(batch.astype(np.float32))
    plain = torch_libraries.answers(opened.module.eval(), [image])
    turned = py_torch.held(opened, None)
    assert torch_libraries.difference(torch_libraries.answers(turned.module, [image]), plain) < 1e-4
