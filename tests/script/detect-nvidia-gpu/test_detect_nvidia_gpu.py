"""detect-nvidia-gpu: refused at once where no GPU shows, also from the user's entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib import nvidia
from lab import Lab
from steps import Step

REAL_NODES, REAL_SIGNS = nvidia.nodes, nvidia.signs


def show(monkeypatch: pytest.MonkeyPatch, root: Path, *names: str) -> None:
    """Put a made-up tree in place of this machine's, and an empty PATH."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    monkeypatch.setattr(nvidia, "nodes", lambda: REAL_NODES(root))
    monkeypatch.setattr(nvidia, "signs", lambda: REAL_SIGNS(root, {}.get))


def test_a_machine_without_a_gpu_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    show(monkeypatch, tmp_path / "root")
    step = Step("detect-nvidia-gpu", tmp_path / "cwd", {})
    with pytest.raises(Error, match="shows no NVIDIA GPU") as caught:
        step.call("preprocess")
    assert caught.value.code == "no-device"
    assert "--device=cpu" in caught.value.hint
    assert "/dev/dxg" in caught.value.context[0]


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (("dev/nvidia0", "dev/nvidia1", "dev/nvidiactl"), "2"),
        (("dev/dxg",), None),
        (("dev/nvhost-gpu",), None),
    ],
)
def test_what_shows_is_accepted_and_counted(
    names: tuple[str, ...], count: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    show(monkeypatch, tmp_path / "root", *names)
    step = Step("detect-nvidia-gpu", tmp_path / "cwd", {})
    step.call("preprocess")
    assert step.env.get("CM_CUDA_NUM_DEVICES") == count


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.of_checkout(tmp_path)


def planned(lab: Lab, **flags: Any) -> dict[str, Any]:
    answer: dict[str, Any] = lab.plan(
        "run-mlperf,inference,_tiny", out="json", model="resnet50", **flags
    ).answer
    return answer


def test_run_and_plan_of_a_benchmark_are_refused_before_any_other_step(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    show(monkeypatch, tmp_path / "root")
    assert planned(lab, device="cuda")["code"] == "no-device"
    tags = "run-mlperf,inference,_tiny"
    refused = lab.run(tags, model="resnet50", device="cuda", quiet=True)
    assert refused.answer["code"] == "no-device"
    assert not list(lab.home.rglob("python-venv*")), "nothing was installed"
    assert planned(lab)["return"] == 0, "the processor is always there"


def test_who_knows_better_is_not_stopped(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    show(monkeypatch, tmp_path / "root")
    trusted = {"env": {"CM_TRUST_DEVICE": "yes"}}
    assert planned(lab, device="cuda", **trusted)["return"] == 0


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("0", ""),
        ("GPU-5d", ""),
        ("MIG-7", ""),
        ("MIG-8", "MIG-8 names no GPU here"),
        ("3", "3 names no GPU here"),
        ("", "hides every GPU"),
    ],
)
def test_a_device_that_is_not_there_is_refused_at_once(
    value: str, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    show(monkeypatch, tmp_path / "root", "dev/nvidia0")
    kind = dict.fromkeys(nvidia.OF_KIND, "")
    gpu = nvidia.NvidiaGpu(0, "GPU-5d1", "00:65", kind, (nvidia.Mig("1g.5gb", 0, "MIG-7"),))
    monkeypatch.setattr(nvidia, "read", lambda: type("Driver", (), {"gpus": (gpu,)}))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    step = Step("detect-nvidia-gpu", tmp_path / "cwd", {})
    if not says:
        step.call("preprocess")
        return
    with pytest.raises(Error, match=says) as caught:
        step.call("preprocess")
    assert "nvidia-smi -L" in caught.value.hint
