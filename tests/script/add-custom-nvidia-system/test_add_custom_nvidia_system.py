"""add-custom-nvidia-system: values for a machine that nobody submitted with, and their faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from nvidia_flow import registry
from nvidia_flow.systems import chosen, machine_of

from cmbench.errors import Error
from cmbench.lib import nvidia
from steps import Step

Q, B, S = "gpu_offline_expected_qps", "gpu_batch_size", "gpu_inference_streams"


def test_a_machine_that_nobody_submitted_with_gets_scaled_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = {"name": "Tesla T4", "memory.total": "15109", "compute_cap": "7.5"}
    gpus = tuple(nvidia.Gpu(n, f"GPU-{n}", "", kind) for n in range(4))
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
