"""A sweep from its file to its outcomes: prepare, hand points to an executor, see how they end."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from cmbench import api
from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.lib.text_files import counted
from cmbench_sweep.jobs import Jobs, Kept
from cmbench_sweep.points import points_of, request_of
from cmbench_sweep.preparing import Preparation, preparation, prepare
from cmbench_sweep.store import PointStore, write
from cmbench_sweep.values import FAILED, MEASURED, Outcome, Point, Sweep, median
from cmbench_sweep.worker import Batch

if TYPE_CHECKING:
    from cmbench_sweep.slurm import SlurmExecutor, Wish

Say = Callable[[str], None]


class Place(Protocol):
    """Where points are measured; ``prepares_here`` says whether what they share is made here."""

    @property
    def prepares_here(self) -> bool:
        """Whether what points share is made on this machine, for all of them."""

    def choose(self, points: Sequence[Point], say: Say) -> list[Point]:
        """The points that can be measured there."""

    def measure(self, opened: Opened, points: Sequence[Point], teller: Teller, say: Say) -> None:
        """Measure ``points``; those that are not done in the end are still to do."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A sweep with its points, and what is known of them."""

    workspace: api.Workspace
    sweep: Sweep
    points: tuple[Point, ...]
    store: PointStore

    def outcomes(self) -> dict[str, Outcome]:
        """What is known of each point now, by key."""
        return self.store.outcomes(self.points)

    def left(self) -> list[Point]:
        """The points that are still to do."""
        known = self.outcomes()
        return [point for point in self.points if not known[point.key].done]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a sweep would do: counts of points, what is to be prepared, and the time in seconds.

    ``point_seconds`` is the median of what measured points have taken; ``None`` before the first.
    """

    opened: Opened
    known: Mapping[str, Outcome]
    preparation: Preparation
    point_seconds: float | None

    def count(self, status: str) -> int:
        """How many points are so."""
        return sum(outcome.status == status for outcome in self.known.values())


def open_sweep(workspace: api.Workspace, sweep: Sweep) -> Opened:
    """The points of a sweep; raises ``bad-sweep`` and what a request raises."""
    return Opened(workspace, sweep, tuple(points_of(workspace, sweep)), PointStore(workspace.root))


def foresee(opened: Opened) -> Foreseen:
    """What a sweep would do; runs nothing, writes nothing."""
    known = opened.outcomes()
    left = [point for point in opened.points if not known[point.key].done]
    times = [sum(r.seconds for r in o.runs) for o in known.values() if o.status == MEASURED]
    found = preparation(opened.workspace, opened.sweep, left or opened.points[:1])
    return Foreseen(opened, known, found, median(times) if times else None)


@dataclass(frozen=True, slots=True)
class Here:
    """Measures on this machine, which has ``labels``."""

    labels: frozenset[str] = frozenset()
    prepares_here: ClassVar[bool] = True

    def choose(self, points: Sequence[Point], say: Say) -> list[Point]:
        """The points that this machine has all labels for."""
        chosen = [point for point in points if self.labels.issuperset(point.labels)]
        if len(chosen) < len(points):
            lacking = sorted({n for point in points for n in point.labels} - self.labels)
            left = counted(len(points) - len(chosen), "point")
            say(f"left out: {left}, for machines with {', '.join(lacking)}; if this is one:")
            say(f"  --labels={','.join(sorted(self.labels | set(lacking)))}")
        return chosen

    def measure(self, opened: Opened, points: Sequence[Point], teller: Teller, say: Say) -> None:
        """Measure ``points``; raises ``sweep-stopped`` and what a worker raises."""
        folder = Jobs(opened.store).new_folder()
        job = worker_job(batch_of(opened, points), folder)
        try:
            state = api.run_job(api.LocalExecutor(), job, teller.line)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        teller.check(state)


@dataclass(frozen=True, slots=True)
class OnSlurm:
    """Measures on the nodes of a cluster; ``wish`` is what is asked of it besides labels."""

    wish: Wish
    prepares_here: ClassVar[bool] = True

    def choose(self, points: Sequence[Point], say: Say) -> list[Point]:
        """All: the cluster looks for nodes with the labels."""
        return list(points)

    def measure(self, opened: Opened, points: Sequence[Point], teller: Teller, say: Say) -> None:
        """Submit the points that no job has yet, one array for those with the same labels; wait.

        Ctrl-C takes what was submitted here out of the queue. Raises ``slurm-failed`` and others.
        """
        from cmbench_sweep.jobs import attend
        from cmbench_sweep.slurm import SlurmExecutor

        for root in (opened.store.records.parent, opened.store.root):
            _require_locks(root)
        jobs = Jobs(opened.store)
        with jobs.assigning():
            known = self._running(jobs, say)
            taken = {key for kept in known for key in kept.keys}
            free = [point for point in points if point.key not in taken]
            # Another one may have measured them while the list was made.
            free = [point for point in free if not opened.store.outcome(point.key).done]
            mine = self._submit(opened, jobs, free, say)
        looker = SlurmExecutor()
        wanted = {point.key for point in points}
        others = {kept: looker for kept in known if kept.keys & wanted}
        try:
            ended = attend({**others, **mine}, teller.line, say)
        except KeyboardInterrupt:
            _cancel(jobs, mine)
            raise
        for kept, state in ended.items():
            jobs.forget(kept)
            teller.note(state)

    def _running(self, jobs: Jobs, say: Say) -> list[Kept]:
        """The jobs of earlier calls that still run; the others are forgotten."""
        from cmbench_sweep.slurm import SlurmExecutor

        found = []
        for kept in jobs.of(SlurmExecutor.name):
            if SlurmExecutor().poll(kept.handle).status in ("ended", "lost"):
                jobs.forget(kept)
            else:
                say(f"slurm {kept.handle.id.split()[0]} is found again")
                found.append(kept)
        return found

    def _submit(
        self, opened: Opened, jobs: Jobs, points: Sequence[Point], say: Say
    ) -> dict[Kept, SlurmExecutor]:
        from cmbench_sweep.slurm import PART, SlurmExecutor, check, largest_array

        groups: dict[tuple[str, ...], list[Point]] = {}
        for point in points:
            groups.setdefault(tuple(point.labels), []).append(point)
        for labels in groups:
            check(self.wish, labels)
        found = {}
        most = largest_array() if groups else 1
        for labels, group in groups.items():
            parts = min(len(group), most)
            wish = self._limited(opened, -(-len(group) // parts))
            executor = SlurmExecutor(wish, parts, labels)
            folder = jobs.new_folder()
            batch = batch_of(opened, group, bound=False)
            batch = replace(batch, parts=parts, scratch=wish.scratch)
            job = worker_job(batch, folder)
            handle = executor.submit(replace(job, command=(*job.command, PART)))
            found[jobs.keep(folder, handle, group)] = executor
            told = f" with {', '.join(labels)}" if labels else ""
            say(f"slurm {handle.id.split()[0]}: {counted(len(group), 'point')}{told}")
        return found

    def _limited(self, opened: Opened, points: int) -> Wish:
        """What is asked for with a time limit for a task of ``points``, where one is known."""
        from cmbench_sweep.slurm import limit

        if self.wish.time:
            return self.wish
        return replace(self.wish, time=limit(points * point_seconds(opened), self.wish.partition))


def point_seconds(opened: Opened) -> float:
    """How many seconds a point may take: as the sweep allows, else by those that are known.

    Three times the median of measured points, five times what the plan of one foresees; else 0.
    """
    sweep = opened.sweep
    if sweep.budget.point_seconds:
        return sweep.budget.point_seconds * sweep.repeat.most
    known = [o for o in opened.outcomes().values() if o.status == MEASURED]
    if known:
        return 3 * median(sum(run.seconds for run in each.runs) for each in known)
    planned = api.plan(request_of(opened.workspace, opened.points[0].flags))
    return 5 * float(planned.plan.seconds or 0) * sweep.repeat.most


def _require_locks(root: Path) -> None:
    """Refuse a home that nodes share and whose locks each of them has for itself."""
    option = locks.only_here(root)
    if option:
        raise Error(
            "no-locks",
            f"{root} is mounted with {option}: locks do not reach other nodes",
            hint="mount it without that option, or use a home elsewhere: export CM_REPOS=DIR",
        )


def _cancel(jobs: Jobs, submitted: Mapping[Kept, api.Executor]) -> None:
    for kept, executor in submitted.items():
        executor.cancel(kept.handle)
        jobs.forget(kept)


def run_sweep(
    opened: Opened,
    place: Place,
    say: Say = lambda text: None,
    on_event: api.OnEvent | None = None,
) -> Opened:
    """Measure every point that is not done, or as many as a search may try; the sweep of those.

    Raises what preparing raises, and what ``place`` does.
    """
    if opened.sweep.search.method == "optuna":
        return _searched(opened, place, say, on_event)
    keep_name(opened)
    left = place.choose(opened.left(), say)
    if left:
        _prepare(opened, place, say, on_event)
        say(f"measuring {counted(len(left), 'point')} of {len(opened.points)}")
        place.measure(opened, left, Teller(opened, len(left), say), say)
    return opened


def _prepare(opened: Opened, place: Place, say: Say, on_event: api.OnEvent | None) -> None:
    if not place.prepares_here:
        return
    seen = foresee(opened)
    if seen.preparation.wanted_by:
        say(f"preparing {counted(len(seen.preparation.steps), 'entry', 'entries')} once")
        prepare(opened.workspace, seen.preparation.wanted_by, on_event)


def _searched(opened: Opened, place: Place, say: Say, on_event: api.OnEvent | None) -> Opened:
    """Measure the points that a search asks for, one after the other."""
    from cmbench_sweep.searching import search

    points = place.choose(opened.points, say)
    _prepare(opened, place, say, on_event)
    teller = Teller(opened, min(len(points), opened.sweep.search.points), say)

    def measure(point: Point) -> Outcome:
        place.measure(opened, [point], teller, say)
        return opened.store.outcome(point.key)

    tried = search(opened.sweep, points, opened.outcomes(), measure)
    found = replace(opened, points=tuple(tried))
    keep_name(found)
    return found


def keep_name(opened: Opened) -> None:
    """Let ``cm show experiment NAME`` find the points."""
    told = {"sweep": asdict(opened.sweep), "points": [asdict(point) for point in opened.points]}
    opened.store.name(opened.sweep.name, told)


def again(opened: Opened, statuses: Sequence[str]) -> int:
    """Let points that have ended so be still to do; returns how many there were."""
    known = opened.outcomes()
    chosen = [point for point in opened.points if known[point.key].status in statuses]
    for point in chosen:
        opened.store.forget(point.key)
    return len(chosen)


def batch_of(opened: Opened, points: Sequence[Point], bound: bool = True) -> Batch:
    """What a worker needs to know to measure ``points``."""
    sweep, workspace = opened.sweep, opened.workspace
    seconds = sweep.budget.seconds
    judged = next(iter(sweep.objectives), next(iter(sweep.record), ""))
    return Batch(
        home=os.path.dirname(workspace.root),
        repositories=tuple(repository.path for repository in workspace.repositories),
        points=tuple(points),
        record=sweep.record,
        repeat=sweep.repeat,
        judged=judged,
        point_seconds=sweep.budget.point_seconds,
        until=time.time() + seconds if seconds else 0.0,
        bound=bound,
    )


def worker_job(batch: Batch, folder: Path) -> api.Job:
    """The native program that measures a batch; its file is put into ``folder``."""
    path = folder / "batch.json"
    write(path, asdict(batch))
    code = str(Path(__file__).resolve().parents[1])
    paths = [code, *filter(None, [os.environ.get("PYTHONPATH")])]
    return api.Job(
        command=(sys.executable, "-m", "cmbench_sweep.worker", str(path)),
        cwd=str(folder),
        environment={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        scratch=str(folder),
    )


_OUT_OF_BUDGET = 3
"""With this status a worker ends that stops before its points are done."""


class Teller:
    """Tells of points as a worker says that they have ended."""

    def __init__(self, opened: Opened, total: int, say: Say) -> None:
        self._opened, self._total, self._say = opened, total, say
        self._points = {point.key: point for point in opened.points}
        self._ended = 0
        self.problem: Error | None = None
        self.other: list[str] = []

    def line(self, text: str) -> None:
        """Take in a line of a worker's output."""
        try:
            said: dict[str, Any] = json.loads(text)
            if "error" in said:
                self.problem = Error(said["error"], said["message"], hint=said["hint"])
            else:
                self._point(self._points[said["point"]])
        except (ValueError, KeyError, TypeError):
            self.other.append(text)

    def note(self, state: api.JobState) -> None:
        """Tell how a job has ended that may not have done all of its points; raises its error."""
        if self.problem is not None:
            raise self.problem
        if state.reason or state.exit_code not in (0, _OUT_OF_BUDGET):
            for text in self.other[-4:]:
                self._say(f"  {text}")

    def check(self, state: api.JobState) -> None:
        """Raise what has ended a worker before its time."""
        if state.exit_code and self.problem is not None:
            raise self.problem
        if state.exit_code not in (0, _OUT_OF_BUDGET):
            raise Error(
                "sweep-stopped",
                f"the worker ended with status {state.exit_code} {state.reason}".rstrip(),
                context=self.other[-8:],
                hint="what was measured is kept: the same command goes on",
            )

    def _point(self, point: Point) -> None:
        self._ended += 1
        outcome = self._opened.store.outcome(point.key)
        values = " ".join(f"{name}={value}" for name, value in point.values.items())
        if outcome.status == FAILED:
            told = f"failed: {outcome.reason}"
        else:
            name = next(iter(self._opened.sweep.objectives), next(iter(outcome.names), ""))
            told = f"{name} {outcome.figure(name):.6g}" if name in outcome.names else "measured"
        self._say(f"{self._ended:>5} of {self._total}  {values}  {told}")
