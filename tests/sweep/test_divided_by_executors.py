"""A point is measured by one call at a time, whatever executors two of them have."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cmbench import api
from cmbench.errors import Error
from cmbench_sweep import driver
from cmbench_sweep.driver import OpenSweep, ProgressReporter, Say
from cmbench_sweep.hosts import SshSite, _MeasuringRound
from cmbench_sweep.jobs import Jobs
from cmbench_sweep.store import PointStore
from cmbench_sweep.values import MEASURED, PointOutcome, Sweep, SweepPoint, SweepRun
from cmbench_sweep.worker import explain_full_disk

POINTS = [SweepPoint(n, key, {"size": n}, {}) for n, key in enumerate("abc")]


@pytest.fixture
def opened(tmp_path: Path) -> OpenSweep:
    workspace = cast(api.Workspace, SimpleNamespace(root=str(tmp_path)))
    return OpenSweep(workspace, Sweep("s", {}, {}), tuple(POINTS), PointStore(tmp_path))


def put(opened: OpenSweep, key: str) -> None:
    opened.store.put(PointOutcome(key, MEASURED, (SweepRun({"rate": 1.0}, 1.0),)))


@dataclass
class Measures:
    """A place that measures at once."""

    executor: str
    prepares_here: bool = False

    def __post_init__(self) -> None:
        self.measured: list[str] = []

    def choose(self, opened: OpenSweep, points: Sequence[SweepPoint], say: Say) -> list[SweepPoint]:
        return list(points)

    def preview(self, opened: OpenSweep) -> list[tuple[str, str]]:
        return []

    def tidy(self, opened: OpenSweep) -> None:
        pass

    def measure(
        self, opened: OpenSweep, points: Sequence[SweepPoint], reporter: ProgressReporter, say: Say
    ) -> None:
        for point in points:
            put(opened, point.key)
            self.measured.append(point.key)


@pytest.mark.parametrize(
    ("theirs", "ours", "measured"),
    [
        ("ssh", "slurm", "c"),
        ("slurm", "ssh", "c"),
        ("ssh", "", "c"),
        # These have the locks of the store, by which workers divide the points.
        ("slurm", "ray", "abc"),
    ],
)
def test_points_in_the_hands_of_another_executor_are_waited_for(
    opened: OpenSweep, theirs: str, ours: str, measured: str
) -> None:
    jobs = Jobs(opened.store)
    kept = jobs.keep(jobs.new_folder(), api.JobHandle(theirs, "1 x/jobs/y"), POINTS[:2])
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if "waiting" in text:
            put(opened, "a")
            put(opened, "b")

    place = Measures(ours)
    driver.run_sweep(opened, place, say)
    assert "".join(place.measured) == measured
    assert ("waiting: another call measures 2 points elsewhere" in said) == (measured == "c")
    jobs.forget(kept)


def test_a_job_that_nobody_waits_for_keeps_no_other_executor_from_its_points(
    opened: OpenSweep,
) -> None:
    jobs = Jobs(opened.store)
    kept = jobs.keep(jobs.new_folder(), api.JobHandle("slurm", "1 x"), POINTS[:2])
    assert Jobs(opened.store).elsewhere("ssh", ["a", "c"]) == {"a"}
    # As when its process ends.
    os.close(jobs._attended.pop(kept.folder))
    assert Jobs(opened.store).elsewhere("ssh", ["a", "c"]) == set()
    with opened.store.claim("c"):
        assert Jobs(opened.store).elsewhere("ssh", ["a", "c"]) == {"c"}
        assert Jobs(opened.store).elsewhere("slurm", ["a", "c"]) == set()


def test_progress_counts_the_points_that_were_left(opened: OpenSweep) -> None:
    said: list[str] = []
    reporter = ProgressReporter(opened, POINTS[1:], said.append)
    for key in "abc":
        put(opened, key)
        reporter.line(f'{{"point": "{key}", "status": "measured"}}')
    assert [line.split("  size")[0].strip() for line in said] == ["1 of 2", "2 of 2"]


def test_a_job_that_ends_before_its_points_says_where_to_look(opened: OpenSweep) -> None:
    reporter = ProgressReporter(opened, POINTS, lambda line: None)
    reporter.note(api.JobState("ended", exit_code=0))
    assert reporter.advice == ""
    reporter.note(api.JobState("ended", exit_code=7))
    assert "modules and setup lines" in reporter.advice


def full(free: int) -> Callable[[str], object]:
    return lambda folder: SimpleNamespace(free=free)


@pytest.mark.parametrize(
    ("free", "context", "code"),
    [
        (0, [], "no-space"),
        (1 << 40, ["OSError: [Errno 28] No space left on device"], "no-space"),
        (1 << 40, ["something else"], "script-failed"),
    ],
)
def test_a_full_disk_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, context: list[str], code: str
) -> None:
    monkeypatch.setattr("cmbench_sweep.worker.shutil.disk_usage", full(free))
    problem = Error("script-failed", "run.sh of get-x exited with status 1", context=context)
    found = explain_full_disk(problem, [str(tmp_path)])
    assert found.code == code
    assert "run.sh of get-x exited with status 1" in found.message
    assert ("no space left on the disk at /" in found.message) == (code == "no-space")


@pytest.mark.parametrize(
    ("stay", "code", "hint"),
    [
        (False, "script-failed", "read it\nto look into its files there, add --keep"),
        (True, "script-failed", "read it\nrepeat this step alone: bash /far/base/jobs/1/run.sh"),
        (False, "no-space", "free space there, or choose another folder: --folder=DIR"),
    ],
)
def test_hints_name_no_file_that_goes(opened: OpenSweep, stay: bool, code: str, hint: str) -> None:
    round_ = object.__new__(_MeasuringRound)
    round_._site = SshSite((), stay=stay)
    jobs = Jobs(opened.store)
    kept = jobs.keep(jobs.new_folder(), api.JobHandle("ssh", "one /far/base/jobs/1"), POINTS)
    text = "read it\nrepeat this step alone: bash /far/base/jobs/1/run.sh"
    problem = Error(code, "no", hint=text)
    round_._explain(problem, kept)
    assert problem.hint == hint
