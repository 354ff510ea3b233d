"""The benchmarks of NVIDIA's flow, as far as they can be tried without a GPU.

One test needs PyTorch beside the project's own packages, as test_torch_lanes.py does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import benchmark_lab as lab
from mlperf import catalog
from support import ROOT

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


def has_gpu() -> bool:
    return bool(list(Path("/dev").glob("nvidia[0-9]*"))) or Path("/dev/dxg").exists()


def test_without_a_gpu_it_says_what_it_would_do_and_is_no_failure() -> None:
    if has_gpu():
        pytest.skip("there is a GPU")
    words = [sys.executable, str(ROOT / "benchmarks/gpu.py"), "--python=/opt/p/bin/python"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first, *planned = done.stdout.splitlines()
    assert first.startswith("not run: no GPU")
    for model in ("resnet50", "bert-99"):
        assert any(line.startswith(f"  {model}_synthetic Offline: ") for line in planned)
    runs = [line for line in planned if "run-mlperf" in line]
    assert all("--python=/opt/p/bin/python" in line for line in runs)
    assert all("--precision=float16" in line for line in runs if "_synthetic" in line)


def test_every_tiny_benchmark_is_run_in_the_scenarios_that_it_has(gpu: ModuleType) -> None:
    tiny = [step for step in gpu.steps(None) if "_tiny" in step.name]
    known = catalog.benchmarks("").values()
    refused = catalog.backend("pytorch").refuses
    own = [s for s in known if s.runnable and not s.generates and s.name not in refused]
    names = {step.name.removesuffix("_tiny") for step in tiny}
    # Those of 99.9 % differ from those of 99 % by their target alone.
    assert {name.replace("99.9", "99") for name in names} >= {
        spec.name.replace("99.9", "99") for spec in own
    }
    for spec in own:
        scenarios = {s.scenario for s in tiny if s.name == f"{spec.name}_tiny"}
        assert scenarios <= {str(scenario) for scenario in spec.all_scenarios()}


def options(gpu: ModuleType, out: Path, *words: str) -> Any:
    out.mkdir(exist_ok=True)
    return gpu._options([f"--out={out}", *words])


def test_a_line_is_known_at_once_and_the_harness_is_a_share_of_the_bare_loop(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    def ended(words: Any, environment: Any, seconds: float) -> tuple[int, str]:
        assert environment["CM_REPOS"] == str(tmp_path / "home")
        assert (environment["PIP_NO_INDEX"], environment["PIP_FIND_LINKS"]) == ("1", str(tmp_path))
        assert seconds <= gpu.MOST_S
        if "--bare" in words:
            return 0, 'a warning\n{"value": 2000.0, "unit": "samples/s", "note": "graph"}\n'
        for word in words:
            if word.startswith("--results_dir="):
                written(Path(word.partition("=")[2]))
                # What is known by now is in the files.
                assert "driver" in (tmp_path / "gpu.json").read_text(encoding="utf-8")
        return 0, '{"env": {"CM_CUDA_VERSION": "13.0"}}'

    monkeypatch.setattr(gpu, "ended", ended)
    chosen = options(gpu, tmp_path, f"--find_links={tmp_path}")
    lines = gpu.measured(list(gpu.steps(None))[:5], chosen)
    assert [line.state for line in lines] == ["ok"] * 5
    assert lines[0].note == "CM_CUDA_VERSION=13.0"
    assert (lines[3].value, lines[3].share, lines[4].value) == (1900.0, 95.0, 2000.0)
    assert "torchvision" in lines[3].note
    assert "95.0 % of bare" in capsys.readouterr().out
    assert ">95 %</text>" in (tmp_path / "gpu.svg").read_text(encoding="utf-8")


def written(folder: Path) -> None:
    """Leave results as the harness writes them, as far as they are read."""
    run = {"circumstances": {"computed_by": {"module": "torchvision 1 resnet50"}}}
    result = {"scenario": "Offline", "value": 1900.0, "validity": "VALID", "performance_run": run}
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"results": [result]}), encoding="utf-8")


def test_it_stops_at_its_limit(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu, "_registered", lambda *_: None)
    lines = gpu.measured(list(gpu.steps(None)), options(gpu, tmp_path, "--limit=1"))
    assert {line.state for line in lines} == {"not run"}
    began = time.monotonic()
    child = "import subprocess; print('begun', flush=True); subprocess.run(['sleep', '60'])"
    status, output = gpu.ended([sys.executable, "-c", child], dict(os.environ), 2.0)
    assert (status, output) == (124, "begun\n")
    assert time.monotonic() - began < 50


def test_a_step_that_fails_says_why(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu, "ended", lambda *_: (1, "so far\nthe driver is too old\n"))
    lines = gpu.measured(list(gpu.steps(None))[:5], options(gpu, tmp_path))
    assert {line.state for line in lines} == {"failed"}
    assert {line.note for line in lines} == {"the driver is too old"}
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
    assert gpu.main([f"--out={tmp_path}", "--limit=20"]) == 1


def test_the_bare_loop_computes_what_it_times(gpu: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    gpu.BARE_S = 0.03
    (way,) = gpu.calls(torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),), "cpu")
    assert way[0] == "eager"
    assert way[1]().shape == (4, 2)
    assert 0 < gpu.seconds_of(way[1], "cpu") < 1


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
