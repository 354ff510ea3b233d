"""A sweep from its file to its outcomes: prepare, hand points to an executor, see how they end."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cmbench import api
from cmbench.errors import Error
from cmbench.lib.text_files import counted
from cmbench_sweep.points import points_of
from cmbench_sweep.preparing import Preparation, preparation, prepare
from cmbench_sweep.store import PointStore, write
from cmbench_sweep.values import FAILED, MEASURED, Outcome, Point, Sweep
from cmbench_sweep.worker import Batch

Say = Callable[[str], None]


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
    from cmbench_sweep.values import median

    known = opened.outcomes()
    left = [point for point in opened.points if not known[point.key].done]
    times = [sum(r.seconds for r in o.runs) for o in known.values() if o.status == MEASURED]
    found = preparation(opened.workspace, opened.sweep, left or opened.points[:1])
    return Foreseen(opened, known, found, median(times) if times else None)


def run_sweep(
    opened: Opened,
    executor: api.Executor | None = None,
    say: Say = lambda text: None,
    on_event: api.OnEvent | None = None,
) -> dict[str, Outcome]:
    """Measure every point that is not done; what is known of each at the end.

    Raises what preparing raises, and ``sweep-stopped`` where the worker has ended before its time.
    """
    keep_name(opened)
    left = opened.left()
    if left:
        seen = foresee(opened)
        if seen.preparation.wanted_by:
            say(f"preparing {counted(len(seen.preparation.steps), 'entry', 'entries')} once")
            prepare(opened.workspace, seen.preparation.wanted_by, on_event)
        say(f"measuring {counted(len(left), 'point')} of {len(opened.points)}")
        _measure(opened, left, executor, say)
    return opened.outcomes()


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


def _measure(
    opened: Opened, left: Sequence[Point], executor: api.Executor | None, say: Say
) -> None:
    folder = opened.store.root / "jobs" / f"{time.time_ns()}-{os.getpid()}"
    teller = Teller(opened, len(left), say)
    state = api.run_job(
        executor or api.LocalExecutor(),
        worker_job(batch_of(opened, left), folder),
        teller.line,
    )
    _forget(folder)
    if state.exit_code and teller.problem is not None:
        raise teller.problem
    if state.exit_code not in (0, _OUT_OF_BUDGET):
        raise Error(
            "sweep-stopped",
            f"the worker ended with status {state.exit_code} {state.reason}".rstrip(),
            context=teller.other[-8:],
            hint="what was measured is kept: the same command goes on",
        )


_OUT_OF_BUDGET = 3


def _forget(folder: Path) -> None:
    (folder / "batch.json").unlink(missing_ok=True)
    folder.rmdir()


class Teller:
    """Tells of points as a worker says that they have ended."""

    def __init__(self, opened: Opened, total: int, say: Say) -> None:
        self._opened, self._total, self._say = opened, total, say
        self._points = {point.number: point for point in opened.points}
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
