"""Run a sweep from its file to its outcomes: prepare, pass points to an executor, collect."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from cmbench import api
from cmbench.errors import Error
from cmbench.lib.engine_code import import_paths
from cmbench.lib.text_files import counted
from cmbench_sweep.jobs import Jobs
from cmbench_sweep.points import points_of
from cmbench_sweep.preparing import Preparation, preparation, prepare
from cmbench_sweep.store import PointStore, write
from cmbench_sweep.values import FAILED, MEASURED, PointOutcome, Sweep, SweepPoint, median
from cmbench_sweep.worker import PointBatch, enough
from common.python_path import child_env

Say = Callable[[str], None]
_LOOK_S = 0.5


class ExecutionSite(Protocol):
    """Where points are measured; ``prepares_here`` says whether what they share is made here."""

    @property
    def executor(self) -> str:
        """The name of what runs jobs there; empty for none."""

    @property
    def prepares_here(self) -> bool:
        """Whether what points share is made on this machine, for all of them."""

    def choose(self, opened: OpenSweep, points: Sequence[SweepPoint], say: Say) -> list[SweepPoint]:
        """Return the points that can be measured there, before anything is made for them."""

    def preview(self, opened: OpenSweep) -> list[tuple[str, str]]:
        """Return the commands that would submit jobs, with their scripts; empty for none."""

    def tidy(self, opened: OpenSweep) -> None:
        """Remove what calls have left there that were killed, of points that are all known."""

    def measure(
        self, opened: OpenSweep, points: Sequence[SweepPoint], reporter: ProgressReporter, say: Say
    ) -> None:
        """Measure ``points``; those that are not done in the end are still to do."""


@dataclass(frozen=True, slots=True)
class OpenSweep:
    """A sweep with its points and their stored outcomes; ``environment`` is for its runs.

    ``advice`` says how points that are left can be measured, where repeating is not enough.
    """

    workspace: api.Workspace
    sweep: Sweep
    points: tuple[SweepPoint, ...]
    store: PointStore
    environment: Mapping[str, str] = field(default_factory=dict)
    advice: str = ""

    def outcomes(self) -> dict[str, PointOutcome]:
        """Return the current outcomes of the points, by key."""
        return self.store.outcomes(self.points)

    def left(self) -> list[SweepPoint]:
        """Return the points that are still to do."""
        outcomes = self.outcomes()
        return [point for point in self.points if not outcomes[point.key].done]


@dataclass(frozen=True, slots=True)
class SweepForecast:
    """The forecast of a sweep: counts of points, steps to prepare, and the time in seconds.

    ``point_seconds`` is the median of what measured points have taken; ``None`` before the first.
    """

    opened: OpenSweep
    known: Mapping[str, PointOutcome]
    preparation: Preparation
    point_seconds: float | None

    def count(self, status: str) -> int:
        """Return how many points are so."""
        return sum(outcome.status == status for outcome in self.known.values())

    def lacking(self) -> str:
        """Return the notice about points that were measured for a file that required less."""
        return incomplete_notice(incomplete(self.opened, self.known))


def open_sweep(
    workspace: api.Workspace, sweep: Sweep, environment: Mapping[str, str] | None = None
) -> OpenSweep:
    """Return the points of a sweep; raise ``bad-sweep`` and what a request raises."""
    points = tuple(points_of(workspace, sweep))
    return OpenSweep(workspace, sweep, points, PointStore(workspace.root), environment or {})


def foresee(opened: OpenSweep) -> SweepForecast:
    """Return what a sweep would do; runs nothing, writes nothing."""
    outcomes = opened.outcomes()
    left = [point for point in opened.points if not outcomes[point.key].done]
    times = [sum(r.seconds for r in o.runs) for o in outcomes.values() if o.status == MEASURED]
    needed = preparation(opened.workspace, opened.sweep, left or opened.points[:1])
    return SweepForecast(opened, outcomes, needed, median(times) if times else None)


@dataclass(frozen=True, slots=True)
class LocalSite:
    """Measures on this machine, which has ``labels``."""

    labels: frozenset[str] = frozenset()
    executor: ClassVar[str] = ""
    prepares_here: ClassVar[bool] = True

    def choose(self, opened: OpenSweep, points: Sequence[SweepPoint], say: Say) -> list[SweepPoint]:
        """Return the points that this machine has all labels for."""
        chosen = [point for point in points if self.labels.issuperset(point.labels)]
        if len(chosen) < len(points):
            lacking = sorted({n for point in points for n in point.labels} - self.labels)
            left = counted(len(points) - len(chosen), "point")
            say(f"left out: {left}, for machines with {', '.join(lacking)}; if this is one:")
            say(f"  --labels={','.join(sorted(self.labels | set(lacking)))}")
        return chosen

    def preview(self, opened: OpenSweep) -> list[tuple[str, str]]:
        """Nothing is submitted."""
        return []

    def tidy(self, opened: OpenSweep) -> None:
        """Nothing is left."""

    def measure(
        self, opened: OpenSweep, points: Sequence[SweepPoint], reporter: ProgressReporter, say: Say
    ) -> None:
        """Measure ``points``; raises ``sweep-stopped`` and what a worker raises."""
        folder = Jobs(opened.store).new_folder()
        job = worker_job(batch_of(opened, points), folder)
        try:
            state = api.run_job(api.LocalExecutor(), job, reporter.line)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        reporter.check(state)


def run_sweep(
    opened: OpenSweep,
    site: ExecutionSite,
    say: Say = lambda text: None,
    on_event: api.OnEvent | None = None,
) -> OpenSweep:
    """Measure every point that is not done, or as many as a search may try; the sweep of those.

    Raises what preparing raises, and what ``site`` does.
    """
    lacking = incomplete(opened, opened.outcomes())
    if lacking:
        say(incomplete_notice(lacking))
    if opened.sweep.search.method == "optuna":
        return _searched(opened, site, say, on_event)
    keep_name(opened)
    site.tidy(opened)
    left = site.choose(opened, opened.left(), say)
    if left:
        _prepare(opened, site, say, on_event)
        say(f"measuring {counted(len(left), 'point')} of {len(opened.points)}")
        return replace(opened, advice=_measure(opened, site, left, say))
    return opened


def _measure(opened: OpenSweep, site: ExecutionSite, points: Sequence[SweepPoint], say: Say) -> str:
    """Measure ``points``; return how those that are left can be measured, empty for no advice.

    Those that calls with another executor are at are waited for.
    """
    reporter = ProgressReporter(opened, points, say)
    left = list(points)
    while left:
        elsewhere = _elsewhere(opened, site, left)
        mine = [point for point in left if point.key not in elsewhere]
        if mine:
            site.measure(opened, mine, reporter, say)
        left = [p for p in left if p.key in _elsewhere(opened, site, left)]
        if not left or opened.sweep.budget.seconds:
            break
        say(f"waiting: another call measures {counted(len(left), 'point')} elsewhere")
        while _elsewhere(opened, site, left):
            time.sleep(_LOOK_S)
        left = [point for point in left if not opened.store.outcome(point.key).done]
    return reporter.advice


def _elsewhere(opened: OpenSweep, site: ExecutionSite, points: Sequence[SweepPoint]) -> set[str]:
    """Return the keys of ``points`` still to do that calls with another executor are at."""
    keys = [point.key for point in points if not opened.store.outcome(point.key).done]
    return Jobs(opened.store).elsewhere(site.executor, keys)


def _prepare(
    opened: OpenSweep, site: ExecutionSite, say: Say, on_event: api.OnEvent | None
) -> None:
    if not site.prepares_here:
        return
    seen = foresee(opened)
    if seen.preparation.wanted_by:
        say(f"preparing {counted(len(seen.preparation.steps), 'entry', 'entries')} once")
        prepare(opened.workspace, seen.preparation.wanted_by, on_event)


def _searched(
    opened: OpenSweep, site: ExecutionSite, say: Say, on_event: api.OnEvent | None
) -> OpenSweep:
    """Measure the points that a search proposes, one after the other."""
    from cmbench_sweep.searching import search

    points = site.choose(opened, opened.points, say)
    _prepare(opened, site, say, on_event)
    reporter = ProgressReporter(opened, points, say, opened.sweep.search.points)

    def measure(point: SweepPoint) -> PointOutcome:
        site.measure(opened, [point], reporter, say)
        return opened.store.outcome(point.key)

    tried = search(opened.sweep, points, opened.outcomes(), measure)
    searched = replace(opened, points=tuple(tried))
    keep_name(searched)
    return searched


def keep_name(opened: OpenSweep) -> None:
    """Let ``cm show experiment NAME`` find the points."""
    data = {"sweep": asdict(opened.sweep), "points": [asdict(point) for point in opened.points]}
    opened.store.name(opened.sweep.name, data)


def again(opened: OpenSweep, statuses: Sequence[str], lacking: bool = False) -> OpenSweep:
    """Return the sweep in which points that have ended so, or lack something, are still to do.

    Their outcomes stay for other callers until they are measured. Points that a job of an
    earlier call already measures again are measured by that one.
    """
    outcomes = opened.outcomes()
    chosen = [point for point in opened.points if outcomes[point.key].status in statuses]
    chosen += [p for p in (incomplete(opened, outcomes) if lacking else ()) if p not in chosen]
    store = opened.store
    under_way = Jobs(store).replaced()
    versions = {}
    for point in chosen:
        key = point.key
        if key not in under_way:
            store.begin_again(key)
        versions[key] = under_way.get(key) or store.version(key)
    return replace(opened, store=store.replacing(versions))


def shared_with(opened: OpenSweep) -> list[str]:
    """Return the other sweeps that have some of the points that are measured again."""
    again_keys = opened.store.replaced.keys()
    names = [name for name in opened.store.names() if name != opened.sweep.name]
    return [name for name in names if again_keys & opened.store.keys_of(name)] if names else []


def incomplete(opened: OpenSweep, outcomes: Mapping[str, PointOutcome]) -> list[SweepPoint]:
    """Return measured points with fewer figures or runs than the file now requires."""
    sweep = opened.sweep
    done = [point for point in opened.points if outcomes[point.key].status == MEASURED]
    return [
        point
        for point in done
        if not {*sweep.record}.issubset(outcomes[point.key].names)
        or not enough(outcomes[point.key], sweep.repeat, judged(sweep))
    ]


def incomplete_notice(points: Sequence[SweepPoint]) -> str:
    """Return the notice about incomplete points; empty if there are none."""
    which = f"{counted(len(points), 'measured point')} with fewer figures or runs than are asked"
    return f"{which} for now: --complete measures again" if points else ""


def judged(sweep: Sweep) -> str:
    """Return the figure whose spread ends the repeats; empty for the first that a run gives."""
    return next(iter(sweep.objectives), next(iter(sweep.record), ""))


def batch_of(opened: OpenSweep, points: Sequence[SweepPoint], bound: bool = True) -> PointBatch:
    """Return what a worker needs to know to measure ``points``."""
    sweep, workspace = opened.sweep, opened.workspace
    seconds = sweep.budget.seconds
    return PointBatch(
        home=os.path.dirname(workspace.root),
        repositories=tuple(repository.path for repository in workspace.repositories),
        points=tuple(points),
        record=sweep.record,
        repeat=sweep.repeat,
        judged=judged(sweep),
        point_seconds=sweep.budget.point_seconds,
        until=time.time() + seconds if seconds else 0.0,
        bound=bound,
        replaced=replaced_of(opened, points),
        environment=opened.environment,
    )


def replaced_of(opened: OpenSweep, points: Sequence[SweepPoint]) -> dict[str, str]:
    """Return the versions of the outcomes of ``points`` that are to be replaced, by key."""
    versions = opened.store.replaced
    return {point.key: versions[point.key] for point in points if point.key in versions}


def worker_job(batch: PointBatch, folder: Path, code: Sequence[Path] = ()) -> api.Job:
    """Return the native program that measures a batch; its file is put into ``folder``.

    ``code`` are the folders that it imports cmbench from; empty for those of this process.
    """
    write(folder / _BATCH, asdict(batch))
    return job_in(folder, code)


def job_in(folder: Path, code: Sequence[Path] = ()) -> api.Job:
    """Return the same for a batch whose file is in ``folder`` when it starts."""
    return api.Job(
        command=(sys.executable, "-m", "cmbench_sweep.worker", str(folder / _BATCH)),
        cwd=str(folder),
        environment=child_env(*(code or import_paths())),
        scratch=str(folder),
    )


_BATCH = "batch.json"
INTERRUPTED = 3
"""So a worker ends that stops before its points are done: by a signal, or by the budget."""


class ProgressReporter:
    """Reports points when a worker prints that they have ended."""

    def __init__(
        self, opened: OpenSweep, points: Sequence[SweepPoint], say: Say, most: int | None = None
    ) -> None:
        """Report progress of ``points``, of which at most ``most`` will be measured."""
        self._opened, self._say = opened, say
        self._total = len(points) if most is None else min(most, len(points))
        self._points = {point.key: point for point in points}
        self._ended: set[str] = set()
        self._waits: set[str] = set()
        self.problem: Error | None = None
        self.advice = ""
        self.other: list[str] = []

    def line(self, text: str) -> None:
        """Take in a line of a worker's output."""
        try:
            said: dict[str, Any] = json.loads(text)
            if "error" in said:
                self.problem = Error(said["error"], said["message"], hint=said["hint"])
            elif "waits" in said:
                self._wait(str(said["waits"]))
            elif said["point"] in self._points:
                # A job that was found again also reports points that were measured before.
                self._point(self._points[said["point"]])
        except (ValueError, KeyError, TypeError):
            self.other.append(text)

    def _wait(self, why: str) -> None:
        """Report the reason for waiting, once."""
        if why not in self._waits:
            self._waits.add(why)
            self._say(f"waiting: {why}")

    def note(self, state: api.JobState) -> None:
        """Report the end of a job that may not have done all of its points; raise its error."""
        if self.problem is not None:
            raise self.problem
        if "--time=" in state.reason:
            self.advice = "its jobs were out of time: repeat the command with more --time=MINUTES"
        if state.reason or state.exit_code not in (0, INTERRUPTED):
            for text in self.other[-4:]:
                self._say(f"  {text}")
            if not state.reason and not self._ended:
                self.advice = (
                    "its job ended before a point did: see what its modules and setup lines do,"
                    " then repeat the command"
                )

    def check(self, state: api.JobState) -> None:
        """Raise what has ended a worker before its time."""
        if state.exit_code and self.problem is not None:
            raise self.problem
        if state.exit_code not in (0, INTERRUPTED):
            raise Error(
                "sweep-stopped",
                f"the worker ended with status {state.exit_code} {state.reason}".rstrip(),
                context=self.other[-8:],
                hint="what was measured is kept: repeat the command to continue",
            )

    def _point(self, point: SweepPoint) -> None:
        if point.key in self._ended:
            # A task that was requeued starts again, and reports again.
            return
        self._ended.add(point.key)
        outcome = self._opened.store.outcome(point.key)
        values = " ".join(f"{name}={value}" for name, value in point.values.items())
        if outcome.status == FAILED:
            text = f"failed: {outcome.reason}"
        else:
            name = next(iter(self._opened.sweep.objectives), next(iter(outcome.names), ""))
            text = f"{name} {outcome.figure(name):.6g}" if name in outcome.names else "measured"
        self._say(f"{len(self._ended):>5} of {self._total}  {values}  {text}")
