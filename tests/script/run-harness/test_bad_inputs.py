"""What a machine or a folder has wrong: each ends in one error with its kind and the next step.

The doctor, the driver's reader and the words are the real ones; ``nvidia-smi`` is a recording one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from common.problems import Problem
from nvidia_flow_lab import recording_smi, script_of_the_words
from nvidia_mlperf.make import flow

T4 = {"name": "Tesla T4", "driver_version": "515.65.01", "memory.total": "15360"}
WORDS = script_of_the_words()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the flow on a machine with one T4 on which all is well."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", *flow.VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{recording_smi(tmp_path)}:{os.environ['PATH']}")
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(tmp_path / "scratch"))
    monkeypatch.setenv("CONTAINER_ENGINE", "none")
    (tmp_path / "scratch").mkdir()
    machine(tmp_path)
    return made(tmp_path)


def made(above: Path, **settings: Any) -> Path:
    place = above / "flow"
    flow.write(place, flow.FlowSettings("Me", allow_root=True, **{"form": "tiny", **settings}))
    return place


def machine(above: Path, **told: Any) -> None:
    fine = {"gpu": T4, "mig": "[N/A]", "parts": 0, "processes": [], "fails": "", "count": 1}
    (above / "state.json").write_text(json.dumps(fine | told))


def prebuild(place: Path) -> None:
    WORDS.do({"CM_NVIDIA_FLOW_TARGET": "prebuild"}, place, str(place.parent / "cm"))


def refused(place: Path) -> tuple[str, str, str]:
    """Kind, text and next step of the error in which the word ends."""
    with pytest.raises(Problem) as caught:
        prebuild(place)
    return caught.value.code, str(caught.value), caught.value.hint


def test_a_machine_on_which_all_is_well(folder: Path) -> None:
    prebuild(folder)


@pytest.mark.parametrize("told", ["3", "GPU-9", "MIG-1", ""])
def test_a_variable_that_names_no_gpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", told)
    kind, text, hint = refused(folder)
    assert kind == "no-device"
    assert text.startswith("gpu.visible: CUDA_VISIBLE_DEVICES")
    assert hint.startswith("unset CUDA_VISIBLE_DEVICES")


def test_a_driver_that_is_too_old(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(folder.parent, gpu={**T4, "driver_version": "440.33"})
    kind, text, hint = refused(folder)
    assert kind == "no-driver"
    assert text == "driver.round: driver 440.33 is too old: v0.7 needs 450 or newer"
    assert "SKIP_DRIVER_CHECK=1" in hint
    monkeypatch.setenv("SKIP_DRIVER_CHECK", "1")
    prebuild(folder)


def test_a_driver_that_does_not_answer(folder: Path) -> None:
    machine(folder.parent, fails="--query-gpu")
    kind, text, hint = refused(folder)
    assert kind == "no-driver"
    assert text.startswith("driver.works: this user may not use the GPU")
    assert "/dev/nvidia" in hint


def test_mig_without_an_instance(folder: Path) -> None:
    machine(folder.parent, mig="Enabled", gpu={**T4, "name": "NVIDIA A100-SXM4-40GB"})
    kind, text, hint = refused(folder)
    assert (kind, text.partition(":")[0]) == ("no-device", "gpu.mig")
    assert "make teardown_mig" in hint


def test_a_left_over_audit_config(folder: Path) -> None:
    (folder / "audit.config").write_text("")
    kind, text, hint = refused(folder)
    assert (kind, hint) == ("bad-value", f"rm {folder / 'audit.config'}")
    assert "changes the results of every run" in " ".join(text.split())


def test_data_that_are_half_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHMARKS", "dlrm")
    days = folder.parent / "scratch/data/criteo"
    days.mkdir(parents=True)
    for day in range(23):
        (days / f"day_{day}").write_text("")
    prebuild(folder)
    full = made(folder.parent, form="full")
    kind, text, hint = refused(full)
    assert kind == "bad-value"
    assert text == f"data.whole: dlrm: {days} holds 23 of 24 files (any)"
    assert hint.startswith("make download_data again")


def test_a_scratch_space_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", "/nowhere/at/all")
    kind, text, hint = refused(folder)
    assert kind == "not-writable"
    assert text == "scratch.space: /nowhere/at/all is not a folder"
    assert "mkdir -p /nowhere/at/all" in hint


def test_all_that_is_wrong_comes_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", "/nowhere/at/all")
    (folder / "audit.config").write_text("")
    _, text, hint = refused(folder)
    for part in ("gpu.visible", "scratch.space", "audit.left-over"):
        assert part in text
    assert len(hint.split("; ")) >= 3


def test_results_that_nobody_reads_any_more_do_not_end_the_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        WORDS.FlowEngine({}, writing).show("bert: VALID")
    finally:
        os.close(writing)
    assert capsys.readouterr().err == "bert: VALID\n"
