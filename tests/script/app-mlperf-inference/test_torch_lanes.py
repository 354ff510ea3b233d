"""PyTorch's modules in lanes, on the recording stand-in for CUDA's calls, which computes late.

Real modules answer here, on the processor: what is checked is that each batch meets its own buffers
in the right order. Needs PyTorch and onnx2torch beside the project's own packages.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx2torch")

import torch

import benchmark_forms as forms
import benchmark_lab as lab
from lanes_lab import Recorder
from mlperf.harness.backends import lanes, py_torch, torch_device, torch_lanes
from mlperf.harness.backends.lanes import CaptureGate, Lane, LaneTensor
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import GraphSpec, Setup, TensorSpec


class Deferred:
    """Puts the work of a module into a stream of the recorder, which does it later."""

    def __init__(self, device: Recorder, work: torch_lanes.ModuleWork) -> None:
        self._device, self._work = device, work
        self.outputs = work.outputs

    def enqueue(
        self, inputs: Mapping[str, LaneTensor], outputs: Mapping[str, LaneTensor], stream: Any
    ) -> None:
        self._device.calls.append("enqueue")
        self._device.compute(stream, lambda: self._work.enqueue(inputs, outputs, stream))


def a_lane(
    device: Recorder, opened: py_torch.LoadedModule, graph: GraphSpec, gate: CaptureGate
) -> Lane:
    names = [tensor.name for tensor in graph.outputs]
    work = torch_lanes.ModuleWork(
        opened, graph.inputs, names, device="cpu", current=lambda stream: contextlib.nullcontext()
    )
    return Lane(device, Deferred(device, work), names, gate)


def tiny(folder: str) -> GraphSpec:
    from mlperf.harness import records
    from mlperf.harness.settings import ModelSpec

    spec = records.decode(ModelSpec, forms.model(lab.SCRIPT / folder / "tiny"))
    return spec.graphs()[0]


@pytest.mark.parametrize("seed", range(4))
def test_a_module_answers_in_lanes_what_it_answers_alone(seed: int) -> None:
    graph = tiny("get-ml-model-resnet50")
    names = [tensor.name for tensor in graph.outputs]
    opened = py_torch.from_onnx(graph, names)
    opened.module.eval()
    (image,) = graph.inputs
    assert torch_lanes.capturable(opened.operators)
    device, values, gate = Recorder(seed), random.Random(seed), CaptureGate()
    team = [a_lane(device, opened, graph, gate) for _ in range(2)]
    plain = py_torch.TorchPredictor(opened, names, "cpu", None, 1)
    rows = np.random.default_rng(seed)
    for number in range(12):
        shape = (values.choice((1, 3, 4)), *image.shape)
        given = rows.standard_normal(shape, dtype=np.float32)
        kept = given.copy()
        with gate.opened() if number < 6 else contextlib.nullcontext():
            answers = [
                answer.copy() for answer in team[values.randrange(2)].predict({image.name: given})
            ]
        given[...] = np.nan
        for answer, wanted in zip(answers, plain.predict({image.name: kept}), strict=True):
            np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)
    assert device.calls.count("launch") > 6


def test_shapes_are_tried_once_and_other_types_come_as_they_are() -> None:
    class Two(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        calls = 0

        def forward(self, x: Any) -> Any:
            Two.calls += 1
            return x.sum(dim=1).to(torch.bfloat16), x.argmax(dim=1)

    opened = py_torch.LoadedModule(Two(), ("x",), ("sum", "best"))
    work = torch_lanes.ModuleWork(
        opened, [TensorSpec("x", "float32", (5,))], ["best", "sum"], device="cpu"
    )
    for _ in range(3):
        found = work.outputs({"x": (7, 5)})
    assert found == {"best": (np.dtype(np.int64), (7,)), "sum": (np.dtype(np.float32), (7,))}
    assert Two.calls == 1


def test_what_cannot_be_kept_in_lanes_is_computed_without() -> None:
    assert torch_lanes.fits({"Conv", "Relu", "Shape"})
    assert not torch_lanes.fits({"Conv", "NonMaxSuppression"})
    assert torch_lanes.capturable({"Conv", "MatMul"})
    assert not torch_lanes.capturable({"Conv", "Shape"})
    graph = tiny("get-ml-model-retinanet")
    opened = py_torch.from_onnx(graph, [tensor.name for tensor in graph.outputs])
    assert not torch_lanes.fits(set(opened.operators))


def test_compiling_ends_when_its_time_is_over() -> None:
    budget = torch_lanes.CompileBudget(50.0)
    assert budget.is_left()
    budget.spend(20.0)
    assert budget.is_left()
    budget.spend(15.0)
    assert not budget.is_left(), "15 s are left, and one took 20 s"
    assert not torch_lanes.CompileBudget(0).is_left()


def test_a_compiled_module_answers_the_same() -> None:
    """Without the compiler of a GPU: what is traced is computed by PyTorch's own operators."""
    graph = tiny("get-ml-model-bert-large-squad")
    names = [tensor.name for tensor in graph.outputs]
    opened = py_torch.from_onnx(graph, names)
    module = opened.module.eval()
    traced = torch.compile(module, backend="eager")
    ids = torch.arange(1, 49).reshape(2, 24)
    inputs = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    with torch.inference_mode():
        for one, other in zip(traced(*inputs), module(*inputs), strict=True):
            torch.testing.assert_close(one, other)


def test_on_cuda_every_worker_has_a_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice that ``open`` makes, with the stand-in for the device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *number: None)
    monkeypatch.setattr(py_torch, "TorchDevice", Recorder)
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, *given, **named: self)
    backend = py_torch.PyTorch(Setup("cuda", "float32", {}))
    for folder, kind in (
        ("get-ml-model-resnet50", Lane),
        ("get-ml-model-retinanet", py_torch.TorchPredictor),
    ):
        graph = tiny(folder)
        names = [tensor.name for tensor in graph.outputs]
        opened = backend.open(graph, names, 2, 1)
        assert [type(each) for each in opened] == [kind, kind]
        fixed: list[Any] = list(backend.open_fixed(graph, names, 1, 1, 8))
        assert (fixed[0]._compiled is not None) if kind is Lane else type(fixed[0]) is kind
    assert backend.layouts(64) == lanes.layouts(py_torch.LANES) == [(1, 1), (2, 1)]
    assert backend.layouts(64, workers=3) == [(3, 1)]
    assert (backend.copies(4, 1), backend.stream_threads(64)) == (0, (1,))
    assert py_torch.PyTorch(Setup("cpu", "float32", {})).stream_threads(4) == (4, 1)
    assert callable(torch_device.facts)


def test_rocm_is_cuda_to_pytorch_and_xpu_has_no_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", "7.0.51831", raising=False)
    assert torch_device.kind("rocm") == "cuda"
    assert torch_device.kind("cpu") == "cpu"
    for device, title in (("cuda", "CUDA"), ("xpu", "XPU")):
        with pytest.raises(HarnessError, match=f"sees no {title} device"):
            torch_device.kind(device)
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(HarnessError, match="install a ROCm build"):
        torch_device.kind("rocm")
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    monkeypatch.setattr(torch.xpu, "get_device_name", lambda number: "Max 1100")
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, *given, **named: self)
    backend = py_torch.PyTorch(Setup("xpu", "bfloat16", {}))
    graph = tiny("get-ml-model-resnet50")
    (predictor,) = backend.open(graph, [tensor.name for tensor in graph.outputs], 1, 1)
    assert type(predictor) is py_torch.TorchPredictor
    assert (backend.device_facts(), backend.layouts(64, 2)) == ({"gpu": "Max 1100"}, [(2, 1)])


def test_workers_are_shared_out_over_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *number: None)
    made: list[Recorder] = []

    def device(number: int) -> Recorder:
        made.append(Recorder(number))
        return made[-1]

    moved: list[str] = []
    monkeypatch.setattr(py_torch, "TorchDevice", device)
    monkeypatch.setattr(
        torch.nn.Module, "to", lambda self, *given, **named: (moved.append(given[0]), self)[1]
    )
    backend = py_torch.PyTorch(Setup("cuda", "float32", {"devices": "2,0", "module": "graph"}))
    graph = tiny("get-ml-model-bert-large-squad")
    team: list[Any] = list(backend.open(graph, [t.name for t in graph.outputs], 4, 1))
    assert [lane._device for lane in team] == [made[0], made[1], made[0], made[1]]
    assert [lane._work._device for lane in team] == ["cuda:2", "cuda:0"] * 2
    assert team[0]._work._opened.module is team[2]._work._opened.module
    assert team[0]._work._opened.module is not team[1]._work._opened.module
    assert [backend.place_of(worker) for worker in range(3)] == ["cuda:2", "cuda:0", "cuda:2"]
    assert [place for place in moved if place.startswith("cuda")] == ["cuda:2", "cuda:0"]
    assert backend.layouts(64) == [(2, 1), (4, 1)]
    assert torch_device.numbers("cuda", "all") == (0, 1, 2)
    assert torch_device.numbers("cuda", "") == (0,)
    for wrong in ("3", "0,x"):
        with pytest.raises(HarnessError, match="is no GPU here; there are 0 to 2"):
            torch_device.numbers("cuda", wrong)
