"""Where a run finds itself: hung up, suspended, without threads, in another encoding or folder."""

from __future__ import annotations

import errno
import os
import pty
import selectors
import shlex
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cmbench.record import new_run_id
from cmbench.run import process, workers
from cmbench.run.cm_objects import StepFolders
from cmbench.run.native_files import write_repeat_file
from lab import Lab, command
from support import HANG_S, wait_for


def test_ids_of_runs_within_a_second_sort_by_time() -> None:
    found = []
    for _ in range(50):
        found.append(new_run_id())
        time.sleep(0.001)
    assert found == sorted(found)


def test_what_a_program_printed_before_it_ended_is_read_however_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(self: Any, timeout: float | None = None) -> list[Any]:
        # As after Ctrl-Z and fg: the time to wait for output is over before it is looked for.
        time.sleep(0.3)
        return []

    monkeypatch.setattr(selectors.DefaultSelector, "select", late)
    told: list[str] = []
    status = process.run_process(["bash", "-c", "echo one; echo two; exit 3"], "/", {}, told.append)
    assert (status, told) == (3, ["one", "two"])


def test_what_a_helper_of_an_ended_program_still_prints_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "LOOK_SECONDS", HANG_S)
    told: list[str] = []
    command = ["bash", "-c", "exec > >(sleep 0.3; cat); echo one"]
    assert process.run_process(command, "/", dict(os.environ), told.append) == 0
    assert told == ["one"]


def test_a_run_under_nohup_goes_on_without_its_terminal(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lab.script("get-x", run=f"touch {shlex.quote(str(mark))}; sleep 1; echo the end\n")
    words = ["bash", "-c", f"trap '' HUP; exec {shlex.join(command(lab, 'get,x', v=True))}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as run:
        wait_for(mark.exists)
        run.send_signal(signal.SIGHUP)
        out, _ = run.communicate(timeout=HANG_S)
    assert run.returncode == 0
    assert "the end" in out


def test_a_terminal_that_is_closed_leaves_a_record(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lab.script("get-x", run=f"touch {shlex.quote(str(mark))}; sleep 60\n")
    words = command(lab, "get,x")
    pid, terminal = pty.fork()
    if pid == 0:
        # Who runs the tests with nohup has it ignored, and a run respects that.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(words[0], words)
    wait_for(mark.exists)
    os.close(terminal)
    os.waitpid(pid, 0)
    assert len([*lab.home.glob("cmbench/runs/*/record.json")]) == 1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_file_that_another_step_left_gives_nothing_back(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        lab.script(f"get-{name}", run="true\n", new_env_keys=["CM_BACK"])
    lab.script("app", deps=[{"tags": "get,one"}, {"tags": "get,two"}], new_env_keys=["CM_BACK"])
    (tmp_path / "tmp-run-env.out").write_text("CM_BACK=of a run that was killed\n")
    (tmp_path / "tmp-run-state.json").write_text("[]")
    assert "CM_BACK" not in lab.run("app", jobs=jobs).env


def test_no_thread_for_a_worker_is_an_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def __init__(self, **_: Any) -> None: ...

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    for name in ("a", "b"):
        lab.script(f"get-{name}", cache=True, run="true\n")
    lab.script("app", deps=[{"tags": "get,a"}, {"tags": "get,b"}])
    monkeypatch.setattr(workers.threading, "Thread", Refused)
    answer = lab.call("run", tags="app", jobs="2").answer
    assert (answer["return"], answer["code"]) == (1, "cannot-start")
    assert "ulimit -u" in answer["hint"]


def run(lab: Lab, tags: str, **more: Any) -> subprocess.CompletedProcess[str]:
    flags = more.pop("flags", {})
    extra = more.pop("env", {})
    return subprocess.run(
        command(lab, tags, **flags), env={**os.environ, **extra}, check=False, text=True, **more
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
def test_the_exit_status_tells_what_cannot_be_printed(lab: Lab) -> None:
    lab.script("get-x", run="exit 3\n")
    with open("/dev/full", "w") as full:
        assert run(lab, "get,x", stdout=subprocess.DEVNULL, stderr=full).returncode == 2
        assert run(lab, "no,such", stdout=subprocess.DEVNULL, stderr=full).returncode == 16


def test_a_failure_is_told_where_paths_and_values_are_no_text(lab: Lab, tmp_path: Path) -> None:
    lab.script("get-x", run="exit 3\n")
    folder = tmp_path / "d\udcff"
    folder.mkdir()
    env = {"CM_X": "a\udcff", "A-B": "1"}
    done = run(lab, "get,x", cwd=folder, env=env, capture_output=True)
    assert done.returncode == 2
    assert "exited with status 3" in done.stderr


def test_the_file_that_repeats_a_step_sets_what_a_shell_can_set(tmp_path: Path) -> None:
    frame: Any = SimpleNamespace(script=SimpleNamespace(alias="get-x"))
    place = StepFolders(str(tmp_path), str(tmp_path))
    values = {"A-B": "1", "x y": "2", "CM_X": "it's\udcff"}
    path = write_repeat_file(frame, place, ["bash", "-c", 'printf %s "$CM_X"'], values)
    done = subprocess.run(["bash", path], capture_output=True, check=True)
    assert done.stdout == b"it's\xff"
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "you may enter"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EAGAIN, "ulimit -u"),
        (errno.ENOENT, "install bash"),
    ],
)
def test_why_a_program_cannot_be_started(number: int, says: str) -> None:
    assert says in process._remedy(OSError(number, os.strerror(number)), "bash", {})


def test_an_entry_of_a_script_with_another_alphabet_travels(lab: Lab, tmp_path: Path) -> None:
    lab.script("get-größe", tags="get,size", cache=True, run="echo 1 > file\n")
    lab.run("get,size")
    archive = str(tmp_path / "a.tar")
    assert lab.call("export", "cache", tags="get,size", output=archive).answer["return"] == 0
    lab.call("rm", "cache", all=True, f=True)
    assert lab.call("import", "cache", input=archive).answer["return"] == 0
    assert lab.run("get,size").status == {"get-größe": "cached"}
