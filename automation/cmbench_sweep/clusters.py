"""Measures on the nodes of a cluster that has a queue; all of them share the file system.

A ``Cluster`` is what one kind of cluster does its own way. What a task has printed and how it has
ended is in files of its job, whoever has placed it: the queue only says whether it still runs.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Protocol

from cmbench import api
from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.lib.engine_code import import_paths
from cmbench.lib.text_files import counted, read_or_empty
from cmbench_sweep import deployment
from cmbench_sweep.driver import (
    INTERRUPTED,
    OpenSweep,
    ProgressReporter,
    Say,
    batch_of,
    job_in,
    worker_job,
)
from cmbench_sweep.job_containers import JobContainer
from cmbench_sweep.jobs import Jobs, SubmittedJob, attend
from cmbench_sweep.points import request_of
from cmbench_sweep.preparing import samples
from cmbench_sweep.values import MEASURED, SweepPoint, median

POLL_S, _LOOK_S = 2.0, 0.2
SILENT_S = 900.0
"""So long a cluster may answer nothing before waiting for it ends."""
_SUBMISSIONS = 3
"""So often a point is submitted whose tasks are interrupted."""
PART = "{part}"
"""The word of a job's command that becomes the number of the task."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The resources that a group of points needs from a cluster.

    ``points`` is their number, ``labels`` are those that a node must have, ``cpus`` how many a task
    needs (0: unspecified). ``seconds`` is the time that a point may take.
    """

    points: int
    labels: tuple[str, ...] = ()
    cpus: int = 0
    seconds: Callable[[], float] = float


class Cluster(Protocol):
    """What differs between clusters; ``scratch`` is a folder of the nodes in which runs write."""

    @property
    def name(self) -> str:
        """As in the handles of its jobs."""

    @property
    def scratch(self) -> str:
        """Return a folder of every node in which runs write; empty for none."""

    @property
    def container(self) -> JobContainer | None:
        """In what workers run; ``None`` where they run as they are."""

    @property
    def flags(self) -> Mapping[str, str]:
        """The flags of the command that say what jobs ask for, by their names."""

    def reach(self, say: Say) -> None:
        """Wait until it answers, if not for ever; raises ``slurm-failed`` and others."""

    def check(self, labels: Sequence[str]) -> None:
        """Refuse labels that no node has, with the nearest names; raises ``bad-value``."""

    def looker(self) -> api.Executor:
        """Return what looks at jobs that were submitted before."""

    def cpus(self, point: SweepPoint) -> int:
        """Return how many CPUs a task for a point needs; 0 if unspecified."""

    def executor(self, demand: Demand, say: Say) -> tuple[api.Executor, int]:
        """What submits a group of points as one job, and among how many tasks it divides them.

        With one, every task goes through all of the points.
        """

    def preview(self, demand: Demand, job: api.Job) -> tuple[str, str]:
        """Return the command that would submit ``job`` and its script; empty for none."""

    def adapt(self, handle: api.JobHandle, before: Mapping[str, str], say: Say) -> bool:
        """Let a job that was submitted ask for what ``flags`` says; whether it does now.

        ``before`` are the flags that it was submitted with. Raises ``bad-value`` and others where
        it cannot.
        """


@dataclass(frozen=True, slots=True)
class ClusterSite:
    """Measures on the nodes of ``cluster``."""

    cluster: Cluster

    @property
    def executor(self) -> str:
        """As in the handles of its jobs."""
        return self.cluster.name

    @property
    def prepares_here(self) -> bool:
        """What points share is made here, but for containers: their Python is another one."""
        return self.cluster.container is None

    def choose(self, opened: OpenSweep, points: Sequence[SweepPoint], say: Say) -> list[SweepPoint]:
        """Return all: the cluster looks for nodes with the labels.

        Raises what ``measure`` would, after long work, for those that no job has yet.
        """
        for root in (opened.store.records.parent, opened.store.root):
            _require_locks(root)
        jobs = Jobs(opened.store)
        taken = {key for job in jobs.of(self.cluster.name) for key in jobs.left(job)}
        free = [point for point in points if point.key not in taken]
        if free:
            self.cluster.reach(say)
        for labels in {tuple(point.labels) for point in free}:
            self.cluster.check(labels)
        return list(points)

    def tidy(self, opened: OpenSweep) -> None:
        """Does nothing: the next question about running jobs forgets ended ones."""

    def measure(
        self, opened: OpenSweep, points: Sequence[SweepPoint], reporter: ProgressReporter, say: Say
    ) -> None:
        """Submit the points that no job has yet, one job for those with the same labels; wait.

        Points of tasks that were interrupted are submitted again, a few times. Ctrl-C takes what
        was submitted here out of the queue. Raises ``slurm-failed`` and others.
        """
        for left in range(_SUBMISSIONS, 0, -1):
            states = self._submitted_and_attended(opened, points, reporter, say)
            points = [p for p in points if not opened.store.outcome(p.key).done]
            keys = [point.key for point in points]
            elsewhere = Jobs(opened.store).elsewhere(self.cluster.name, keys)
            points = [point for point in points if point.key not in elsewhere]
            bounded = opened.sweep.budget.seconds
            if not points or bounded or left == 1 or not all(map(was_interrupted, states)):
                return
            say(f"interrupted: {counted(len(points), 'point')}, submitted again")

    def _submitted_and_attended(
        self, opened: OpenSweep, points: Sequence[SweepPoint], reporter: ProgressReporter, say: Say
    ) -> list[api.JobState]:
        """How the jobs have ended that have ``points``."""
        jobs = Jobs(opened.store)
        with jobs.assigning(say):
            requested = {point.key for point in points}
            running = self._running(jobs, requested, say)
            taken = {key for keys in running.values() for key in keys}
            taken |= jobs.elsewhere(self.cluster.name, requested)
            free = [point for point in points if point.key not in taken]
            # Another one may have measured them while the list was made.
            free = [point for point in free if not opened.store.outcome(point.key).done]
            mine = self._submit(opened, jobs, free, say)
        looker = self.cluster.looker()
        others = {job: looker for job, keys in running.items() if keys & requested}
        for job in others:
            jobs.attend(job)
        try:
            ended = attend({**others, **mine}, reporter.line, say)
        except KeyboardInterrupt:
            _cancel(jobs, mine)
            raise
        for job, state in ended.items():
            jobs.forget(job)
            reporter.note(state)
        return list(ended.values())

    def _running(self, jobs: Jobs, keys: set[str], say: Say) -> dict[SubmittedJob, frozenset[str]]:
        """Return running jobs of earlier calls with their open points; forget the jobs that ended.

        Those that have some of the points ``keys`` are reported.
        """
        running = {}
        for job in jobs.of(self.cluster.name):
            if self.cluster.looker().poll(job.handle).status in ("ended", "lost"):
                jobs.forget(job)
                continue
            running[job] = jobs.left(job)
            if running[job] & keys:
                say(f"{self.cluster.name} {job.handle.id.split()[0]} is found again")
                if self.cluster.adapt(job.handle, job.flags, say):
                    jobs.note(job, {**job.flags, **self.cluster.flags})
        return running

    def _submit(
        self, opened: OpenSweep, jobs: Jobs, points: Sequence[SweepPoint], say: Say
    ) -> dict[SubmittedJob, api.Executor]:
        groups = self._groups(opened, points)
        for demand in groups:
            self.cluster.check(demand.labels)
        submitted = {}
        for demand, group in groups.items():
            labels = demand.labels
            executor, parts = self.cluster.executor(demand, say)
            folder = jobs.new_folder()
            job = self._job(opened, group, parts, folder)
            command = (*job.command, PART) if parts > 1 else job.command
            handle = executor.submit(replace(job, command=command))
            submitted[jobs.keep(folder, handle, group, self.cluster.flags)] = executor
            suffix = f" with {', '.join(labels)}" if labels else ""
            say(f"{handle.executor} {handle.id.split()[0]}: {counted(len(group), 'point')}{suffix}")
        return submitted

    def _groups(
        self, opened: OpenSweep, points: Sequence[SweepPoint]
    ) -> dict[Demand, list[SweepPoint]]:
        """Return the points that become one job, by the resources that they need."""
        groups: dict[tuple[tuple[str, ...], int], list[SweepPoint]] = {}
        for point in points:
            groups.setdefault((tuple(point.labels), self.cluster.cpus(point)), []).append(point)
        return {
            Demand(len(group), labels, cpus, lambda: point_seconds(opened)): group
            for (labels, cpus), group in groups.items()
        }

    def preview(self, opened: OpenSweep) -> list[tuple[str, str]]:
        """Return the commands that would submit the open points, with their scripts.

        Nothing is written or submitted; ``JOB`` is the folder of a job.
        """
        folder = Jobs(opened.store).folder("JOB")
        previews = []
        for demand, group in self._groups(opened, opened.left()).items():
            job = job_in(folder)
            if self.cluster.container is not None:
                parcels = opened.store.root / "parcels"
                job = self._inside(opened, job, parcels / "LIBRARIES", import_paths())
            if len(group) > 1:
                job = replace(job, command=(*job.command, PART))
            previews.append(self.cluster.preview(demand, job))
        return [preview for preview in previews if preview[0]]

    def _inside(
        self, opened: OpenSweep, job: api.Job, libraries: Path, code: Sequence[Path]
    ) -> api.Job:
        """``job`` in the container, with a Python that has no libraries of ours."""
        container = self.cluster.container
        assert container is not None
        workspace = opened.workspace
        repositories = [repository.path for repository in workspace.repositories]
        home = os.path.dirname(workspace.root)
        paths = [home, *repositories, str(opened.store.root), *map(str, code)]
        python = ("python3", "-c", deployment.WORKER, str(libraries), *job.command[-1:])
        return replace(job, command=(*container.words(paths, job.cwd), *python))

    def _job(
        self, opened: OpenSweep, group: Sequence[SweepPoint], parts: int, folder: Path
    ) -> api.Job:
        batch = batch_of(opened, group, bound=False)
        batch = replace(batch, parts=parts, scratch=self.cluster.scratch)
        if self.cluster.container is None:
            return worker_job(batch, folder)
        batch = replace(batch, prepare=tuple(samples(opened.sweep, group)))
        parcels = opened.store.root / "parcels"
        libraries = deployment.laid_out(deployment.libraries(), parcels)
        # Next to an installed cmbench are packages that were built for another Python.
        inside = deployment.repository_of_engine(batch.repositories)
        code = import_paths() if inside else (deployment.laid_out(deployment.engine(), parcels),)
        return self._inside(opened, worker_job(batch, folder, code), libraries, code)


def point_seconds(opened: OpenSweep) -> float:
    """Return how many seconds a point may take: as the sweep allows, else by those that are known.

    Three times the median of measured points, five times what the plan of one foresees; else 0.
    """
    sweep = opened.sweep
    if sweep.budget.point_seconds:
        return sweep.budget.point_seconds * sweep.repeat.most
    measured = [o for o in opened.outcomes().values() if o.status == MEASURED]
    if measured:
        return 3 * median(sum(run.seconds for run in outcome.runs) for outcome in measured)
    planned = api.plan(request_of(opened.workspace, opened.points[0].flags))
    return 5 * float(planned.plan.seconds or 0) * sweep.repeat.most


def was_interrupted(state: api.JobState) -> bool:
    """Return whether a job has ended by an outside cause: a retry may succeed.

    One that is out of time or of memory, or was cancelled by hand, would not.
    """
    by_others = re.fullmatch(r"(\d+ (NODE_FAIL|PREEMPTED|BOOT_FAIL)(, )?)*", state.reason)
    return bool(by_others) and (bool(state.reason) or state.exit_code in (0, INTERRUPTED))


def _require_locks(root: Path) -> None:
    """Refuse a home that nodes share but whose locks are local to a node."""
    option = locks.only_here(root)
    if option:
        raise Error(
            "no-locks",
            f"{root} is mounted with {option}: locks do not reach other nodes",
            hint="mount it without that option, or use a home elsewhere: `export CM_REPOS=DIR`",
        )


def _cancel(jobs: Jobs, submitted: Mapping[SubmittedJob, api.Executor]) -> None:
    for job, executor in submitted.items():
        executor.cancel(job.handle)
        jobs.forget(job)


def task_script(job: api.Job, number: str, setup: Sequence[str] = ()) -> str:
    """Return the program of a task, whose number is the text ``number`` of the shell.

    ``setup`` are lines of bash before it, whose functions such as ``module`` come along; a login
    shell would set PATH anew. The exit status is in a file, for clusters without accounts.
    """
    words = [f'"{number}"' if word == PART else shlex.quote(word) for word in job.command]
    end = shlex.quote(job.scratch) + f'/end-"{number}"'
    return (
        f"{'#!/bin/bash' if setup else '#!/bin/sh'}\n"
        f"{''.join(f'{line}{chr(10)}' for line in setup)}"
        f"{' '.join(words)}\n"
        "status=$?\n"
        f"echo $status > {end}.new && mv {end}.new {end}\n"
        "exit $status\n"
    )


class ClusterUnreachableError(Exception):
    """A cluster did not answer, or refused; the text is its own."""


class ClusterExecutor(ABC):
    """What the executors of clusters share.

    The tasks of a job print into ``output-N.txt`` of its folder, which is on a shared file system;
    the handle of a job ends with it. The cluster says how they go.
    """

    _no_answer: ClassVar[str] = ""
    """What stands before the text of a ``ClusterUnreachableError``."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}
        self._states: dict[str, tuple[float, api.JobState]] = {}
        self._heard: dict[str, float] = {}

    @abstractmethod
    def _query(self, handle: api.JobHandle) -> api.JobState:
        """Return the state of a job now; raise ``ClusterUnreachableError``."""

    @abstractmethod
    def _silence(self, problem: str, seconds: float) -> Error:
        """Return the error where the cluster has not answered for so many seconds."""

    def logs(self, handle: api.JobHandle) -> list[str]:
        """Whole lines of all tasks that are new."""
        lines: list[str] = []
        for path in sorted(folder_of(handle).glob("output-*.txt")):
            with suppress(OSError), open(path, "rb") as stream:
                stream.seek(self._read.get(path, 0))
                whole, newline, _ = stream.read().rpartition(b"\n")
                self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
                lines += whole.decode("utf-8", "replace").splitlines() if newline else []
        if not lines:
            time.sleep(_LOOK_S)
        return lines

    def poll(self, handle: api.JobHandle) -> api.JobState:
        """Return the state of all tasks; query the cluster every two seconds at most.

        Raises what ``_silence`` returns, where it has answered nothing for ``SILENT_S`` seconds.
        """
        polled_at, state = self._states.get(handle.id, (0.0, api.JobState("waiting")))
        if time.monotonic() - polled_at >= POLL_S:
            state = self._query_or_wait(handle)
            self._states[handle.id] = (time.monotonic(), state)
        return state

    def _query_or_wait(self, handle: api.JobHandle) -> api.JobState:
        now = time.monotonic()
        first = self._heard.setdefault(handle.id, now)
        try:
            state = self._query(handle)
        except ClusterUnreachableError as problem:
            if now - first > SILENT_S:
                raise self._silence(str(problem), now - first) from None
            return api.JobState("running", reason=f"{self._no_answer}{problem}")
        self._heard[handle.id] = now
        return state

    def fetch(self, handle: api.JobHandle) -> None:  # noqa: B027 (no kind has to do more)
        """All is here already: the file system is shared."""


def folder_of(handle: api.JobHandle) -> Path:
    """Return the folder of a job of a cluster."""
    return Path(handle.id.partition(" ")[2])


def exit_codes(folder: Path) -> list[int]:
    """Return the exit status of every task of a job that has left one."""
    ends = [read_or_empty(path).strip() for path in folder.glob("end-*[0-9]")]
    return [int(end) for end in ends if end.isdigit()]
