"""``cm run experiment --on=ssh`` on three sshd of our own."""

from __future__ import annotations

import json
import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ssh_lab
import sweep_lab
from kills import Ordeal
from ssh_lab import NAMES, Ssh, missing
from sweep_lab import SWEEP, every, looking_often, points, runs_of, start

from common.python_path import child_env
from support import HANG_S, Home, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

RUN = (*sweep_lab.RUN, "--on=ssh")
HOSTS = "--hosts=one=big+fast,two=big,three"
DEAD_INDEX = "http://127.0.0.1:9/simple"


@pytest.fixture
def machines(world: Path) -> Iterator[Ssh]:
    with ssh_lab.machines() as ssh:
        (world / "count").symlink_to(ssh.count)
        yield ssh


@pytest.fixture
def there(home: Home, machines: Ssh, world: Path) -> Home:
    (world / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    # What an entry has read is the same here and there: else it would be made there anew.
    extra = {**machines.environment(), "SWEEP_COUNT": str(machines.count)}
    return replace(looking_often(home), extra_env=extra)


def left_behind(ssh: Ssh) -> list[Path]:
    return [path for name in NAMES for path in ssh.home(name).glob(".cache/cmbench-ssh/*")]


def test_a_sweep_outlives_who_started_it(
    there: Home, machines: Ssh, counted: Callable[[], list[str]], world: Path
) -> None:
    machines.stop("three")
    machines.start("three", PIP_INDEX_URL=DEAD_INDEX)
    running = start(there, "--on=ssh", HOSTS)
    wait_for(lambda: len(counted()) >= 8 or running.poll() is not None)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=HANG_S)
    again = start(there, "--on=ssh", HOSTS)
    said = again.communicate(timeout=HANG_S)[0]
    assert again.returncode == 0, said
    assert "found again" in said
    found = points(there.cm("show", "experiment", "sweep", "--json", cwd=world).ok())
    assert [point["status"] for point in found] == ["measured"] * 24
    assert runs_of(counted()) == every(12)
    assert all(os.path.isfile(run["record"]) for point in found for run in point["runs"])
    assert left_behind(machines) == []
    assert counted().count("prepared") == 3
    local = there.cm(*RUN[:3], "--new", "--labels=big,fast", "--json", cwd=world).ok()
    by_values = [{str(p["values"]): p["figures"] for p in each} for each in (found, points(local))]
    assert by_values[0] == by_values[1]


def small(world: Path, sleep: float = 0.0, sizes: int = 4) -> None:
    text = SWEEP.replace("to: 12", f"to: {sizes}").replace("sleep: 0.2", f"sleep: {sleep}")
    (world / "sweep.yaml").write_text(text, encoding="utf-8")


SKEWED = """
import time
_time, _ns = time.time, time.time_ns
time.time = lambda: _time() + 3600
time.time_ns = lambda: _ns() + 3600 * 10**9
"""


def test_machines_that_cannot_be_used_and_one_that_is_odd(
    there: Home, machines: Ssh, counted: Callable[[], list[str]], world: Path
) -> None:
    small(world)
    machines.new_key("one")
    tools = machines.folder / "bare"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    machines.stop("three")
    machines.start("three", PATH=str(tools))
    # A shell that talks, a clock an hour before ours, a budget that counts by that clock.
    (machines.home("two") / ".bashrc").write_text("echo hello; echo there >&2\n")
    odd = machines.folder / "odd"
    odd.mkdir()
    (odd / "sitecustomize.py").write_text(SKEWED, encoding="utf-8")
    machines.stop("two")
    machines.start("two", **child_env(odd, base={}), BASH_ENV="~/.bashrc")
    text = (world / "sweep.yaml").read_text(encoding="utf-8")
    (world / "sweep.yaml").write_text(text + "budget: {time: 30m}\n", encoding="utf-8")
    done = there.cm(*RUN, "--hosts=one,two,three,nowhere", cwd=world).ok()
    assert "one: its host key has changed" in done.stdout
    assert "three has no Python 3.10" in done.stdout
    assert "nowhere: the name is not known" in done.stdout
    assert runs_of(counted()) == every(4)
    assert left_behind(machines) == []
    alone = there.cm(*RUN, "--new", "--hosts=one", cwd=world)
    assert "[ssh-failed]" in alone.stderr
    assert "ssh-keygen -R one" in alone.stderr


FILLS = """
import os
if os.environ.get("FILLS"):
    with open(os.path.expanduser("~/filler"), "wb", 0) as stream:
        while True:
            stream.write(bytes(1 << 16))
"""


@pytest.mark.skipif(not ssh_lab.has_users(), reason="only root mounts a disk")
def test_a_home_that_is_full_and_one_that_fills_up(
    there: Home, machines: Ssh, counted: Callable[[], list[str]], world: Path
) -> None:
    small(world)
    script = world / "repo" / "script" / "measure-nothing" / "customize.py"
    script.write_text(script.read_text(encoding="utf-8") + FILLS, encoding="utf-8")
    for name, room in (("one", "1m"), ("two", "200m")):
        machines.stop(name)
        machines.start(name, room=room, FILLS="yes")
    done = there.cm(*RUN, "--hosts=one", cwd=world)
    assert "ssh one: " in done.stdout
    assert "choose another folder: --folder=DIR" in done.stdout
    assert "8 of 8 points are still to do" in done.stderr
    # Two has room for what is brought, and its first run takes all that is left.
    done = there.cm(*RUN, "--hosts=two,three", cwd=world).ok()
    assert "no space left in" in done.stdout
    assert runs_of(counted()) == every(4)


def test_labels_and_names_that_nobody_has(there: Home, world: Path) -> None:
    done = there.cm(*RUN, "--hosts=one=big,two=fats+big", cwd=world)
    assert done.status == 4
    assert 'did you mean "fats"' in done.stderr
    done = there.cm(*RUN, "--hosts=one=big,two=fast", cwd=world)
    assert "no host has all of big, fast" in done.stderr
    assert "is not a host" in there.cm(*RUN, "--hosts=-oProxyCommand", cwd=world).stderr
    assert "no host is named" in there.cm(*RUN, cwd=world).stderr
    assert "add --on=ssh" in there.cm(*RUN[:3], "--on=slurm", "--hosts=a", cwd=world).stderr


PIP = """
import subprocess, sys
def preprocess(i):
    words = ["pip", "download", "--no-deps", "--retries=0", "-d", ".", "tiny-one"]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    if done.returncode:
        from cmbench.errors import Error
        raise Error("pip-failed", "pip did not find tiny-one", context=[done.stderr[-300:]])
    i["env"]["CM_MODEL"] = "made"
    return {"return": 0}
"""


def wheel(folder: Path) -> None:
    """The smallest wheel that pip takes."""
    folder.mkdir()
    info = "tiny_one-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_one-1.0-py3-none-any.whl", "w") as made:
        made.writestr("tiny_one.py", "")
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-one\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        made.writestr(f"{info}/WHEEL", tag)
        made.writestr(f"{info}/RECORD", "")


def test_a_machine_without_a_package_index(there: Home, machines: Ssh, world: Path) -> None:
    small(world, sizes=1)
    script = world / "repo" / "script" / "get-model" / "customize.py"
    script.write_text(PIP, encoding="utf-8")
    machines.stop("three")
    machines.start("three", PIP_INDEX_URL=DEAD_INDEX)
    done = there.cm(*RUN, "--hosts=three", cwd=world)
    assert done.status == 1
    assert "pip did not find tiny-one" in done.stdout
    assert "--wheels=wheels" in done.stdout
    assert "2 of 2 points are still to do" in done.stderr
    wheel(world / "wheels")
    there.cm(*RUN, "--hosts=three", f"--wheels={world / 'wheels'}", cwd=world).ok()
    assert left_behind(machines) == []


def test_two_people_start_the_same_sweep(
    there: Home, machines: Ssh, counted: Callable[[], list[str]], world: Path
) -> None:
    small(world, 0.1)
    both = [start(there, "--on=ssh", "--hosts=one,two") for _ in range(2)]
    said = [process.communicate(timeout=HANG_S)[0] for process in both]
    # On a busy host one of them may end before the other's points are there: it says so.
    for process, text in zip(both, said, strict=True):
        assert process.returncode == 0 or "repeat the command to continue" in text, text
    there.cm(*RUN, "--hosts=one,two", cwd=world).ok()
    assert runs_of(counted()) == every(4)
    assert left_behind(machines) == []


def test_a_machine_that_is_gone_in_mid_run(
    there: Home, machines: Ssh, counted: Callable[[], list[str]], world: Path
) -> None:
    small(world, 1, sizes=2)
    running = start(there, "--on=ssh", "--hosts=one,two", "--patience=1")
    wait_for(lambda: len(runs_of(counted())) >= 2 or running.poll() is not None)
    machines.stop("two")
    said = running.communicate(timeout=HANG_S)[0]
    assert running.returncode == 1, said
    assert "two does not answer; what it measures is not lost" in said
    assert "still to do" in said
    # The machine was not off, only out of reach: what it has measured meanwhile counts.
    machines.start("two")
    assert "found again" in there.cm(*RUN, "--hosts=one,two", cwd=world).ok().stdout
    assert runs_of(counted()) == every(2)
    assert left_behind(machines) == []


def test_a_machine_that_was_started_anew_leaves_its_points_to_others(
    there: Home, machines: Ssh, counted: Callable[[], list[str]], world: Path
) -> None:
    small(world, 1, sizes=2)
    running = start(there, "--on=ssh", "--hosts=one,two")
    jobs = ".cache/cmbench-ssh/*/jobs/*/process"
    wait_for(lambda: len(runs_of(counted())) >= 2 or running.poll() is not None)
    told = json.loads(next(machines.home("two").glob(jobs)).read_text(encoding="utf-8"))
    os.killpg(told["pid"], signal.SIGKILL)
    said = running.communicate(timeout=HANG_S)[0]
    assert running.returncode == 0, said
    assert "two: the worker has died" in said
    found = points(there.cm("show", "experiment", "sweep", "--json", cwd=world).ok())
    assert [len(point["runs"]) for point in found] == [1] * 4
    assert set(runs_of(counted())) == set(every(2))
    assert left_behind(machines) == []


def test_a_sweep_is_ended_by_the_same_command_whatever_was_killed(
    there: Home, machines: Ssh, world: Path
) -> None:
    assert Ordeal(there, machines, world, sizes=1).go(times=2, seed=16) == []


def test_what_was_brought_may_stay(there: Home, machines: Ssh, world: Path) -> None:
    small(world, sizes=1)
    there.cm(*RUN, "--hosts=one", "--keep", cwd=world).ok()
    brought = {path: path.stat().st_ctime_ns for path in left_behind(machines)[0].glob("parcels/*")}
    assert len(brought) >= 3
    there.cm(*RUN, "--hosts=one", "--keep", "--new", cwd=world).ok()
    assert {path: path.stat().st_ctime_ns for path in brought} == brought


FOREIGN = """
import os, struct
def preprocess(i):
    with open(os.environ["SWEEP_COUNT"], "a") as stream:
        stream.write("prepared\\n")
    if os.environ.get("FOREIGN"):
        with open("program", "wb") as stream:
            stream.write(b"\\x7fELF\\2\\1" + bytes(10) + struct.pack("<HH", 3, 22) + bytes(44))
    i["env"]["CM_MODEL"] = os.path.abspath("program")
    return {"return": 0}
"""


def test_entries_travel_where_they_fit_and_are_made_anew_where_not(
    there: Home, machines: Ssh, counted: Callable[[], list[str]], world: Path
) -> None:
    small(world, sizes=1)
    script = world / "repo" / "script" / "get-model" / "customize.py"
    script.write_text(FOREIGN, encoding="utf-8")
    there.cm("run", "script", "--tags=get,model", cwd=world).ok()
    there.cm(*RUN, "--hosts=one,two", cwd=world).ok()
    assert counted().count("prepared") == 1
    # Programs of another CPU in the entry: it stays here, and is made there.
    script.write_text(FOREIGN + "\n", encoding="utf-8")
    foreign = replace(there, extra_env={**there.extra_env, "FOREIGN": "yes"})
    foreign.cm("run", "script", "--tags=get,model", cwd=world).ok()
    foreign.cm(*RUN, "--hosts=one,two", "--new", cwd=world).ok()
    assert counted().count("prepared") == 4
