"""Many runs at once, runs that are killed, runs that are stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from lab import Lab, start
from support import HANG_S, LONG_S, wait_for


def slow_install(lab: Lab, mark: Path, pause: str) -> None:
    """A script that says when it starts, makes a pause, and counts how often it ran."""
    lab.script(
        "get-slow",
        cache=True,
        new_env_keys=["SLOW"],
        run=f"echo run >> {mark}; {pause}; echo SLOW=done > tmp-run-env.out",
    )


def until(go: Path) -> str:
    """Shell words that wait for a file."""
    return f"until [ -e {go} ]; do sleep 0.01; done"


def waiting(lab: Lab) -> int:
    """How many runs say in their logs that they wait for another one."""
    logs = (lab.home / "cmbench/runs").glob("*/log.txt")
    return sum("waiting for " in log.read_text() for log in logs)


def test_two_identical_runs_make_one_entry(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow_install(lab, mark, until(tmp_path / "go"))
    runs = [start(lab, "get,slow") for _ in range(4)]
    wait_for(lambda: waiting(lab) == 3)
    (tmp_path / "go").touch()
    outputs = [run.communicate(timeout=HANG_S) for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, outputs
    assert mark.read_text().split() == ["run"]
    assert len(lab.store.entries()) == 1
    assert sum("waiting for " in out for out, _ in outputs) == 3
    assert os.listdir(lab.home / "cmbench/v1/locks") == []


def test_who_asked_for_quiet_learns_whom_the_run_waits_for(lab: Lab, tmp_path: Path) -> None:
    slow_install(lab, tmp_path / "mark", until(tmp_path / "go"))
    runs = [start(lab, "get,slow", quiet=True) for _ in range(2)]
    wait_for(lambda: waiting(lab) == 1)
    (tmp_path / "go").touch()
    outputs = [run.communicate(timeout=HANG_S) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert sum("waiting for " in out for out, _ in outputs) == 1
    told = start(lab, "get,slow", quiet=True, out="json")
    assert "waiting" not in told.communicate(timeout=HANG_S)[0]


def test_many_runs_over_overlapping_entries(lab: Lab, tmp_path: Path) -> None:
    for n in range(6):
        lab.script(f"get-n{n}", cache=True, run=f"echo run >> {tmp_path}/n{n}; sleep 0.05")
    for n in range(4):
        deps = [{"tags": f"get,n{(n + k) % 6}"} for k in range(3)]
        lab.script(f"p-{n}", tags=f"p,top{n}", deps=deps)
    runs = [start(lab, f"p,top{n % 4}") for n in range(12)]
    outputs = [run.communicate(timeout=HANG_S) for run in runs]
    assert [run.returncode for run in runs] == [0] * 12, outputs
    assert [(tmp_path / f"n{n}").read_text().split() for n in range(6)] == [["run"]] * 6
    assert len(lab.store.entries()) == 6
    records = list((lab.home / "cmbench/runs").glob("*/record.json"))
    assert len(records) == 12
    assert all(json.loads(r.read_text())["status"] == "done" for r in records)


def test_kill_in_the_middle_leaves_nothing_visible(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow_install(lab, mark, f"sleep {LONG_S}")
    run = start(lab, "get,slow")
    wait_for(mark.exists)
    assert lab.call("show", "cache").answer["list"] == []
    run.kill()
    run.communicate(timeout=HANG_S)
    assert lab.call("show", "cache").answer["list"] == []
    left = list((lab.home / "cmbench/v1/store").iterdir())
    assert len(left) == 1
    slow_install(lab, mark, "true")
    again = lab.run("get,slow")
    assert again.env["SLOW"] == "done"
    assert not left[0].exists()
    assert len(list((lab.home / "cmbench/v1/store").iterdir())) == 1
    assert subprocess.run(["pgrep", "-f", f"sleep {LONG_S}$"], capture_output=True).returncode == 1


def test_sigterm_ends_the_whole_tree(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lab.script(
        "get-stubborn",
        cache=True,
        run=f"trap '' TERM\n(trap '' TERM; sleep {LONG_S}) &\n"
        f"echo x > {mark}\nsleep {LONG_S}\nwait",
    )
    run = start(lab, "get,stubborn")
    wait_for(mark.exists)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=HANG_S)
    assert run.returncode == 130
    assert "interrupted" in err
    assert "what was finished is kept" in err
    assert subprocess.run(["pgrep", "-f", f"sleep {LONG_S}$"], capture_output=True).returncode == 1
    assert list((lab.home / "cmbench/v1/store").iterdir()) == []


COMMAND = "os.system(f'echo x > {mark}; sleep {long}')"
STUBBORN = "subprocess.run(['sh', '-c', f'trap \"\" TERM; sleep {long} & echo x > {mark}; wait'])"
APART = "os.system(f'setsid sleep {long} & echo x > {mark}; wait')"


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
from support import HANG_S, LONG_S, wait_for

def preprocess(i):
    mark, long = {str(mark)!r}, "{LONG_S}"
    {code}
    return {{'return': 0}}
""",
    )
    run = start(lab, "get,hooked")
    wait_for(mark.exists)
    run.send_signal(number)
    out, err = run.communicate(timeout=HANG_S)
    assert run.returncode == 130, out + err
    assert "interrupted" in err
    assert re.search(r"^stopped +[\d.]+ s  get-hooked", out, re.MULTILINE), "it has not failed"
    assert subprocess.run(["pgrep", "-f", f"sleep {LONG_S}$"], capture_output=True).returncode == 1
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
        assert run.wait(timeout=HANG_S) == 0
    assert log.read_text().split() == ["in", "out"] * 3


def test_a_sweep_spares_the_living(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow_install(lab, mark, until(tmp_path / "go"))
    run = start(lab, "get,slow")
    wait_for(mark.exists)
    lab.script("get-other", cache=True, run="true")
    assert lab.run("get,other").answer["return"] == 0
    (tmp_path / "go").touch()
    assert run.wait(timeout=HANG_S) == 0
    assert lab.run("get,slow").answer["cached"]
