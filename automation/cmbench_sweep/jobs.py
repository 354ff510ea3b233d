"""Jobs that outlive who has submitted them: kept on the disk, found again, attended to their end.

``sweeps/jobs/ID/job.json`` says which points a job has. A point that is in the hands of a job is
given to no other one; should it be all the same, the lock of the point divides them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cmbench import api
from cmbench.lib import locks
from cmbench.lib.files import file_error
from cmbench_sweep.store import PointStore, for_its_group, lock_error, write
from cmbench_sweep.values import SweepPoint

_DAY_S = 86400.0
_SUBMITTING = ".submitting"
_ATTENDED = "attended"
_APART = "ssh"
"""The executor whose workers do not see the locks of this store."""
ARRIVING = ".arriving-"


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A submitted job: where its files are, its handle, the keys of its points.

    Outcomes of the versions ``replaced`` do not count for it: it measures those points again.
    ``flags`` are the flags of the command that set requests to a cluster, by their names.
    """

    folder: Path
    handle: api.JobHandle
    keys: frozenset[str]
    replaced: Mapping[str, str] = field(default_factory=dict, compare=False)
    flags: Mapping[str, str] = field(default_factory=dict, compare=False)


class Jobs:
    """The submitted jobs of one CM home."""

    def __init__(self, store: PointStore) -> None:
        self._store = store
        self._attended: dict[Path, int] = {}
        self._folder = store.root / "jobs"

    @contextmanager
    def assigning(self, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
        """Hold the right to give points to jobs; ``say`` is called if another process has it."""

        def wait(handle: int) -> None:
            say("waiting: another call is submitting points")
            locks.lock(handle)

        path = self._folder / "lock"
        try:
            with for_its_group(self._folder.parent):
                self._folder.mkdir(parents=True, exist_ok=True)
                handle = locks.acquire(path, wait)
        except OSError as problem:
            raise lock_error(problem, path) from None
        try:
            yield
        finally:
            locks.release(path, handle)

    def new_folder(self) -> Path:
        """Return a folder for a job; its name sorts by time and is like no other.

        Folders older than a day without a stored job are removed, as are unfinished arrivals.
        Raises ``not-writable``.
        """
        try:
            with for_its_group(self._folder.parent):
                self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise file_error(problem, self._folder) from None
        left = [path.parent for path in self._folder.glob("*/batch.json")]
        for path in [*left, *self._folder.parent.glob(f"{ARRIVING}*")]:
            is_recorded = (path / "job.json").exists()
            with suppress(OSError):
                if not is_recorded and time.time() - path.stat().st_mtime > _DAY_S:
                    shutil.rmtree(path, ignore_errors=True)
        return self.folder(f"{time.time_ns()}-{os.getpid()}")

    @contextmanager
    def submitting(self) -> Iterator[tuple[str, list[str]]]:
        """The name of a job that is being submitted, and those of others that are just so.

        A later call has a later name. Raises ``no-locks``, ``no-space`` and others.
        """
        with self.assigning():
            name = self.new_folder().name
            others = self._submitting()
            path = self._mark(name)
            try:
                handle = locks.acquire(path)
            except OSError as problem:
                raise lock_error(problem, path) from None
        try:
            yield name, others
        finally:
            locks.release(path, handle)

    def is_submitting(self, name: str) -> bool:
        """Return whether a process is submitting the job that is called so."""
        return locks.is_held(self._mark(name))

    def _mark(self, name: str) -> Path:
        return self._folder / f"{name}{_SUBMITTING}"

    def _submitting(self) -> list[str]:
        """Return the jobs that processes are submitting; remove marks of killed processes."""
        names = [
            path.name.removesuffix(_SUBMITTING) for path in self._folder.glob(f"*{_SUBMITTING}")
        ]
        live = [name for name in names if self.is_submitting(name)]
        for name in set(names) - set(live):
            self._mark(name).unlink(missing_ok=True)
        return live

    def folder(self, name: str) -> Path:
        """Return the folder of a job that is called so."""
        return self._folder / name

    def keep(
        self,
        folder: Path,
        handle: api.JobHandle,
        points: Sequence[SweepPoint],
        flags: Mapping[str, str] | None = None,
    ) -> SubmittedJob:
        """Keep a job that was just submitted, and which of its points it measures again."""
        keys = [point.key for point in points]
        versions = self._store.replaced
        replaced = {key: versions[key] for key in keys if key in versions}
        job = SubmittedJob(folder, handle, frozenset(keys), replaced, flags or {})
        self.note(job, job.flags)
        self.attend(job)
        return job

    def attend(self, job: SubmittedJob) -> None:
        """Let other calls know, as long as this process lives, that a job is waited for."""
        if job.folder not in self._attended:
            with suppress(OSError), for_its_group(self._folder.parent):
                mark = job.folder / _ATTENDED
                handle = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                locks.try_lock(handle, shared=True)
                self._attended[job.folder] = handle

    def elsewhere(self, executor: str, keys: Iterable[str]) -> set[str]:
        """Return those of ``keys`` that calls with another executor are at.

        Processes that share this store divide points by their locks; machines behind SSH have
        stores of their own.
        """
        taken: set[str] = set()
        for job in self._all():
            apart = (job.handle.executor == _APART) != (executor == _APART)
            if apart and locks.is_held(job.folder / _ATTENDED, shared=False):
                taken |= self.left(job)
        if executor == _APART:
            taken |= {key for key in keys if locks.is_held(self._store.folder(key) / "lock")}
        return taken.intersection(keys)

    def note(self, job: SubmittedJob, flags: Mapping[str, str]) -> None:
        """Store a job with the flags ``flags`` of its command."""
        data = {"executor": job.handle.executor, "id": job.handle.id, "points": sorted(job.keys)}
        write(job.folder / "job.json", {**data, "replaced": job.replaced, "asked": flags})

    def of(self, executor: str) -> list[SubmittedJob]:
        """Return the jobs that an executor has and that were not seen to end, the oldest first."""
        return [job for job in self._all() if job.handle.executor == executor]

    def _all(self) -> Iterator[SubmittedJob]:
        for path in sorted(self._folder.glob("*/job.json")):
            data = _read(path)
            if data:
                handle = api.JobHandle(str(data["executor"]), str(data["id"]))
                replaced = dict(data.get("replaced") or {})
                flags = dict(data.get("asked") or {})
                yield SubmittedJob(path.parent, handle, frozenset(data["points"]), replaced, flags)

    def left(self, job: SubmittedJob) -> frozenset[str]:
        """Return the keys of the points that a job still has to measure."""
        store = self._store.replacing(job.replaced)
        return frozenset(key for key in job.keys if not store.outcome(key).done)

    def replaced(self) -> dict[str, str]:
        """Return the versions that are replaced by jobs which are not through yet, by key."""
        versions: dict[str, str] = {}
        for job in self._all():
            if job.replaced and self.left(job):
                versions |= job.replaced
        return versions

    def forget(self, job: SubmittedJob) -> None:
        """Remove what was kept of a job that has ended."""
        handle = self._attended.pop(job.folder, -1)
        if handle >= 0:
            os.close(handle)
        shutil.rmtree(job.folder, ignore_errors=True)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return data if {"executor", "id", "points"} <= data.keys() else {}
    except (OSError, ValueError, AttributeError):
        return {}


def attend(
    executors: Mapping[SubmittedJob, api.Executor],
    line: Callable[[str], None],
    say: Callable[[str], None],
) -> dict[SubmittedJob, api.JobState]:
    """Wait until all jobs have ended; their output goes to ``line``, news to ``say``.

    Raises what an executor raises.
    """
    ended: dict[SubmittedJob, api.JobState] = {}
    reasons: dict[SubmittedJob, str] = {}
    while len(ended) < len(executors):
        for job, executor in executors.items():
            if job not in ended:
                state = executor.poll(job.handle)
                for text in executor.logs(job.handle):
                    line(text)
                if state.reason and reasons.get(job) != state.reason:
                    say(f"{job.handle.executor} {job.handle.id.split()[0]}: {state.reason}")
                reasons[job] = state.reason
                if state.status in ("ended", "lost"):
                    executor.fetch(job.handle)
                    ended[job] = state
    return ended
