"""Engines that TensorRT-RTX has built, in the folder of the flow, on a machine without a GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cmbench.doctor.vendors import subject_of
from common.files import sha256
from common.problems import Problem
from nvidia_flow_lab import Hands, a_flow
from nvidia_mlperf.flow.systems import GpuMachine
from nvidia_mlperf.make import checks, engines, generate, harness, work
from nvidia_mlperf.make.flow import Flow, checked

T4 = GpuMachine("Tesla T4", 1, 15, 70, "7.5")
LINE = "--benchmarks=resnet50 --scenarios=offline"


def a_plan(flow_: Flow, builder: str = "tensorrt-rtx") -> Path:
    """A file with what generate,engine,nvidia writes beside an engine."""
    (item,) = work.plan(flow_).items
    plan = engines.path(flow_, item, ".plan")
    plan.parent.mkdir(parents=True)
    plan.write_bytes(b"vtrt")
    told = {
        "builder": builder,
        "version": "1.7.1.116",
        "compute_capabilities": ["7.5"],
        "precision": "int8",
        "sha256": sha256(plan),
        "model": "resnet50.onnx",
    }
    plan.with_name(f"{plan.name}.json").write_text(json.dumps(told))
    plan.with_name(f"{plan.name}.model.json").write_text(json.dumps({"file": plan.name}))
    return plan


def refused(flow_: Flow) -> Problem:
    with pytest.raises(Problem) as caught:
        harness.run_harness(flow_)
    assert isinstance(flow_.runner, Hands)
    assert flow_.runner.lines == [], "nothing is started"
    return caught.value


def test_a_plan_without_a_gpu_ends_before_loadgen_with_the_next_command(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, LINE)
    plan = a_plan(flow_)
    error = refused(flow_)
    assert error.code == "engine-missing"
    assert str(error).endswith(
        "resnet50-Offline-gpu-b256-int8.default.plan: it is an engine of TensorRT-RTX 1.7.1.116 "
        "for 7.5, and this machine has no NVIDIA GPU that could run it"
    )
    place = plan.relative_to(tmp_path)
    assert error.hint == (
        f"rm -f {place} {place}.json && make generate_engines "
        f"RUN_ARGS='--benchmarks=resnet50 --scenarios=Offline --config_ver=default'"
    )


def test_a_plan_for_another_gpu_is_told(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, LINE, hands=Hands(T4))
    plan = a_plan(flow_)
    sidecar = plan.with_name(f"{plan.name}.json")
    sidecar.write_text(sidecar.read_text().replace("7.5", "8.9"))
    assert "for 8.9, and this GPU has compute capability 7.5" in str(refused(flow_))


def test_a_plan_that_is_not_what_it_says_is_told(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, LINE)
    plan = a_plan(flow_, "stand-in")
    assert "its builder is not TensorRT but stand-in" in str(refused(flow_))
    plan.with_name(f"{plan.name}.json").unlink()
    error = refused(flow_)
    assert "no sidecar describes it" in str(error)
    assert error.hint.startswith("rm -f ")


def test_nothing_is_put_beside_a_plan(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, LINE)
    plan = a_plan(flow_)
    generate.generate_engines(flow_)
    assert isinstance(flow_.runner, Hands)
    assert "is there; it is an engine of TensorRT-RTX" in flow_.runner.told[-1]
    beside = [plan.with_name(f"{plan.name}{end}") for end in (".json", ".model.json")]
    assert sorted(plan.parent.iterdir()) == [plan, *beside]
    plan.write_bytes(b"half")
    assert "its checksum is not that in its sidecar" in str(refused(flow_))


# ---- with a GPU, by what would be called


@dataclass
class Builder(Hands):
    """Builds what generate,engine,nvidia would: a model of two graphs."""

    store: Path = Path()
    builds: str = ""

    def cm_json(self, line: Sequence[str]) -> dict[str, Any]:
        self.lines.append(list(line))
        folder = self.store / str(len(self.lines))
        folder.mkdir(parents=True)
        files = {"a": f"{NAME}.plan", "b": f"{NAME}-step.plan"}
        for name in files.values():
            (folder / name).write_bytes(b"vtrt" + name.encode())
            told = {
                "builder": self.builds,
                "version": "10.9",
                "compute_capabilities": ["7.5"],
                "precision": "int8",
                "sha256": sha256(folder / name),
            }
            (folder / f"{name}.json").write_text(json.dumps(told))
        facts = {"file": files["a"], "parts": [{"name": "step", "file": files["b"]}]}
        (folder / "model.json").write_text(json.dumps(facts))
        return {"env": {"CM_ENGINE_FILE_WITH_PATH": str(folder / files["a"])}}


NAME = "engine-of-the-builder"


def a_builder(folder: Path, machine: GpuMachine | None, builds: str = "tensorrt") -> Builder:
    return Builder(machine, store=folder / "store", builds=builds)


def test_engines_are_built_where_there_is_a_gpu_and_handed_to_the_run(tmp_path: Path) -> None:
    hands = a_builder(tmp_path, T4)
    flow_ = a_flow(tmp_path / "flow", LINE, hands=hands)
    generate.generate_engines(flow_)
    (built,) = hands.lines
    assert built[2] == "--tags=generate,engine,nvidia,_tensorrt,_tiny"
    assert {
        *("--model=resnet50", "--benchmark=resnet50", "--precision=int8", "--batch_size=256"),
        *("--scenario=Offline", "--config_ver=default", "--compute_capability=7.5"),
    } <= set(built)
    plan = work.plan(flow_)
    engine = engines.find_engine(flow_, plan.items[0])
    assert engine is not None
    assert engine.name == "resnet50-Offline-gpu-b256-int8.default.plan"
    assert sorted(path.name for path in engine.parent.iterdir()) == [
        *(f"{NAME}-step.plan", f"{NAME}-step.plan.json"),
        *(engine.name, f"{engine.name}.json", f"{engine.name}.model.json"),
    ]
    engines.require(flow_, plan.items)
    words = harness.line(flow_, plan, plan.items[0])
    assert {
        *("--backend=tensorrt", "--device=cuda", "--precision=int8", "--batch_size=256"),
        *("--tensorrt_product=tensorrt", f"--engine_path={engine}", "--target_qps=6100"),
    } <= set(words)
    assert harness.system_name(flow_, plan).startswith("T4x1_tensorrt_")
    # The same line builds nothing again; other fields make another engine.
    generate.generate_engines(flow_)
    assert len(hands.lines) == 1
    other = replace(flow_, variables={"RUN_ARGS": f"{LINE} --workspace_size=1073741825"})
    generate.generate_engines(other)
    assert "--workspace_size=1025" in hands.lines[1]
    assert "it was made with other fields" in str(refused_plan(flow_))


def refused_plan(flow_: Flow) -> Problem:
    with pytest.raises(Problem) as caught:
        engines.require(flow_, work.plan(flow_).items)
    return caught.value


def test_a_folder_may_say_who_builds(tmp_path: Path) -> None:
    hands = a_builder(tmp_path, None, "tensorrt-rtx")
    flow_ = a_flow(tmp_path / "flow", LINE, hands=hands, builder="tensorrt-rtx")
    generate.generate_engines(flow_)
    (built,) = hands.lines
    assert built[2] == "--tags=generate,engine,nvidia,_rtx,_tiny"
    assert "--compute_capability=7.5" in built, "that of the system whose values count"
    error = refused_plan(flow_)
    assert "this machine has no NVIDIA GPU that could run it" in str(error)
    assert "with builder: stand-in in flow.yaml: rm -f build/engines/T4x1/" in error.hint
    named = replace(flow_, variables={"RUN_ARGS": f"{LINE} --system_name=A100-SXM4x1"})
    with pytest.raises(Problem) as caught:
        harness.require(named, work.plan(named))
    assert "--config_ver=default --system_name=A100-SXM4x1'" in caught.value.hint
    hands.builds = "stand-in"
    other = replace(flow_, variables={"RUN_ARGS": "--benchmarks=bert --scenarios=offline"})
    with pytest.raises(Problem, match="is not an engine of TensorRT"):
        generate.generate_engines(other)
    with pytest.raises(Problem, match="builder is 'tensorflow'"):
        checked({"submitter": "Me", "builder": "tensorflow"}, "flow.yaml")


def test_results_have_one_name(tmp_path: Path) -> None:
    hands = a_builder(tmp_path, T4)
    line = "--benchmarks=resnet50 --scenarios=offline,server"
    flow_ = a_flow(tmp_path / "flow", line, hands=hands)
    generate.generate_engines(flow_)
    items = work.plan(flow_).items
    server = engines.find_engine(flow_, items[1])
    assert server is not None
    server.rename(server.with_suffix(".onnx"))
    with pytest.raises(Problem, match="stand-in and tensorrt, and results have one name"):
        engines.computes(flow_, items)


def test_weights_that_a_gpu_cannot_hold_are_told_to_the_doctor(tmp_path: Path) -> None:
    line = "--benchmarks=bert,dlrm --scenarios=offline --config_ver=default,high_accuracy"
    flow_ = a_flow(tmp_path / "flow", line, hands=a_builder(tmp_path, T4), form="full")
    told = checks.subject(flow_, work.plan(flow_))["needs"]
    assert [need["gpu_memory"] for need in told] == [0, 0], "a stand-in computes"
    generate.generate_engines(flow_)
    bert, dlrm = checks.subject(flow_, work.plan(flow_))["needs"]
    # 334 million weights in float16 for high_accuracy; DLRM's tables in int8, a part of them.
    assert bert["gpu_memory"] == 668_000_000
    assert dlrm["gpu_memory"] > 5 * 10**9
    assert subject_of(checks.subject(flow_, work.plan(flow_))).needs[0].gpu_memory > 0
