"""The benchmarks of NVIDIA's flow, as far as they can be tried without a GPU.

Two tests need PyTorch and onnx2torch beside the project's own packages, as test_torch_lanes.py
does:
2.6 GB that the extra for tests has not.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import benchmark_lab as lab
from mlperf.harness.backends.lanes import CaptureGate
from support import ROOT, python_env

TINY = lab.MODEL / "model.json"


def program(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return __import__(name)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return program("gpu", monkeypatch)


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return program("nvidia_lines", monkeypatch)


class AtOnce:
    """The calls of CUDA on a device that does all at once, in this machine's memory."""

    def stream(self) -> int:
        return 0

    event = stream

    def pinned(self, size: int) -> Any:
        return np.zeros(size, np.uint8)

    memory = pinned

    def copy_in(self, target: Any, source: Any, stream: int) -> None:
        target[: source.nbytes] = source

    def copy_out(self, target: Any, source: Any, stream: int) -> None:
        target[...] = source[: target.nbytes]

    def capture(self, stream: int, work: Any) -> Any:
        return work

    def launch(self, graph: Any, stream: int) -> None:
        graph()

    def nothing(self, *given: Any) -> None:
        pass

    record = wait = synchronize = nothing


class Lane:
    """Answers twice what it is given, or something else."""

    def __init__(self, factor: float = 2) -> None:
        self.factor = factor

    def buffer(self, shape: Any, dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def predict(self, feeds: Any) -> Any:
        return [self.factor * feeds["x"]]


def test_without_a_gpu_it_says_so_and_is_no_failure() -> None:
    if list(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists():
        pytest.skip("there is a GPU")
    words = [sys.executable, str(ROOT / "benchmarks/gpu.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "not run: no GPU\n", "")
    # Where a GPU is, a Python without what is needed is told as well.
    words = [*words, "--here"]
    env = python_env(lab.LIB)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 0
    assert done.stdout.startswith("not run: ")


def test_what_is_to_reach_is_judged_by_both_figures(gpu: ModuleType) -> None:
    lines, reached = gpu.verdicts((960.0, 1000.0), (1.02e-3, 1e-3))
    assert reached
    assert lines[0] == (
        "Offline 960.0 samples/s in 2 lanes, 1000.0 bare: 96.0 % (to reach 95): reached"
    )
    assert lines[1] == "SingleStream 1020 us in a lane, 1000 bare (at most 1030): reached"
    lines, reached = gpu.verdicts((940.0, 1000.0), (129e-6, 100e-6))
    assert (lines[0].endswith("MISSED"), lines[1].endswith("reached"), reached) == (
        *(True, True),
        False,
    )
    assert not gpu.verdicts((1000.0, 1000.0), (1.04e-3, 1e-3))[1]


def test_answers_are_compared_before_anything_is_measured(gpu: ModuleType) -> None:
    torch = pytest.importorskip("torch")

    def bare(feeds: Any) -> Any:
        return [(2 * torch.as_tensor(feeds["x"])).numpy()]

    gpu.SECONDS = 0.01
    batch = {"x": np.ones((4, 3), np.float32)}
    ways = gpu.Ways([Lane(), Lane(2.001)], bare, CaptureGate())
    lines, _ = gpu.compared(ways, batch, {"x": np.ones((1, 3), np.float32)})
    assert len(lines) == 2
    ways = gpu.Ways([Lane(), Lane(3)], bare, CaptureGate())
    lines, reached = gpu.compared(ways, batch, batch)
    assert (lines, reached) == (["lane 1 answers otherwise than the bare loop, by 1"], False)


def test_a_real_model_answers_in_lanes_what_it_answers_bare(gpu: ModuleType) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx2torch")
    ways = gpu.ways_of(TINY, AtOnce, "cpu", lambda stream: contextlib.nullcontext())
    feeds = gpu.inputs_of(TINY, 4)
    assert {array.shape[0] for array in feeds.values()} == {4}
    assert gpu.differing(ways, feeds) == ""


def test_what_cannot_be_measured_says_why(
    flow: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*given: Any) -> float:
        raise subprocess.CalledProcessError(1, ["cm"], "", "log\nerror [offline]: no index\n  next")

    monkeypatch.setattr(flow, "from_cache", fails)
    assert flow.of_engines("", TINY, 1) == [
        ("cached", "not measured: error [offline]: no index", True),
        ("build", "not measured: --python=PATH names no TensorRT-RTX", True),
    ]
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    _, build = flow.of_engines(str(bare), TINY, 1)
    assert build[1].startswith("not measured: ")
    assert not build[2], "a Python that was named has to have it"


def test_the_limit_of_a_build_follows_from_the_builder_alone(
    flow: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "from_cache", lambda *given: 0.6)
    for ours, reached in ((3.0, True), (3.2, False)):
        monkeypatch.setattr(flow, "build_seconds", lambda *given, ours=ours: (ours, 2.0))
        cached, build = flow.of_engines("python", TINY, 1)
        assert (cached[2], build[2]) == (False, reached)
        assert "(limit 3.100)" in build[1]


def test_cpu_seconds_are_those_of_the_program(flow: ModuleType) -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass"
    assert 0.25 < flow.cpu_of([sys.executable, "-c", code]) < 30
    with pytest.raises(subprocess.CalledProcessError):
        flow.cpu_of([sys.executable, "-c", "raise SystemExit(3)"])


def test_what_a_flow_costs_is_measured_in_a_process_that_finds_its_code(flow: ModuleType) -> None:
    assert 0 < flow.seconds(flow.IN_PROCESS["plan"]) < 60
