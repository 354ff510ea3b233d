"""A word of the flow that is stopped or killed: what it ends, what it keeps, how it goes on."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cmbench.cache.store import disk_error
from common.problems import Problem
from nvidia_flow_lab import Hands, a_flow
from nvidia_mlperf.make import engines, files, flow, harness, work
from support import HANG_S, ROOT

# A word that runs a line, which needs half a second to end what it has started.
WORD = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("word", {customize!r})
word = importlib.util.module_from_spec(spec)
spec.loader.exec_module(word)
word._command = lambda line: [sys.executable, "-c", line[-1]]
word.FlowEngine(os.environ).{call}(["--json", {line!r}])
"""
LINE = """
import pathlib, sys, time
here = pathlib.Path({here!r})
(here / "begun").touch()
try:
    time.sleep(30)
except KeyboardInterrupt:
    time.sleep(0.6)
    (here / "ended").touch()
    sys.exit(130)
"""


@pytest.mark.parametrize(
    ("call", "signals"),
    [
        ("cm", [signal.SIGINT]),
        # make hands on what the whole group gets.
        ("cm_json", [signal.SIGINT, signal.SIGINT]),
    ],
)
def test_a_line_has_the_time_to_end_what_it_began(
    call: str, signals: list[int], tmp_path: Path
) -> None:
    line = LINE.format(here=str(tmp_path))
    customize = str(ROOT / "script/run-harness/customize.py")
    program = WORD.format(customize=customize, call=call, line=line)
    word = subprocess.Popen(
        [sys.executable, "-c", program],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    try:
        _wait((tmp_path / "begun").exists)
        for number in signals:
            os.killpg(word.pid, number)
            time.sleep(0.1)
        _, told = word.communicate(timeout=HANG_S)
    finally:
        word.kill()
    assert (tmp_path / "ended").exists(), told
    assert told.rstrip().endswith("KeyboardInterrupt")


def _wait(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert true()


LEFT = """
import os, pathlib, time
from cmbench.lib.caller import Caller
here = pathlib.Path({here!r})
with Caller.take_from(os.environ).end_with_it():
    (here / "begun").write_text(str(os.getpid()))
    time.sleep(60)
"""


@pytest.mark.parametrize("call", ["cm", "cm_json"])
def test_a_line_ends_with_a_word_that_is_killed(call: str, tmp_path: Path) -> None:
    line = LEFT.format(here=str(tmp_path))
    customize = str(ROOT / "script/run-harness/customize.py")
    program = WORD.format(customize=customize, call=call, line=line)
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL) as word:
        begun = tmp_path / "begun"
        _wait(lambda: begun.exists() and begun.read_text() != "")
        word.kill()
    _wait(lambda: not _is_there(int(begun.read_text())))


def _is_there(pid: int) -> bool:
    """Whether a process computes; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_error_of_a_line_is_that_of_the_word(tmp_path: Path) -> None:
    line = """
import os
from cmbench.cli.dispatch import _failure
from cmbench.errors import Error
from cmbench.lib.caller import Caller
error = Error("bad-log", "no log", hint="look", context=["the cause"], doing="run.sh")
error.log = "/its/log.txt"
raise SystemExit(_failure(error.within("inner"), True, Caller.take_from(os.environ))["return"])
"""
    program = f"""
{WORD.format(customize=str(ROOT / "script/run-harness/customize.py"), call="cm", line=line)}
hands = word.FlowEngine(os.environ)
from nvidia_mlperf.make.flow import Flow
flow = Flow(None, None, dict(), "", hands)
status = hands.cm([{line!r}])
told = flow.failed(status)
print([told.code, str(told), told.hint, told.context, told.chain, told.doing])
print(hands.cm(["import sys; sys.exit(9)"]), flow.failed(9))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert "error [" not in done.stderr, done.stderr
    told, other = done.stdout.splitlines()
    context = "('the cause', 'its log: /its/log.txt')"
    assert told == f"['bad-log', 'no log', 'look', {context}, ('inner',), 'run.sh']"
    assert other == "9 cm ended with 9"


@dataclass
class Stops(Hands):
    """Stops at the second run, as it is told."""

    how: BaseException | int = 0

    def cm(self, line: Sequence[str]) -> int:
        self.lines.append(list(line))
        if len(self.lines) < 2:
            return 0
        if isinstance(self.how, BaseException):
            raise self.how
        return self.how


def measured(flow_: flow.Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first run have a result."""
    result: Mapping[str, Any] = {"scenario": "Offline", "validity": "VALID", "performance_run": 1}
    for name, value in (
        ("newest", lambda f, w, item, since: flow_.folder if len(flow_.runner.lines) < 2 else None),  # type: ignore[attr-defined]
        ("read_result", lambda found, item: result),
        ("check_model", lambda f, item, found: None),
    ):
        monkeypatch.setattr(harness, name, value)


STOPPED: dict[str, tuple[BaseException | int, str, str]] = {
    "Ctrl-C": (KeyboardInterrupt(), "interrupted", "stopped by the user; 1 of 4 runs"),
    "killed": (-9, "script-failed", "resnet50 Server default has no result: cm was killed (SIGK"),
    "failed": (1, "script-failed", "resnet50 Server default has no result: cm ended with 1; 1 of"),
}


@pytest.mark.parametrize("name", STOPPED)
def test_what_was_measured_is_kept_and_the_rest_has_a_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, kind, text = STOPPED[name]
    line = "--benchmarks bert,resnet50,ssd-resnet34 --scenarios=offline,server --fast"
    line = line.replace("bert,", "")
    hands = Stops(how=how)
    flow_ = a_flow(tmp_path, line, hands=hands)
    model = tmp_path / "m.onnx"
    model.write_bytes(b"a model")
    for item in work.plan(flow_).items:
        engines.put(flow_, item, model)
    measured(flow_, monkeypatch)
    with pytest.raises(Problem, match="are measured and kept in") as caught:
        harness.run_harness(flow_)
    assert caught.value.code == kind
    assert text in str(caught.value)
    assert caught.value.hint.endswith(
        "make run_harness RUN_ARGS='--benchmarks=resnet50,ssd-resnet34 "
        "--scenarios=offline,server --fast'"
    )
    assert len(hands.shown) == 1


def test_a_call_that_measured_nothing_leaves_no_logs(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, "--benchmarks=bert --scenarios=offline", hands=Stops(how=-9))
    model = tmp_path / "m.onnx"
    model.write_bytes(b"a model")
    (item,) = work.plan(flow_).items
    engines.put(flow_, item, model)
    with pytest.raises(Problem, match=r"0 of 1 runs are measured$"):
        harness.run_harness(flow_)
    assert list((flow_.build / "logs").iterdir()) == []


def test_an_engine_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    flow_ = a_flow(tmp_path, "--benchmarks=bert --scenarios=offline")
    model = tmp_path / "m.onnx"
    model.write_bytes(b"a model")
    (item,) = work.plan(flow_).items
    whole = engines.put(flow_, item, model)
    # Each state that a kill can leave behind: the names are changed one after the other.
    for lost in (whole, whole.with_name(f"{whole.name}.json")):
        engines.put(flow_, item, model)
        lost.unlink()
        with pytest.raises(Problem, match="engines do not fit"):
            engines.require(flow_, [item])
    whole.with_name(f".{whole.name}.1.new").write_bytes(b"a mod")
    engines.put(flow_, item, model)
    engines.require(flow_, [item])


def test_a_disk_that_is_full_keeps_no_half_of_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "engine", tmp_path / "put" / "engine"
    source.write_bytes(b"an engine")
    target.parent.mkdir()

    def full(source: Path, target: Path) -> None:
        Path(target).write_bytes(b"an eng")
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))

    def elsewhere(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", elsewhere)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left") as caught:
        files.put(source, target)
    assert list(target.parent.iterdir()) == []
    assert str(target.parent) in disk_error(caught.value, "").message
