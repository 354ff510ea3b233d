"""``--new``: what was measured before stays, for everybody, until something else is measured."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sweep_lab import RUN, points, start

from cmbench import api
from cmbench_sweep import driver
from cmbench_sweep.driver import OpenSweep
from cmbench_sweep.jobs import Jobs
from cmbench_sweep.store import PointStore
from cmbench_sweep.values import FAILED, MEASURED, OPEN, PointOutcome, Sweep, SweepPoint, SweepRun
from support import HANG_S, Finished, Home, wait_for

Cm = Callable[..., Finished]


def shown(cm: Cm, name: str = "sweep") -> list[dict[str, Any]]:
    return points(cm("show", "experiment", name, "--json").ok())


def outcomes(world: Path) -> set[str]:
    """What is known of each point, with the time of each run."""
    paths = (world / "CM home/cmbench/sweeps/points").glob("*/outcome.json")
    return {path.read_text(encoding="utf-8") for path in paths}


def test_results_stay_where_measuring_again_is_cut_off(
    home: Home, cm: Cm, world: Path, counted: Callable[[], list[str]]
) -> None:
    text = (world / "sweep.yaml").read_text(encoding="utf-8").replace("[1, 2, 4]", "[1, 2]")
    (world / "sweep.yaml").write_text(text, encoding="utf-8")
    cm(*RUN).ok()
    cm(*RUN, "--name=other").ok()
    before = outcomes(world)
    count = len(counted())
    running = start(home, "--new", "--name=other")
    wait_for(lambda: len(counted()) > count or running.poll() is not None)
    running.send_signal(signal.SIGKILL)
    said = running.communicate(timeout=HANG_S)[0]
    assert "some points are of other sweeps too, which get the new results: sweep" in said
    assert [each["status"] for each in shown(cm)] == ["measured"] * 4
    assert len(outcomes(world) & before) >= 2
    cm(*RUN, "--new").ok()
    assert not outcomes(world) & before


def test_a_point_that_fails_when_it_is_measured_again_keeps_its_figures(
    cm: Cm, world: Path
) -> None:
    cm(*RUN).ok()
    before = shown(cm)
    # What measures cannot write where it counts.
    (world / "count").unlink()
    (world / "count").mkdir()
    done = cm(*RUN, "--new")
    (world / "count").rmdir()
    assert done.status == 1
    assert "6 of 6 points have failed" in done.stderr
    assert "the results that they had before stay" in done.stderr
    assert shown(cm) == before
    cm(*RUN, "--new").ok()
    homes = (world / "CM home/cmbench/sweeps/points").iterdir()
    assert {name.name for each in homes for name in each.iterdir()} == {"outcome.json", "run-1"}


def measured(key: str, rate: float, status: str = MEASURED) -> PointOutcome:
    return PointOutcome(key, status, (SweepRun({"rate": rate}, 1.0),))


def test_an_outcome_is_replaced_once_and_as_a_whole(tmp_path: Path) -> None:
    store = PointStore(tmp_path)
    store.put(measured("a", 1))
    anew = store.replacing({"a": store.version("a")})
    assert anew.outcome("a").status == OPEN
    assert store.outcome("a").figure("rate") == 1
    # The first of two runs.
    store.root.chmod(0o775)
    (anew.run_folder("a") / "run-1").mkdir()
    assert anew.run_folder("a").stat().st_mode & 0o020, "others of a group go on here"
    anew.put(measured("a", 2, OPEN))
    assert anew.outcome("a").figure("rate") == 2
    assert store.outcome("a").figure("rate") == 1
    anew.put(measured("a", 3))
    assert [s.outcome("a").figure("rate") for s in (store, anew)] == [3, 3]
    assert (store.folder("a") / "run-1").is_dir()
    assert not (store.folder("a") / "replacement").exists()
    # A failure like the one before is another outcome all the same.
    store.put(PointOutcome("b", FAILED, reason="no"))
    anew = store.replacing({"b": store.version("b")})
    anew.put(PointOutcome("b", FAILED, reason="no"))
    assert anew.outcome("b").done


def test_a_call_that_is_repeated_takes_part_in_measuring_again(tmp_path: Path) -> None:
    found = [SweepPoint(n, key, {}, {}) for n, key in enumerate("abc")]
    store = PointStore(tmp_path)
    for point in found:
        store.put(measured(point.key, 1))
    workspace = cast(api.Workspace, SimpleNamespace(root=str(tmp_path)))
    opened = OpenSweep(workspace, Sweep("s", {}, {}), tuple(found), store)
    first = driver.again(opened, [MEASURED])
    assert [point.key for point in first.left()] == ["a", "b", "c"]
    jobs = Jobs(first.store)
    kept = jobs.keep(jobs.new_folder(), api.JobHandle("slurm", "1 x"), found[:2])
    first.store.put(measured("a", 2))
    # The job has one to do, and one is in nobody's hands.
    second = driver.again(opened, [MEASURED])
    assert [point.key for point in second.left()] == ["b", "c"]
    assert Jobs(second.store).left(kept) == {"b"}
    second.store.put(measured("b", 2))
    # It is through: from now on all of them are measured once more.
    third = driver.again(replace(opened, store=PointStore(tmp_path)), [MEASURED])
    assert [point.key for point in third.left()] == ["a", "b", "c"]
