"""Engines that TensorRT-RTX has built, in the folder of the flow, on a machine without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nvidia_flow.errors import FlowError
from nvidia_flow.systems import Machine
from nvidia_make import engines, harness, work
from nvidia_make.flow import Flow

from nvidia_flow_lab import Hands, a_flow

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
        "sha256": engines.checksum(plan),
        "model": "resnet50.onnx",
    }
    plan.with_name(f"{plan.name}.json").write_text(json.dumps(told))
    return plan


def refused(flow_: Flow) -> FlowError:
    with pytest.raises(FlowError) as caught:
        harness.run_harness(flow_)
    assert isinstance(flow_.doer, Hands)
    assert flow_.doer.lines == [], "nothing is started"
    return caught.value


def test_a_plan_without_a_gpu_ends_before_loadgen_with_the_next_command(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, LINE)
    plan = a_plan(flow_)
    error = refused(flow_)
    assert error.kind == "engine-missing"
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
    flow_ = a_flow(tmp_path, LINE, hands=Hands(Machine("Tesla T4", 1, 15, 70, "7.5")))
    plan = a_plan(flow_)
    assert "--backend=tensorrt runs engines" in str(refused(flow_))
    sidecar = plan.with_name(f"{plan.name}.json")
    sidecar.write_text(sidecar.read_text().replace("7.5", "8.9"))
    assert "for 8.9, and this GPU has compute capability 7.5" in str(refused(flow_))


def test_a_plan_that_is_not_what_it_says_is_told(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, LINE)
    plan = a_plan(flow_, "stand-in")
    assert "its builder is not TensorRT but stand-in" in str(refused(flow_))
    plan.with_name(f"{plan.name}.json").unlink()
    error = refused(flow_)
    assert "it does not say what it is" in str(error)
    assert error.hint.startswith("rm -f ")


def test_nothing_is_put_beside_a_plan(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, LINE)
    plan = a_plan(flow_)
    engines.generate_engines(flow_)
    assert isinstance(flow_.doer, Hands)
    assert "is there; it is an engine of TensorRT-RTX" in flow_.doer.told[-1]
    assert sorted(plan.parent.iterdir()) == [plan, plan.with_name(f"{plan.name}.json")]
    plan.write_bytes(b"half")
    assert "its file is not the one that it says" in str(refused(flow_))
