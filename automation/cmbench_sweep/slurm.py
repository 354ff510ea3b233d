"""The executor of clusters under Slurm: one array for any number of points.

A job is in the queue of Slurm, and no process needs to wait for it: the submitter may die, and
another process finds the job again by its handle. The folder of a job, its points and the cache
are on a file system that the nodes share. ``docs/decisions/052`` describes how states are read.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from cmbench import api
from cmbench.errors import Error
from cmbench.lib.text_files import listed
from cmbench_sweep.clusters import (
    ClusterExecutor,
    ClusterUnreachableError,
    Demand,
    exit_codes,
    folder_of,
    task_script,
)
from cmbench_sweep.driver import Say
from cmbench_sweep.job_containers import JobContainer
from cmbench_sweep.slurm_queue import (
    ask,
    check,
    largest_array,
    limit,
    reach,
    submit,
    tasks_of,
    update_waiting,
)
from cmbench_sweep.values import SweepPoint

ACTIVE = (
    *("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"),
    *("REQUEUE_FED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SPECIAL_EXIT"),
)
"""States of a task that will still do something (the manual of squeue)."""
_HELD, _RELEASES = "launch_failed_requeued_held", 3
_UPDATES = {
    "partition": "Partition",
    "account": "Account",
    "qos": "QOS",
    "time": "TimeLimit",
    "reservation": "ReservationName",
    "nodelist": "ReqNodeList",
    "exclude": "ExcNodeList",
}
"""What of a job that waits can be changed, by the names of ``scontrol update``."""
_OURS = re.compile(
    r"--(array|chdir|error|export|input|job-name|open-mode|output|parsable|wait|wrap)(=|$)|-[aDeiJoW]"
)


def is_reserved(word: str) -> bool:
    """Return whether an option of ``sbatch`` is one that a sweep sets."""
    return bool(_OURS.match(word))


@dataclass(frozen=True, slots=True)
class SbatchOptions:
    """The options of Slurm besides the points.

    ``options`` are those of ``sbatch`` that have flags of ours, by their names, with the texts that
    it takes; ``more`` are words that go to it as they are. At most ``throttle`` tasks run at once,
    0 for any number. ``setup`` are lines of the shell before the worker, and ``scratch`` is a
    folder of the nodes in which runs write.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = True
    more: tuple[str, ...] = ()
    throttle: int = 0
    setup: tuple[str, ...] = ()
    scratch: str = ""

    def __post_init__(self) -> None:
        """Refuse words that are ours to say; raises ``bad-value``."""
        bad = next((w for w in self.more if not w.startswith("-") or is_reserved(w)), "")
        if bad:
            raise Error(
                "bad-value",
                f"--sbatch: {bad} is not for the options of the job",
                hint="write long options with =, such as --sbatch='--licenses=a --nice=10'; "
                "name, array, output and folder of the job are set for you",
            )

    @property
    def partition(self) -> str:
        """One or several with commas; empty for the default."""
        return self.options.get("partition", "")

    @property
    def asks_for_gpus(self) -> bool:
        """Whether a task gets GPUs."""
        words = (self.options.get("gres", ""), *self.more)
        return any("gpu" in word for word in words)

    def words(self, labels: Sequence[str], cpus: int = 0) -> Iterator[str]:
        """Yield the options of ``sbatch``.

        ``labels`` are features that a node must have. A task that does not have its node to itself
        gets ``cpus``, 0 for what Slurm gives.
        """
        for name, value in self.options.items():
            if value and name != "constraint":
                yield f"--{name.replace('_', '-')}={value}"
        constraint = "&".join(filter(None, (self.options.get("constraint", ""), *labels)))
        if constraint:
            yield f"--constraint={constraint}"
        if self.exclusive:
            yield "--exclusive"
        elif cpus and "cpus_per_task" not in self.options:
            yield f"--cpus-per-task={cpus}"
        yield from self.more


class SlurmExecutor(ClusterExecutor):
    """Runs jobs as arrays of ``parts`` tasks on nodes that have all of ``labels``.

    The word ``{part}`` of a command becomes the number of the task. Raises ``slurm-failed`` where
    Slurm refuses, or answers nothing for ``SILENT_S`` seconds.
    """

    name = "slurm"
    _no_answer = "Slurm does not answer: "

    def __init__(
        self,
        wish: SbatchOptions | None = None,
        parts: int = 1,
        labels: Sequence[str] = (),
        say: Say | None = None,
        cpus: int = 0,
    ) -> None:
        super().__init__()
        self._wish = wish or SbatchOptions()
        self._say = say
        self._parts = parts
        self._labels = tuple(labels)
        self._cpus = cpus
        self._released: Counter[str] = Counter()

    def submit(self, job: api.Job) -> api.JobHandle:
        """Put ``job`` into the queue; raises ``bad-value``, ``slurm-failed``, ``slurm-missing``."""
        check(self._wish.partition, self._labels)
        folder = Path(job.scratch)
        script = folder / "job.sh"
        words, text = self.submission(job)
        script.write_text(text, encoding="utf-8")
        number = submit(words, _name(folder), job.environment, self._say)
        return api.JobHandle(self.name, f"{number} {folder}")

    def submission(self, job: api.Job) -> tuple[list[str], str]:
        """Return the words of ``sbatch`` for ``job``, and the text of its script."""
        folder = Path(job.scratch)
        most = f"%{self._wish.throttle}" if self._wish.throttle else ""
        words = [
            *("sbatch", "--parsable", f"--job-name={_name(folder)}"),
            f"--array=0-{self._parts - 1}{most}",
            *(f"--output={folder}/output-%a.txt", "--open-mode=append", "--requeue"),
            # The worker needs its own, whatever SBATCH_EXPORT says.
            "--export=ALL",
            f"--chdir={job.cwd}",
            *self._wish.words(self._labels, self._cpus),
            str(folder / "job.sh"),
        ]
        return words, task_script(job, "$SLURM_ARRAY_TASK_ID", self._wish.setup)

    def _query(self, handle: api.JobHandle) -> api.JobState:
        number = _number(handle)
        tasks = tasks_of(number)
        self._release(number, tasks or {})
        return _state(tasks, folder_of(handle))

    def _silence(self, problem: str, seconds: float) -> Error:
        return Error(
            "slurm-failed",
            f"Slurm has not answered for {seconds:.0f} s: {problem}",
            hint="the job stays in its queue: the same command finds it again",
        )

    def _release(self, number: str, tasks: Mapping[str, tuple[str, str]]) -> None:
        """Release tasks that Slurm holds because it could not start them; a few times per task.

        It does so where a node, or Slurm itself, has died at the moment of the start.
        """
        for part, (_, reason) in tasks.items():
            task = f"{number}_{part}"
            if _HELD in reason.replace(" ", "_") and self._released[task] < _RELEASES:
                self._released[task] += 1
                with suppress(ClusterUnreachableError):
                    ask(["scontrol", "release", task])

    def cancel(self, handle: api.JobHandle) -> None:
        """End all tasks, those that wait and those that run."""
        with suppress(ClusterUnreachableError):
            ask(["scancel", _number(handle)])


@dataclass(frozen=True, slots=True)
class SlurmCluster:
    """A cluster under Slurm; ``wish`` has the requested options besides labels.

    ``flags`` are the flags of the command that say so, by their names.
    """

    wish: SbatchOptions
    container: JobContainer | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    name: ClassVar[str] = SlurmExecutor.name

    @property
    def scratch(self) -> str:
        """As in the wish."""
        return self.wish.scratch

    def reach(self, say: Say) -> None:
        """Wait for Slurm; raises ``slurm-failed``, ``slurm-missing``."""
        reach(say)

    def check(self, labels: Sequence[str]) -> None:
        """Refuse labels that are features of no node; raises ``bad-value``."""
        check(self.wish.partition, labels)

    def looker(self) -> SlurmExecutor:
        """Return what looks at any job."""
        return SlurmExecutor()

    def cpus(self, point: SweepPoint) -> int:
        """As many as the point has ``threads``, where others may be on its node."""
        threads = str(point.flags.get("threads", ""))
        return int(threads) if threads.isdecimal() and not self.wish.exclusive else 0

    def preview(self, demand: Demand, job: api.Job) -> tuple[str, str]:
        """Return the command that would submit ``job``, and the text of its script."""
        # On another machine than the login node nothing is known of limits.
        try:
            executor, _ = self.executor(demand, lambda text: None)
        except Error:
            executor = self._executor(self.wish, demand, demand.points)
        words, text = executor.submission(job)
        return shlex.join(words), text

    def executor(self, demand: Demand, say: Say) -> tuple[SlurmExecutor, int]:
        """Return an array with a task per point, as far as arrays of that length are allowed."""
        parts = min(demand.points, largest_array())
        wish = self.wish
        if not wish.options.get("time"):
            seconds = -(-demand.points // parts) * demand.seconds()
            time_limit = limit(seconds, wish.partition)
            wish = replace(wish, options={**wish.options, "time": time_limit})
        return self._executor(wish, demand, parts, say), parts

    def _executor(
        self, wish: SbatchOptions, demand: Demand, parts: int, say: Say | None = None
    ) -> SlurmExecutor:
        return SlurmExecutor(wish, parts, demand.labels, say, demand.cpus)

    def adapt(self, handle: api.JobHandle, before: Mapping[str, str], say: Say) -> bool:
        """Update the waiting tasks of a job to the flags of the command; return whether it changed.

        ``before`` are the flags that it was submitted with. Raises ``bad-value`` for one that a
        submitted job cannot change, ``slurm-failed`` where Slurm refuses.
        """
        changed = {name: v for name, v in self.flags.items() if before.get(name) != v}
        if not changed:
            return False
        number = _number(handle)
        fixed = {name: v for name, v in changed.items() if name not in _UPDATES}
        words = _as_typed(fixed or changed)
        resubmit = (
            f"to submit its points again with that: `scancel {number}`, then the same command"
        )
        if fixed:
            raise Error(
                "bad-value",
                f"job {number} of Slurm has these points, and was submitted without {words}",
                hint=f"leave that out to go on with the job;\n{resubmit}",
            )
        if "partition" in changed:
            check(self.wish.partition, ())
        try:
            moved = update_waiting(number, {_UPDATES[name]: v for name, v in changed.items()})
        except ClusterUnreachableError as problem:
            raise Error(
                "slurm-failed",
                f"job {number} of Slurm has these points, and does not take {words}: {problem}",
                hint=resubmit,
            ) from None
        what = "what waits of it has" if moved else "it runs already, without"
        say(f"{self.name} {number}: {what} {words}{' now' if moved else ''}")
        return moved


def _as_typed(flags: Mapping[str, str]) -> str:
    return " ".join(f"--{name.replace('_', '-')}={value}" for name, value in flags.items())


def _name(folder: Path) -> str:
    return f"cmbench-{folder.name}"


def _number(handle: api.JobHandle) -> str:
    return handle.id.partition(" ")[0]


def _state(tasks: Mapping[str, tuple[str, str]] | None, folder: Path) -> api.JobState:
    """Return the state of an array from those of its tasks and what they have left."""
    queued = tasks or {}
    states = Counter(state for state, _ in queued.values())
    active = sum(states[name] for name in ACTIVE)
    if active:
        return api.JobState(
            "waiting" if states["PENDING"] == active else "running", reason=_waits_for(queued)
        )
    return _ended(states, exit_codes(folder))


def _ended(states: Mapping[str, int], codes: Sequence[int]) -> api.JobState:
    if not states and not codes:
        return api.JobState("lost", reason="Slurm no longer knows it")
    bad = [name for name in states if name not in ("COMPLETED", "FAILED")]
    reason = ", ".join(f"{states[name]} {name}" for name in bad)
    if "TIMEOUT" in bad:
        reason += " (--time=MINUTES asks for more)"
    return api.JobState("ended", max(codes, default=1), reason)


def _waits_for(tasks: Mapping[str, tuple[str, str]]) -> str:
    """Return why tasks wait, where it is not for their turn."""
    waits = {reason for state, reason in tasks.values() if state == "PENDING"}
    return listed(
        sorted(waits - {"None", "Resources", "Priority", "BeginTime", "JobArrayTaskLimit"})
    )
