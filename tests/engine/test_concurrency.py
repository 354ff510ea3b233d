"""Many runs at once, runs that are killed, runs that are stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lab import Lab, start


def wait_for(path: Path, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def slow_install(lab: Lab, mark: Path, seconds: float = 1.0) -> None:
    """A script that says when it starts, takes its time, and counts how often it ran."""
    lab.script(
        "get-slow",
        cache=True,
        new_env_keys=["SLOW"],
        run=f"echo run >> {mark}; sleep {seconds}; echo SLOW=done > tmp-run-env.out",
    )


def test_two_identical_runs_make_one_entry(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow_install(lab, mark)
    runs = [start(lab, "get,slow") for _ in range(4)]
    outputs = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, outputs
    assert mark.read_text().split() == ["run"]
    assert len(lab.store.entries()) == 1
    assert sum("waiting for process" in out for out, _ in outputs) == 3
    assert os.listdir(lab.home / "cmbench/v1/locks") == []


def test_who_asked_for_quiet_learns_whom_the_run_waits_for(lab: Lab, tmp_path: Path) -> None:
    slow_install(lab, tmp_path / "mark")
    runs = [start(lab, "get,slow", quiet=True) for _ in range(2)]
    outputs = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert sum("waiting for process" in out for out, _ in outputs) == 1
    told = start(lab, "get,slow", quiet=True, out="json")
    assert "waiting" not in told.communicate(timeout=60)[0]


def test_many_runs_over_overlapping_entries(lab: Lab, tmp_path: Path) -> None:
    for n in range(6):
        lab.script(f"get-n{n}", cache=True, run=f"echo run >> {tmp_path}/n{n}; sleep 0.05")
    for n in range(4):
        deps = [{"tags": f"get,n{(n + k) % 6}"} for k in range(3)]
        lab.script(f"p-{n}", tags=f"p,top{n}", deps=deps)
    runs = [start(lab, f"p,top{n % 4}") for n in range(12)]
    outputs = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0] * 12, outputs
    assert [(tmp_path / f"n{n}").read_text().split() for n in range(6)] == [["run"]] * 6
    assert len(lab.store.entries()) == 6
    records = list((lab.home / "cmbench/runs").glob("*/record.json"))
    assert len(records) == 12
    assert all(json.loads(r.read_text())["status"] == "done" for r in records)


def test_kill_in_the_middle_leaves_nothing_visible(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow_install(lab, mark, seconds=30)
    run = start(lab, "get,slow")
    wait_for(mark)
    assert lab.call("show", "cache").answer["list"] == []
    run.kill()
    run.communicate(timeout=20)
    assert lab.call("show", "cache").answer["list"] == []
    left = list((lab.home / "cmbench/v1/store").iterdir())
    assert len(left) == 1
    slow_install(lab, mark, seconds=0)
    again = lab.run("get,slow")
    assert again.env["SLOW"] == "done"
    assert not left[0].exists()
    assert len(list((lab.home / "cmbench/v1/store").iterdir())) == 1
    assert subprocess.run(["pgrep", "-f", f"sleep {30}$"], capture_output=True).returncode == 1


def test_sigterm_ends_the_whole_tree_within_seconds(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lab.script(
        "get-stubborn",
        cache=True,
        run=f"trap '' TERM\n(trap '' TERM; sleep 61) &\necho x > {mark}\nsleep 61\nwait",
    )
    run = start(lab, "get,stubborn")
    wait_for(mark)
    began = time.monotonic()
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert run.returncode == 130
    assert "interrupted" in err
    assert "what was finished is kept" in err
    assert subprocess.run(["pgrep", "-f", "sleep 61$"], capture_output=True).returncode == 1
    assert list((lab.home / "cmbench/v1/store").iterdir()) == []


COMMAND = "os.system(f'echo x > {mark}; sleep 63')"
STUBBORN = "subprocess.run(['sh', '-c', f'trap \"\" TERM; sleep 63 & echo x > {mark}; wait'])"
APART = "os.system(f'setsid sleep 63 & echo x > {mark}; wait')"


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (COMMAND, signal.SIGINT),
        (COMMAND, signal.SIGTERM),
        (STUBBORN, signal.SIGINT),
        (APART, signal.SIGTERM),
    ],
)
def test_an_interrupted_hook_takes_its_programs_along(
    lab: Lab, tmp_path: Path, code: str, number: signal.Signals
) -> None:
    mark = tmp_path / "mark"
    lab.script(
        "get-hooked",
        cache=True,
        customize=f"""
import os, subprocess

def preprocess(i):
    mark = {str(mark)!r}
    {code}
    return {{'return': 0}}
""",
    )
    run = start(lab, "get,hooked")
    wait_for(mark)
    began = time.monotonic()
    run.send_signal(number)
    out, err = run.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert run.returncode == 130, out + err
    assert "interrupted" in err
    assert subprocess.run(["pgrep", "-f", "sleep 63$"], capture_output=True).returncode == 1
    assert lab.store.entries() == []


def test_exclusive_work_never_overlaps(lab: Lab, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for n in range(3):
        lab.script(
            f"p-{n}",
            tags=f"p,m{n}",
            exclusive=["machine <<<WHICH>>>"],
            env={"WHICH": "a"},
            run=f"echo in >> {log}; sleep 0.2; echo out >> {log}",
        )
    runs = [start(lab, f"p,m{n}") for n in range(3)]
    for run in runs:
        assert run.wait(timeout=60) == 0
    assert log.read_text().split() == ["in", "out"] * 3


def test_a_sweep_spares_the_living(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow_install(lab, mark, seconds=1.5)
    run = start(lab, "get,slow")
    wait_for(mark)
    lab.script("get-other", cache=True, run="true")
    assert lab.run("get,other").answer["return"] == 0
    assert run.wait(timeout=60) == 0
    assert lab.run("get,slow").answer["cached"]
