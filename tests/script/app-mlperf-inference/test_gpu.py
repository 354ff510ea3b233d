"""Lanes, graphs and number formats on a real GPU: ``make test-gpu``. Skipped without one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx2torch")

import torch

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.backends import py_torch, torch_device
from mlperf.harness.settings import GraphSpec, ModelSpec, Setup, TensorSpec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
# Of the greatest value, after some 50 layers.
CLOSE = {"float32": 1e-3, "bfloat16": 0.06, "float16": 0.02}


def tiny(folder: str) -> GraphSpec:
    return records.decode(ModelSpec, forms.model(lab.SCRIPT / folder / "tiny")).graphs()[0]


def backend(precision: str, device: str = "cuda", **options: Any) -> py_torch.PyTorch:
    return py_torch.PyTorch(Setup(device, precision, options))


def images(graph: GraphSpec, batch: int) -> dict[str, Any]:
    (image,) = graph.inputs
    random = np.random.default_rng(batch)
    return {image.name: random.uniform(-100, 100, (batch, *image.shape)).astype(np.float32)}


def check(answers: Any, expected: Any, precision: str) -> None:
    for one, other in zip(answers, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if other.dtype != np.int64:
            assert np.abs(one - other).max() <= CLOSE[precision] * np.abs(other).max()


@pytest.mark.parametrize("precision", sorted(CLOSE))
def test_a_worker_captures_before_the_run_what_it_launches_in_it(precision: str) -> None:
    """LoadGen's thread has computed first: so captures in the worker's thread once failed."""
    graph = tiny("get-ml-model-resnet50")
    outputs = [tensor.name for tensor in graph.outputs]
    made = backend(precision)
    (plain,) = backend("float32", "cpu").open(graph, outputs, 1, 1)
    team: list[Any] = list(made.open(graph, outputs, 2, 1))
    for lane in team:
        lane.predict(images(graph, 8))
    errors: list[BaseException] = []
    expected = {size: [a.copy() for a in plain.predict(images(graph, size))] for size in (8, 5, 1)}

    def work(lane: Any) -> None:
        try:
            with made.preparing():
                lane.predict(images(graph, 8))
            for _ in range(20):
                for size, answers in expected.items():
                    check(lane.predict(images(graph, size)), answers, precision)
                lane.buffer((8, 8), np.float32)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in team]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert "without graphs" not in made.computed_by()
    assert [len(lane._graphs._exact) for lane in team] == [1, 1]


def test_a_compiled_module_is_captured_or_the_plain_one_is_kept() -> None:
    graph = tiny("get-ml-model-resnet50")
    outputs = [tensor.name for tensor in graph.outputs]
    made = backend("float16", compile_s=60)
    (lane,) = made.open_fixed(graph, outputs, 1, 1, 8)
    with made.preparing():
        answers = [answer.copy() for answer in lane.predict(images(graph, 8))]
    assert "without graphs" not in made.computed_by()
    assert {"compiled", "not compiled"} & set(made.computed_by())
    (plain,) = backend("float32", "cpu").open(graph, outputs, 1, 1)
    check(answers, plain.predict(images(graph, 8)), "float16")


@pytest.mark.parametrize("name", ["resnet50", "bert"])
def test_a_library_answers_in_float16_what_the_graph_does(name: str, tmp_path: Path) -> None:
    pytest.importorskip({"resnet50": "torchvision", "bert": "transformers"}[name])
    from modelzoo.bert import synthetic as bert
    from modelzoo.resnet50 import synthetic as resnet50

    if name == "bert":
        bert.main(["--layers", "2", "--width", "128", "--out", str(tmp_path)])
        path = tmp_path / bert.MODEL_FILE
        inputs = tuple(TensorSpec(n, "int64", (-1,)) for n in bert.INPUTS)
        outputs = tuple(TensorSpec(n, "float32", (-1,)) for n in bert.OUTPUTS)
    else:
        resnet50.main(["--out", str(tmp_path)])
        path = tmp_path / resnet50.MODEL_FILE
        inputs = (TensorSpec(resnet50.INPUT_NAME, "float32", (3, 224, 224)),)
        outputs = (TensorSpec(resnet50.LABEL_NAME, "int64", ()),)
    graph = GraphSpec("main", str(path), "", inputs, outputs)
    made = backend("float16")
    (lane,) = made.open(graph, [tensor.name for tensor in outputs], 1, 1)
    ids = np.arange(1, 49).reshape(2, 24)
    feeds = (
        dict(zip(bert.INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
        if name == "bert"
        else images(graph, 2)
    )
    with made.preparing():
        answers = [answer.copy() for answer in lane.predict(feeds)]
    assert not made.computed_by()["module"].startswith(py_torch.CONVERTED)
    assert "without graphs" not in made.computed_by()
    (plain,) = backend("float32", "cpu", module="graph").open(
        graph, [tensor.name for tensor in outputs], 1, 1
    )
    check(answers, plain.predict(feeds), "float16")


def test_the_device_has_room_for_a_small_batch() -> None:
    torch_device.forget_peak()
    assert torch_device.has_room()
    assert torch_device.facts()["gpu"]
