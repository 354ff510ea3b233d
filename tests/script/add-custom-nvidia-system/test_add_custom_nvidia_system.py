"""add-custom-nvidia-system: values for a machine that nobody submitted with, and their faults."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench.lib import nvidia
from nvidia_flow_lab import recording_smi
from nvidia_mlperf.flow import registry
from nvidia_mlperf.flow.systems import chosen, machine_of
from steps import Step
from support import Finished

Q, B, S = "gpu_offline_expected_qps", "gpu_batch_size", "gpu_inference_streams"


def test_a_machine_that_nobody_submitted_with_gets_scaled_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = {"name": "Tesla T4", "memory.total": "15109", "compute_cap": "7.5"}
    gpus = tuple(nvidia.NvidiaGpu(n, f"GPU-{n}", "", kind) for n in range(4))
    monkeypatch.setattr(nvidia, "read", lambda: nvidia.Driver("460.32.03", "11.2", gpus))
    monkeypatch.setattr("os.uname", lambda: type("U", (), {"machine": "x86_64"}))
    given = {"CM_NVIDIA_VENDOR_ROUND": "v0.7"}
    step = Step("add-custom-nvidia-system", tmp_path / "mine", dict(given))
    step.call("preprocess")
    assert step.env["CM_NVIDIA_SYSTEM"] == "Tesla_T4x4"
    folder = step.env["CM_NVIDIA_SYSTEMS_DIR"]
    own = registry.load(registry.HERE, Path(folder))
    assert own.faults == ()
    assert chosen(machine_of([kind] * 4, "x86_64"), tuple(own.systems.values()), "v0.7").id == (
        "Tesla_T4x4"
    )
    table = own.table("v0.7", "resnet50", "Offline")
    config = own.config(table, "Tesla_T4x4")
    one = own.config(table, "T4x1").values
    assert config.values[Q].value == 4 * one[Q].value
    assert config.values[B].value == int(one[B].value * 15109 / 1024 / 16)
    assert "scaled from T4x1, not measured" in config.values[Q].origin
    assert config.values[S] == one[S], "what is not scaled is as published"
    asked = {**given, "CM_NVIDIA_SYSTEMS_DIR": folder, "CM_NVIDIA_BENCHMARK": "bert"}
    asked["CM_NVIDIA_CONFIG_VER"] = "default"
    Step("explain-nvidia-config", tmp_path / "cwd", asked).call("preprocess")
    assert "default on Tesla_T4x4" in capsys.readouterr().out
    wrong = Path(folder) / "configs/v0.7/bert/Offline.yaml"
    wrong.write_text(wrong.read_text().replace("gpu_batch_size", "gpu_batchsize", 1))
    registry.load.cache_clear()
    (fault,) = registry.load(registry.HERE, Path(folder)).faults
    assert str(fault).startswith("configs/v0.7/bert/Offline.yaml:6: Tesla_T4x4 default: ")
    with pytest.raises(Error, match="is a known system"):
        monkeypatch.setattr(nvidia, "read", lambda: nvidia.Driver("1", "", gpus[:1]))
        Step("add-custom-nvidia-system", tmp_path / "known", dict(given)).call("preprocess")


def test_what_was_made_for_other_gpus_is_made_anew(
    tmp_path: Path, cm: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = {"name": "Tesla T4", "driver_version": "515.65.01", "memory.total": "15360"}
    told = {"gpu": {**gpu, "compute_cap": "7.5"}, "mig": "[N/A]", "parts": 0, "processes": []}
    (tmp_path / "state.json").write_text(json.dumps({**told, "fails": "", "count": 4}))
    monkeypatch.setenv("PATH", f"{recording_smi(tmp_path)}:{os.environ['PATH']}")

    def made(visible: str) -> tuple[str, str]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        line = ("--tags=add,custom,system,nvidia", "--vendor_round=v0.7", "--out=json")
        env = cm("run", "script", *line).ok().json["new_env"]
        return env["CM_NVIDIA_SYSTEM"], env["CM_NVIDIA_SYSTEMS_DIR"]

    first = made("0,1")
    assert first[0] == "Tesla_T4x2"
    assert made("0,1") == first, "the same ones are not looked at again"
    assert made("0,1,2")[0] == "Tesla_T4x3"
