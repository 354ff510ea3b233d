"""Measures on machines that are reached by SSH, several at once, which share the points.

Order: every machine is probed; points get their machines under the lock of the jobs; then
code, libraries and cache entries are brought, as far as they lack there, and the workers start.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from cmbench import api
from cmbench.api import cache
from cmbench.api.cache import HostPlatform as Hardware
from cmbench.errors import Error, did_you_mean
from cmbench.lib.engine_code import import_paths
from cmbench.lib.text_files import counted
from cmbench_sweep import deployment
from cmbench_sweep.jobs import ARRIVING, Jobs, SubmittedJob, attend
from cmbench_sweep.preparing import at_hand, samples
from cmbench_sweep.ssh_jobs import (
    PYTHON,
    HostReservation,
    ResultReceiver,
    SshExecutor,
    SshHost,
    host_of,
    reach,
    unpacked,
)
from cmbench_sweep.store import PointStore
from cmbench_sweep.values import PointOutcome, SweepPoint
from cmbench_sweep.worker import PointBatch
from common.problems import Hint
from common.python_path import child_env

if TYPE_CHECKING:
    from cmbench_sweep.driver import OpenSweep, ProgressReporter, Say

REMOTE_FOLDER = "~/.cache/cmbench-ssh"
_WHEELS = (
    "if it has no package index: `pip download -d wheels PACKAGE` here, then --wheels=wheels;\n"
    "or make the environment here first (`cm prepare script …`), as far as it fits there"
)
_UNREACHED = "unreached"


@dataclass(frozen=True, slots=True)
class LabeledHost:
    """A machine of a sweep and the labels that it has."""

    host: SshHost
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SshSite:
    """Measures on ``machines``; ``folder`` is where things are put there.

    ``setup`` are lines of bash before the worker. ``stay`` lets what was brought stay there.
    ``wheels`` is a folder of Python packages that goes
    along, for machines without a package index. ``patience`` is how many seconds a machine may
    answer nothing.
    """

    machines: tuple[LabeledHost, ...]
    folder: str = REMOTE_FOLDER
    stay: bool = False
    wheels: str = ""
    patience: float = 120.0
    setup: tuple[str, ...] = ()
    executor: ClassVar[str] = SshExecutor.name
    prepares_here: ClassVar[bool] = False

    def choose(self, opened: OpenSweep, points: Sequence[SweepPoint], say: Say) -> list[SweepPoint]:
        """Return all; raise ``bad-value`` where no machine has the labels of a point."""
        for labels in {tuple(point.labels) for point in points}:
            if not any(machine.labels.issuperset(labels) for machine in self.machines):
                raise self._without(labels)
        return list(points)

    def preview(self, opened: OpenSweep) -> list[tuple[str, str]]:
        """Nothing is submitted."""
        return []

    def tidy(self, opened: OpenSweep) -> None:
        """Remove from the machines what was left there of jobs whose points are all known."""
        jobs = Jobs(opened.store)
        hosts = {machine.host.name: machine.host for machine in self.machines}
        for job in jobs.of(SshExecutor.name):
            host = hosts.get(host_of(job.handle))
            if host is not None and not jobs.left(job) and _has_begun(jobs, job):
                executor = SshExecutor(host, ResultReceiver(list, _discard_results), self.stay)
                executor.cancel(job.handle)
                _forget(jobs, job, executor)

    def _without(self, labels: Sequence[str]) -> Error:
        existing = sorted({label for machine in self.machines for label in machine.labels})
        lacking = [name for name in labels if name not in existing]
        what = f"the label {lacking[0]}" if lacking else f"all of {', '.join(labels)}"
        near = did_you_mean(lacking[0], existing) if lacking else ""
        hint = near or f"there are: {', '.join(existing) or 'none'}"
        hint += "\nwrite labels of a host like this: --hosts=a,b=gpu+big"
        return Error("bad-value", f"no host has {what}", hint=hint)

    def measure(
        self, opened: OpenSweep, points: Sequence[SweepPoint], reporter: ProgressReporter, say: Say
    ) -> None:
        """Measure ``points``; those that a machine has left go to others that do their work.

        Raises what keeps every machine from working.
        """
        machines = list(self.machines)
        left = list(points)
        payload = JobPayload(opened, self.wheels, self.setup)
        while left and machines:
            share = _MeasuringRound(self, opened, payload, reporter, say)
            done = share.go(machines, left)
            machines = [machine for machine in machines if machine.host.name in done]
            before, outcomes = len(left), opened.store.outcomes(left)
            left = [point for point in left if not outcomes[point.key].done]
            if len(left) == before and not share.found_again:
                break


class _MeasuringRound:
    """One share of the points for every machine, from the probe to the last result."""

    def __init__(
        self,
        site: SshSite,
        opened: OpenSweep,
        payload: JobPayload,
        reporter: ProgressReporter,
        say: Say,
    ) -> None:
        self._site, self._opened, self._reporter, self._say = site, opened, reporter, say
        self._payload = payload
        self._jobs = Jobs(opened.store)
        self._problems: dict[str, Error] = {}
        self.found_again = False

    def go(self, machines: Sequence[LabeledHost], points: Sequence[SweepPoint]) -> set[str]:
        """Measure the points; return the names of the machines that have done their share."""
        with self._jobs.submitting() as (job, others):
            reached = self._reached(machines, job, others)
            earlier = self._resumed(machines, {point.key for point in points})
            self.found_again = bool(earlier)
            if not reached and not earlier:
                raise next(iter(self._problems.values()))
            shares = self._assigned(reached, points)
            try:
                started = self._start_jobs(shares)
            except BaseException:
                self._give_up(shares)
                raise
            self._release(reached, shares)
        ended = self._await_jobs({**earlier, **started})
        # How jobs of killed calls have ended says nothing of their machines.
        mine = {host_of(started_job.handle): ended[started_job] for started_job in started}
        lazy = {name for name, s in mine.items() if s.exit_code or s.status == "lost"}
        return {machine.host.name for machine, _ in reached} - lazy - self._problems.keys()

    def _executor(self, host: SshHost, job: SubmittedJob | None = None) -> SshExecutor:
        """Return the executor of a host, which receives the results of a job there."""
        keys = sorted(job.keys) if job else []
        store = self._opened.store.replacing(job.replaced if job else {})

        def have() -> list[str]:
            return [key for key in keys if store.outcome(key).done]

        arrivals = ResultReceiver(have, lambda packed: import_results(store, packed, set(keys)))
        return SshExecutor(host, arrivals, self._site.stay, self._site.patience)

    def _resumed(
        self, machines: Sequence[LabeledHost], keys: set[str]
    ) -> dict[SubmittedJob, SshExecutor]:
        """Return the jobs of earlier calls, and of others, that have some of the points."""
        hosts = {machine.host.name: machine.host for machine in machines}
        executors = {}
        for job in self._taken(hosts):
            name = host_of(job.handle)
            if (
                self._jobs.left(job) & keys
                and name not in self._problems
                and _has_begun(self._jobs, job)
            ):
                self._say(f"ssh {name}: {counted(len(job.keys), 'point')}, found again")
                self._jobs.attend(job)
                executors[job] = self._executor(hosts.get(name) or SshHost(name), job)
        return executors

    def _taken(self, hosts: Container[str]) -> list[SubmittedJob]:
        """Return the jobs whose points are not to be given to others.

        Those are left out of a machine that did not answer, and is not in use any more.
        """
        jobs = self._jobs.of(SshExecutor.name)
        return [
            job
            for job in jobs
            if host_of(job.handle) in hosts or not (job.folder / _UNREACHED).exists()
        ]

    def _reached(
        self, machines: Sequence[LabeledHost], job: str, others: Sequence[str]
    ) -> list[tuple[LabeledHost, HostReservation]]:
        """Return the machines that answer and can be used; the others are reported."""

        def ask(machine: LabeledHost) -> HostReservation | Error:
            try:
                name = f"{job}-{machine.host.name}"
                return reach(machine.host, self._folder(), name, [job, *others])
            except Error as problem:
                return problem

        with ThreadPoolExecutor(8) as pool:
            answers = list(zip(machines, pool.map(ask, machines), strict=True))
        for machine, answer in answers:
            if isinstance(answer, Error):
                self._refused(machine.host.name, answer)
        return [
            (machine, reply) for machine, reply in answers if isinstance(reply, HostReservation)
        ]

    def _folder(self) -> str:
        """Return the folder of this CM home on any machine; others have their own beside it."""
        home = f"{socket.gethostname()}:{os.path.realpath(self._opened.workspace.root)}"
        return f"{self._site.folder}/{hashlib.sha256(home.encode()).hexdigest()[:12]}"

    def _refused(self, name: str, problem: Error) -> None:
        self._problems[name] = problem
        named = problem.message.startswith(name)
        self._say(f"ssh {problem.message}" if named else f"ssh {name}: {problem}")
        for line in problem.hint.lines():
            self._say(f"  {line}")

    def _assigned(
        self,
        reached: Sequence[tuple[LabeledHost, HostReservation]],
        points: Sequence[SweepPoint],
    ) -> dict[SubmittedJob, tuple[HostReservation, list[SweepPoint]]]:
        """Assign points that no job has to machines; return the jobs, which are not started yet."""
        shares = {}
        with self._jobs.assigning(self._say):
            hosts = [machine.host.name for machine in self._site.machines]
            taken = {key for job in self._taken(hosts) for key in self._jobs.left(job)}
            taken |= self._jobs.elsewhere(SshExecutor.name, [point.key for point in points])
            free = [p for p in points if p.key not in taken and not self._done(p)]
            places = dict(reached)
            for machine, share in assign_points(list(places), free).items():
                job = self._store_job(places[machine], share)
                shares[job] = (places[machine], share)
        return shares

    def _store_job(self, reservation: HostReservation, share: Sequence[SweepPoint]) -> SubmittedJob:
        """Store a job before it starts, so that other processes know of it."""
        folder = self._jobs.folder(reservation.job)
        return self._jobs.keep(folder, reservation.handle, share)

    def _done(self, point: SweepPoint) -> bool:
        return self._opened.store.outcome(point.key).done

    def _start_jobs(
        self, shares: Mapping[SubmittedJob, tuple[HostReservation, list[SweepPoint]]]
    ) -> dict[SubmittedJob, SshExecutor]:
        """Bring what the machines lack, and start their workers; all at once."""

        def begin(job: SubmittedJob) -> SshExecutor | Error:
            reservation, share = shares[job]
            try:
                executor = self._executor(reservation.host, job)
                executor.submit(self._payload.job(reservation, share))
                return executor
            except Error as problem:
                return problem

        with ThreadPoolExecutor(8) as pool:
            answers = list(zip(shares, pool.map(begin, shares), strict=True))
        executors = {}
        for job, answer in answers:
            name = host_of(job.handle)
            if isinstance(answer, Error):
                self._give_up({job: shares[job]})
                self._refused(name, answer)
            else:
                executors[job] = answer
                self._say(f"ssh {name}: {counted(len(job.keys), 'point')}")
        return executors

    def _give_up(
        self, shares: Mapping[SubmittedJob, tuple[HostReservation, list[SweepPoint]]]
    ) -> None:
        """Cancel the jobs that were just started."""
        for job, (reservation, _) in shares.items():
            executor = self._executor(reservation.host)
            executor.cancel(job.handle)
            _forget(self._jobs, job, executor)

    def _release(
        self,
        reached: Sequence[tuple[LabeledHost, HostReservation]],
        shares: Mapping[SubmittedJob, tuple[HostReservation, list[SweepPoint]]],
    ) -> None:
        """Release the machines that got no points."""
        used = {reservation.handle.id for reservation, _ in shares.values()}
        for machine, reservation in reached:
            if reservation.handle.id not in used:
                self._executor(machine.host).fetch(reservation.handle)

    def _await_jobs(
        self, executors: Mapping[SubmittedJob, SshExecutor]
    ) -> dict[SubmittedJob, api.JobState]:
        """Wait for all jobs; Ctrl-C ends those that this process started."""
        try:
            ended = attend(executors, self._reporter.line, self._say)
        except KeyboardInterrupt:
            for job, executor in executors.items():
                executor.cancel(job.handle)
                _forget(self._jobs, job, executor)
            raise
        for job, state in ended.items():
            name = host_of(job.handle)
            if job.handle.id in executors[job].unreached:
                self._say(f"ssh {name} does not answer; what it measures is not lost. The same")
                self._say("  command asks it again; without it in --hosts its points go to others")
                self._problems[name] = Error("ssh-failed", state.reason)
                # Another one who waited for it may have forgotten it.
                with suppress(FileNotFoundError):
                    (job.folder / _UNREACHED).touch()
                continue
            _forget(self._jobs, job, executors[job])
            self._ended(job, state)
        return ended

    def _ended(self, job: SubmittedJob, state: api.JobState) -> None:
        name = host_of(job.handle)
        left = [key for key in job.keys if not self._opened.store.outcome(key).done]
        problem, self._reporter.problem = self._reporter.problem, None
        if problem is not None:
            self._explain(problem, job)
            self._refused(name, problem)
        elif left and state.reason:
            self._say("  free space there, or choose another folder: --folder=DIR")
        elif left and state.status == "lost":
            self._say(f"ssh {name}: the worker has died, alone or with its machine")
        elif left:
            self._reporter.note(state)

    def _explain(self, problem: Error, job: SubmittedJob) -> None:
        """Let the hint of a worker say what can be done from here."""
        folder = str(PurePosixPath(job.handle.id.partition(" ")[2]).parents[1])
        if problem.code == "pip-failed" and not self._site.wheels:
            problem.hint = _WHEELS
        elif problem.code == "no-space":
            problem.hint = "free space there, or choose another folder: --folder=DIR"
        elif folder in problem.hint and not self._site.stay:
            # What was brought is removed with the last job.
            kept = problem.hint_without(folder)
            problem.hint = Hint.joined(kept, "to look into its files there, add --keep")


def _has_begun(jobs: Jobs, job: SubmittedJob) -> bool:
    """Wait for another process that is bringing a job to its machine; whether that was done."""
    name = "-".join(PurePosixPath(job.handle.id).name.split("-")[:2])
    while jobs.is_submitting(name):
        time.sleep(0.2)
    return (job.folder / "job.json").exists()


def _forget(jobs: Jobs, job: SubmittedJob, executor: SshExecutor) -> None:
    """Remove what was kept of a job; where its machine may still have it, all but its handle."""
    if job.handle.id in executor.not_left:
        jobs.keep(job.folder, job.handle, ())
    else:
        jobs.forget(job)


def _discard_results(packed: bytes) -> None:
    """Ignore results: all of them are stored here."""


def assign_points(
    machines: Sequence[LabeledHost], points: Sequence[SweepPoint]
) -> dict[LabeledHost, list[SweepPoint]]:
    """Assign points to the machine with their labels that has the fewest; labelled ones first."""
    shares: dict[LabeledHost, list[SweepPoint]] = {}
    for point in sorted(points, key=lambda item: -len(item.labels)):
        able = [item for item in machines if item.labels.issuperset(point.labels)]
        if able:
            fewest = min(able, key=lambda item: len(shares.get(item, ())))
            shares.setdefault(fewest, []).append(point)
    return shares


def import_results(store: PointStore, packed: bytes, keys: set[str]) -> None:
    """Store the results that a machine has sent, of the points in ``keys`` still to do.

    Raises ``archive-unsafe``, ``no-space`` and others.
    """
    store.root.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=ARRIVING, dir=store.root))
    try:
        names = unpacked(packed, draft, lambda kind, name: kind == "runs" or name in keys)
        for name in sorted(os.listdir(draft / "runs")) if (draft / "runs").is_dir() else ():
            target = store.records / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                (draft / "runs" / name).rename(target)
        for key in names:
            _import_point(store, key, draft / "points" / key)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _import_point(store: PointStore, key: str, folder: Path) -> None:
    """Store one point, unless it is done or another process measures it here."""
    with store.claim(key) as mine:
        if not mine or store.outcome(key).done:
            return
        for path in folder.iterdir():
            target = store.run_folder(key) / path.name
            if path.name == "outcome.json":
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target, ignore_errors=True)
            path.rename(target)
        outcome = PointStore.read(key, folder / "outcome.json")
        if outcome.done:
            store.put(_localized(outcome, store.records))


def _localized(outcome: PointOutcome, runs: Path) -> PointOutcome:
    """Return an outcome whose records are those that were brought."""

    def moved(record: str) -> str:
        path = Path(record)
        local = runs / path.parent.name / path.name
        return str(local) if record and local.exists() else ""

    brought = tuple(replace(run, record=moved(run.record)) for run in outcome.runs)
    return replace(outcome, runs=brought, record=moved(outcome.record))


def before_worker(setup: Sequence[str]) -> tuple[str, ...]:
    """Return the words before a command that run the lines ``setup`` of bash first."""
    return ("bash", "-c", "\n".join((*setup, 'exec "$@"')), "bash") if setup else ()


class JobPayload:
    """The files that every machine needs; made for the first that lacks them, then sent again."""

    def __init__(self, opened: OpenSweep, wheels: str = "", setup: Sequence[str] = ()) -> None:
        self._opened = opened
        self._before = before_worker(setup)
        # The engine plans one thing at a time.
        self._planning = threading.Lock()
        paths = [repository.path for repository in opened.workspace.repositories]
        self._repositories = {path: deployment.repository(path) for path in paths}
        self._libraries = deployment.libraries()
        checkout = deployment.repository_of_engine(paths)
        self._engine = self._repositories[checkout] if checkout else deployment.engine()
        self._below = [
            str(path.relative_to(Path(checkout).resolve())) if checkout else ""
            for path in import_paths()
        ]
        self._wheels = deployment.folder(wheels) if wheels else None

    def job(self, reservation: HostReservation, share: Sequence[SweepPoint]) -> api.Job:
        """Bring what ``reservation`` lacks; the job that measures ``share`` there."""
        from cmbench_sweep.driver import batch_of

        opened = self._opened
        brought = [*self._repositories.values(), self._libraries, self._engine]
        for parcel in {item.digest: item for item in brought + [self._wheels] if item}.values():
            if parcel.digest not in reservation.parcels:
                reservation.send(parcel.digest, parcel.packed)
        batch = batch_of(opened, share, bound=False)
        batch = replace(
            batch,
            archive=self._entries(reservation, share),
            home=reservation.path("home"),
            repositories=tuple(
                reservation.path("parcels", item.digest) for item in self._repositories.values()
            ),
            until=batch.until + reservation.skew if batch.until else 0.0,
            prepare=tuple(samples(opened.sweep, share)),
        )
        return self._job(reservation, batch)

    def _entries(self, reservation: HostReservation, share: Sequence[SweepPoint]) -> str:
        """Bring the cache entries that ``share`` needs, as far as they lack there and fit."""
        workspace = self._opened.workspace
        machine = Hardware(reservation.cpu, reservation.glibc, reservation.pythons)
        root = reservation.path("home", "cmbench")
        with self._planning:
            entries = at_hand(workspace, self._opened.sweep, share)
            chosen = cache.fitting(workspace, entries, machine, root, reservation.entries)
            if not chosen:
                return ""
            with tempfile.TemporaryDirectory(prefix="cmbench-") as folder:
                target = os.path.join(folder, "entries.tar")
                cache.export(workspace, chosen, target, reservation.entries)
                with open(target, "rb") as stream:
                    return reservation.file("entries.tar", stream)

    def _job(self, reservation: HostReservation, batch: PointBatch) -> api.Job:
        path = reservation.file("batch.json", json.dumps(asdict(batch)).encode())
        code = [reservation.path("parcels", self._engine.digest, below) for below in self._below]
        libraries = reservation.path("parcels", self._libraries.digest)
        environment = child_env(*code, base={"CM_REPOS": batch.home})
        if self._wheels:
            environment["PIP_FIND_LINKS"] = reservation.path("parcels", self._wheels.digest)
        return api.Job(
            command=(*self._before, PYTHON, "-c", deployment.WORKER, libraries, path),
            cwd=reservation.path("jobs", reservation.job),
            environment=environment,
            scratch=reservation.path("jobs", reservation.job),
        )
