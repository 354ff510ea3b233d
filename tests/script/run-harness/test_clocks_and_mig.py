"""Clocks and MIG against an ``nvidia-smi`` on PATH that records what it is told, with a state."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from common.problems import Problem
from nvidia_flow_lab import recording_smi, script_of_the_words
from nvidia_mlperf.make import clocks, flow, gpus, mig, targets

A100 = {
    "name": "NVIDIA A100-SXM4-40GB",
    "driver_version": "515.65.01",
    "memory.total": "40960",
    "clocks.max.sm": "1410",
}


class Told(script_of_the_words().FlowEngine):  # type: ignore[misc]
    """It shows to lists, not to streams."""

    def __init__(self) -> None:
        super().__init__({})
        self.shown: list[str] = []
        self.told: list[str] = []

    def show(self, line: str) -> None:
        self.shown.append(line)

    def report_line(self, line: str) -> None:
        self.told.append(line)


CHANGES = ("-mig", "mig", "-lgc", "-rgc", "-i")


class Box:
    """A machine whose ``nvidia-smi`` is the recording one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = Told()
        self.set(gpu=A100, mig="Disabled", parts=0, processes=[], fails="", count=1)

    def set(self, **told: Any) -> None:
        path = self.folder / "state.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(before | told))

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        return found

    @property
    def changes(self) -> list[str]:
        """What it was told that changes a GPU."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        # A call without words prints the table.
        return [line for line in lines if line.split()[:1] in ([word] for word in CHANGES)]

    def make(self, word: str, **variables: str) -> list[str]:
        self.runner.shown.clear()
        of = flow.Flow(self.folder, flow.FlowSettings("Me"), variables, targets.NVIDIA, self.runner)
        targets.find(word, targets.NVIDIA).function()(of)
        return self.runner.shown


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.setenv("PATH", f"{recording_smi(tmp_path)}:{os.environ['PATH']}")
    monkeypatch.setattr(gpus.os, "geteuid", lambda: 0)
    return Box(tmp_path)


def root(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(gpus.os, "geteuid", lambda: uid)


# ---- clocks


def test_clocks_are_shown_and_not_changed(box: Box) -> None:
    assert box.make("lock_clocks", GPUCLK="1410") == ["sudo nvidia-smi -lgc 1410,1410"]
    assert "GPU 0: NVIDIA A100-SXM4-40GB, up to 1410 MHz" in box.runner.told
    assert box.runner.told[-1] == "to undo: make free_clocks"
    assert box.make("free_clocks") == ["sudo nvidia-smi -rgc"]
    assert box.changes == []


def test_clocks_are_locked_as_root_alone(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    root(monkeypatch, 1000)
    with pytest.raises(Problem, match="root alone"):
        box.make("lock_clocks", APPLY="1")
    assert box.changes == []
    root(monkeypatch, 0)
    box.make("lock_clocks", APPLY="1", GPUCLK="1200")
    box.make("free_clocks", APPLY="1")
    assert box.changes == ["-lgc 1200,1200", "-rgc"], "root needs no sudo"


@pytest.mark.parametrize(
    "clock", ["fast", "1590; reboot", "-1", "0", "1590,1590", "\uff19\uff10\uff10", "1411"]
)
def test_clocks_that_cannot_be(box: Box, clock: str) -> None:
    with pytest.raises(Problem, match="GPUCLK="):
        box.make("lock_clocks", GPUCLK=clock, APPLY="1")
    assert box.changes == []


def test_a_gpu_in_use_is_left_alone(box: Box) -> None:
    box.set(processes=["GPU-0a, 77, python3"])
    words = {"NVIDIA_VISIBLE_DEVICES": "0", "MIG_CONF": "1", "APPLY": "1"}
    for word in ("lock_clocks", "free_clocks", "configure_mig"):
        with pytest.raises(Problem, match=r"in use by python3 \(77\)"):
            box.make(word, **words)
    box.set(mig="Enabled", parts=7)
    with pytest.raises(Problem, match="in use by"):
        box.make("teardown_mig", **words)
    assert [line for line in box.changes if "-lgip" not in line] == []
    box.set(mig="Disabled", parts=0, count=2)
    box.make("lock_clocks", NVIDIA_VISIBLE_DEVICES="1", APPLY="1")
    assert box.changes[-1] == "-i 1 -lgc 1000,1000", "another GPU is free"


def test_clocks_are_undone_when_one_fails(box: Box) -> None:
    box.set(count=2, fails="-i 1 -lgc")
    with pytest.raises(Problem, match="Insufficient Permissions"):
        box.make("lock_clocks", NVIDIA_VISIBLE_DEVICES="0,1", APPLY="1")
    assert box.changes == [
        "-i 0 -lgc 1000,1000",
        "-i 1 -lgc 1000,1000",
        "-i 1 -rgc",
        "-i 0 -rgc",
    ]


def test_clocks_are_locked_for_as_long_as_runs_take(box: Box) -> None:
    given = {"GPUCLK": "1200", "APPLY": "1"}
    of = flow.Flow(box.folder, flow.FlowSettings("Me"), given, targets.NVIDIA, box.runner)
    with pytest.raises(KeyboardInterrupt), clocks.locked(of):
        assert box.changes == ["-lgc 1200,1200"]
        raise KeyboardInterrupt
    assert box.changes == ["-lgc 1200,1200", "-rgc"]
    without = flow.Flow(
        box.folder, flow.FlowSettings("Me"), {"GPUCLK": "1200"}, targets.NVIDIA, box.runner
    )
    with clocks.locked(without):
        assert len(box.changes) == 2


# ---- MIG


def test_mig_is_shown_and_not_changed(box: Box) -> None:
    shown = box.make("configure_mig", MIG_CONF="1", NVIDIA_VISIBLE_DEVICES="0")
    assert shown == [
        "sudo nvidia-smi -mig 1 -i 0",
        "sudo nvidia-smi mig -i 0 -cgi 19,19,19,19,19,19,19 -C",
    ]
    assert box.changes == []
    assert (
        box.runner.told[-1]
        == "then: export CUDA_VISIBLE_DEVICES=MIG-… of one of them (nvidia-smi -L)"
    )
    assert "to undo: NVIDIA_VISIBLE_DEVICES=0 make teardown_mig" in box.runner.told
    assert box.make("configure_mig", MIG_CONF="OFF") == []
    with pytest.raises(Problem) as caught:
        box.make("teardown_mig")
    assert caught.value.hint == "NVIDIA_VISIBLE_DEVICES=0 make teardown_mig"


def test_what_undoes_a_change_is_for_the_same_gpus(box: Box) -> None:
    box.set(count=2)
    box.make("lock_clocks", NVIDIA_VISIBLE_DEVICES="1")
    assert "to undo: NVIDIA_VISIBLE_DEVICES=1 make free_clocks" in box.runner.told
    box.make("lock_clocks")
    assert box.runner.told[-1] == "to undo: make free_clocks"


def test_a_gpu_is_cut_chosen_from_and_whole_again(box: Box) -> None:
    one = {"NVIDIA_VISIBLE_DEVICES": "0", "APPLY": "1"}
    box.make("configure_mig", MIG_CONF="ALL", **one)
    assert (box.state["mig"], box.state["parts"]) == ("Enabled", 7)
    chosen = [
        line for line in box.runner.told if line.startswith("export CUDA_VISIBLE_DEVICES=MIG-0")
    ]
    assert chosen == [
        "export CUDA_VISIBLE_DEVICES=MIG-05555555-5555-5555-5555-555555555555  # 1g.5gb"
    ]
    with pytest.raises(Problem, match="has 7 MIG instances already") as caught:
        box.make("configure_mig", MIG_CONF="1", **one)
    assert caught.value.hint.startswith("NVIDIA_VISIBLE_DEVICES=0 make teardown_mig")
    box.make("teardown_mig", **one)
    assert (box.state["mig"], box.state["parts"]) == ("Disabled", 0)
    assert box.changes[-3:] == ["mig -i 0 -dci", "mig -i 0 -dgi", "-mig 0 -i 0"]
    box.make("teardown_mig", **one)
    assert box.runner.told[-1] == "GPU 0: MIG is off, nothing to remove"


def test_the_gpu_itself_tells_its_profiles(box: Box) -> None:
    box.set(mig="Enabled")
    shown = box.make("configure_mig", MIG_CONF="1", NVIDIA_VISIBLE_DEVICES="0")
    assert shown == ["sudo nvidia-smi mig -i 0 -cgi 19,19,19,19,19,19,19 -C"]
    with pytest.raises(Problem, match="lists no MIG profile of 3 slices"):
        box.make("configure_mig", MIG_CONF="3", NVIDIA_VISIBLE_DEVICES="0")


def test_a_cut_that_fails_is_undone(box: Box) -> None:
    box.set(fails="mig -i 0 -cgi")
    with pytest.raises(Problem, match=r"-cgi .* ended with 4: Unable to do that"):
        box.make("configure_mig", MIG_CONF="1", NVIDIA_VISIBLE_DEVICES="0", APPLY="1")
    assert box.changes[-3:] == ["mig -i 0 -dci", "mig -i 0 -dgi", "-mig 0 -i 0"]
    assert box.state["mig"] == "Disabled"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "NVIDIA_VISIBLE_DEVICES=nothing does not name one GPU"),
        ({"NVIDIA_VISIBLE_DEVICES": "0,1"}, "does not name one GPU"),
        ({"NVIDIA_VISIBLE_DEVICES": "0 -i 1"}, "does not name one GPU"),
        ({"NVIDIA_VISIBLE_DEVICES": "5"}, "is not a GPU of this machine"),
        ({"NVIDIA_VISIBLE_DEVICES": "0", "MIG_CONF": "4"}, "MIG_CONF=4 is not known here"),
        ({"NVIDIA_VISIBLE_DEVICES": "0", "MIG_CONF": "hetero"}, "HeteroMIG"),
    ],
)
def test_what_cannot_be_cut(box: Box, given: dict[str, str], says: str) -> None:
    with pytest.raises(Problem, match=says) as caught:
        box.make("configure_mig", **{"MIG_CONF": "1", "APPLY": "1", **given})
    assert caught.value.hint
    assert box.changes == []


def test_a_gpu_without_mig(box: Box) -> None:
    box.set(mig="[N/A]", gpu={**A100, "name": "Tesla T4"})
    with pytest.raises(Problem, match=r"Tesla T4, cannot be cut in parts"):
        box.make("configure_mig", MIG_CONF="1", NVIDIA_VISIBLE_DEVICES="0", APPLY="1")
    assert mig.SLICES["1"] == (19, 7)


def test_without_a_gpu_commands_are_shown_and_none_is_run(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert box.make("lock_clocks") == ["sudo nvidia-smi -lgc 1000,1000"]
    assert len(box.make("configure_mig", MIG_CONF="2", NVIDIA_VISIBLE_DEVICES="0")) == 2
    with pytest.raises(Problem, match="no NVIDIA GPU answers here"):
        box.make("lock_clocks", APPLY="1")
