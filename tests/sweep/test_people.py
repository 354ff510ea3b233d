"""Several people of one lab, with a home each and one folder of measured points on a shared disk.

As root they are users of their own in one group; else two homes of the one user.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_lab import RUN, SWEEP, as_user, every, points, runs_of, start

from shared_files import seed_index
from support import HANG_S, ROOT, Home

GROUP = 61_000
Person = tuple[Home, list[str]]


@pytest.fixture
def people(world: Path, monkeypatch: pytest.MonkeyPatch) -> list[Person]:
    shared = world / "shared" / "sweeps"
    shared.mkdir(parents=True)
    (world / "count").touch()
    (world / "near").mkdir()
    monkeypatch.setenv("CMBENCH_SWEEPS", str(shared))
    # One machine: whoever measures on it waits for the others.
    monkeypatch.setenv("TMPDIR", str(world / "near"))
    homes = [Home(world / name) for name in ("ada", "bob")]
    for home in homes:
        home.path.mkdir()
        home.register(ROOT, world / "repo")
        seed_index(home.cm_repos)
        home.environment()
        (home.path / "sweep.yaml").write_text(SWEEP.replace("0.2", "0.05"), encoding="utf-8")
    if os.getuid():
        return [(home, []) for home in homes]
    for above in (world, *world.parents[:-2]):
        above.chmod(above.stat().st_mode | 0o011)
    os.chown(shared, 0, GROUP)
    shared.chmod(0o2775)
    for path in (world / "near", world / "count"):
        path.chmod(0o777)
    for number, home in enumerate(homes, GROUP + 1):
        for path in (home.path, *home.path.rglob("*")):
            os.chown(path, number, number)
    return [(home, as_user(number, GROUP)) for number, home in enumerate(homes, GROUP + 1)]


def test_two_people_divide_a_sweep(
    people: list[Person], counted: Callable[[], list[str]], world: Path
) -> None:
    running = [start(home, "--labels=big,fast", through=how) for home, how in people]
    said = [process.communicate(timeout=HANG_S)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    assert runs_of(counted()) == every(12)
    home, how = people[1]
    told = start(home, "--labels=big,fast", "--json", through=how).communicate(timeout=HANG_S)[0]
    assert told.count('"status": "measured"') == 24, told
    assert len(counted()) == 26, "each has made the model for themselves, nothing more"


def test_what_another_one_has_left_half_done_is_measured_again(
    people: list[Person], counted: Callable[[], list[str]], world: Path
) -> None:
    (ada, as_ada), (bob, as_bob) = people
    assert start(ada, "--labels=big,fast", through=as_ada).wait(HANG_S) == 0
    for path in (world / "shared" / "sweeps" / "points").glob("*/outcome.json"):
        path.write_text(path.read_text(encoding="utf-8")[:20], encoding="utf-8")
    again = start(bob, "--labels=big,fast", through=as_bob)
    assert again.communicate(timeout=HANG_S)[0]
    assert again.returncode == 0
    assert runs_of(counted()) == sorted(2 * every(12))


LEAVES = """
import json, os
def preprocess(i):
    if os.environ.get("LEAVES"):
        json.dump({"rate": 1}, open("cm-result.json", "w"))
    return {"return": 0}
"""


def test_figures_of_an_earlier_run_are_none_of_the_next(home: Home, world: Path) -> None:
    (world / "repo/script/measure-nothing/customize.py").write_text(LEAVES, encoding="utf-8")
    text = SWEEP.replace("record: {rate: env.CM_RATE}", "record: [rate]").replace("to: 12", "to: 1")
    (world / "sweep.yaml").write_text(text, encoding="utf-8")
    first = replace(home, extra_env={"LEAVES": "yes"}).cm(*RUN, "--json", cwd=world).ok()
    assert [point["figures"] for point in points(first)] == [{"rate": 1.0}] * 2
    again = points(home.cm(*RUN, "--new", "--json", cwd=world))
    assert [point["code"] for point in again] == ["no-figure"] * 2


def test_who_waits_for_the_machine_says_so(home: Home, world: Path) -> None:
    with open(world / "cmbench-measuring.lock", "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        running = start(home)
        assert running.stdout is not None
        said = ""
        while "waiting: something else is measured on" not in said:
            assert running.poll() is None, said
            said += running.stdout.readline()
    assert running.communicate(timeout=HANG_S)[0].count("waiting:") == 0
    assert running.returncode == 0
