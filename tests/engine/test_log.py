"""``cm log script``: what a run has printed, whole, by step, or only what looks like trouble."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from cmbench.lib.secrecy import Secrets
from cmbench.run.log import RunLog
from lab import Lab

NOISY = "for i in 1 2 3; do echo line $i; done\necho 'WARNING: odd' >&2\n"


@pytest.fixture
def ran(lab: Lab) -> Lab:
    lab.script("get-tool", cache=True, run=NOISY)
    end = "echo 'x.c:1: error: no' >&2\nexit 3\n"
    lab.script("run-top", deps=[{"tags": "get,tool"}], run="echo begins\n" + end)
    lab.run("run,top")
    return lab


def test_the_newest_log_is_shown_whole(ran: Lab) -> None:
    out = ran.call("log").out.splitlines()
    assert out[:2] == ["== run-top", "== run-top > get-tool"]
    for line in ("line 2", "WARNING: odd", "begins", "x.c:1: error: no"):
        assert line in out
    path = Path(out[-1].removeprefix("log: "))
    assert path.read_text().splitlines() == out[:-1]
    assert ran.call("log", artifact="last").answer["log"] == str(path)
    assert ran.call("log", artifact=path.parent.name[-6:]).answer["log"] == str(path)
    assert ran.call("log", artifact=str(path)).answer["log"] == str(path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
def test_a_log_that_a_full_disk_has_cut_is_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.script("run-top", run="echo begins\n")
    real = os.open

    def opened(path: str, *words: int, **named: int) -> int:
        return real("/dev/full" if str(path).endswith("log.txt") else path, *words, **named)

    monkeypatch.setattr("cmbench.run.log.os.open", opened)
    told = lab.call("run", tags="run,top")
    assert told.answer["return"] == 0
    assert "log.txt is not whole" in told.err
    assert "No space left" in told.err


def test_lines_around_a_gap_stay_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RunLog(str(tmp_path / "log.txt"), Secrets())
    room, real = [8], os.write

    def write(handle: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = real(handle, data[: room[0]])
        room[0] -= taken
        return taken

    monkeypatch.setattr("cmbench.run.log.os.write", write)
    for text in ("first", "second", "third\nand more"):
        log.line(text)
    room[0] = 1000
    log.line("fourth")
    log.close()
    assert log.lost == 3
    gap = "[lines that could not be written: 3, No space left on device]"
    assert (tmp_path / "log.txt").read_text().splitlines() == ["first", "se", gap, "fourth"]


def test_only_trouble_with_its_steps_and_lines(ran: Lab) -> None:
    lines = ran.call("log", errors=True).answer["lines"]
    assert lines[0] == "== run-top > get-tool"
    assert lines[1].endswith(": WARNING: odd")
    assert lines[2] == "== run-top"
    assert lines[3].endswith(": x.c:1: error: no")
    assert not any("line 2" in line for line in lines)


def test_a_log_without_errors_says_so(lab: Lab) -> None:
    lab.script("quiet-one", run="echo fine\n")
    lab.run("quiet,one")
    path = lab.call("log").answer["log"]
    assert lab.call("log", errors=True).out.splitlines() == [f"no errors in {path}"]
    (line,) = lab.call("log", errors=True, step="quiet").out.splitlines()
    assert line == f"no errors of steps named quiet in {path}"
    assert lab.call("log").out.splitlines()[-1] == f"log: {path}"


def test_only_one_step(ran: Lab) -> None:
    tool = ran.call("log", step="tool").answer["lines"]
    assert "line 2" in tool
    assert "begins" not in tool
    top = ran.call("log", step="run-top").answer["lines"]
    assert "begins" in top  # what comes after the dependency is the caller's again
    assert "line 2" not in top


def test_a_run_that_was_killed_has_a_log(ran: Lab) -> None:
    path = Path(ran.call("log").answer["log"])
    path.with_name("record.json").unlink()
    assert ran.call("log").answer["log"] == str(path)
    assert ran.call("log", artifact=path.parent.name).answer["log"] == str(path)


def test_what_is_not_there_is_said(ran: Lab) -> None:
    assert ran.call("log", artifact="none").answer["return"] == 16
    assert "cm log script last" in ran.call("log", artifact="a", artifacts=["b"]).err
    assert 'did you mean "errors"?' in ran.call("log", error=True).err
    shutil.rmtree(ran.home / "cmbench/runs")
    assert "there are no runs yet" in ran.call("log").err


def test_a_step_that_was_not_run_is_refused_and_the_steps_are_reported(ran: Lab) -> None:
    refused = ran.call("log", step="tol")
    assert refused.answer["code"] == "entry-not-found"
    assert refused.answer["context"] == ("run-top", "get-tool")
