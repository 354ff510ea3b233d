"""The executor of clusters under Slurm: one array for any number of points.

A job is in the queue of Slurm, and no process needs to wait for it: the submitter may die, and
another process finds the job again by its handle. The folder of a job, its points and the cache
are on a file system that the nodes share. ``docs/decisions/052`` tells how states are found.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from cmbench import api
from cmbench.errors import Error, did_you_mean
from cmbench.lib.text_files import listed
from cmbench_sweep.clusters import Container, Output, exit_codes, task_script

ACTIVE = (
    *("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"),
    *("REQUEUE_FED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SPECIAL_EXIT"),
)
"""States of a task that will still do something (the manual of squeue)."""
SILENT_S = 900.0
"""So long a cluster may answer nothing before waiting for it ends."""
_SUBMIT_S = 120.0
_LOOK_S = 0.2
_PAUSE_S = 2.0
_LARGEST = 1000
_ROOM_MIN = 10
_HELD, _RELEASES = "launch_failed_requeued_held", 3


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of Slurm besides the points: texts as ``sbatch`` takes them.

    ``scratch`` is a folder of the nodes in which runs write.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    gres: str = ""
    time: str = ""
    exclusive: bool = True
    scratch: str = ""

    def words(self, labels: Sequence[str]) -> Iterator[str]:
        """The options of ``sbatch``; ``labels`` are features that a node must have."""
        for name in ("partition", "account", "qos", "gres", "time"):
            if getattr(self, name):
                yield f"--{name}={getattr(self, name)}"
        wanted = "&".join(filter(None, (self.constraint, *labels)))
        if wanted:
            yield f"--constraint={wanted}"
        if self.exclusive:
            yield "--exclusive"


class SlurmExecutor:
    """Runs jobs as arrays of ``parts`` tasks on nodes that have all of ``labels``.

    The word ``{part}`` of a command becomes the number of the task. Raises ``slurm-failed`` where
    Slurm refuses, or answers nothing for ``SILENT_S`` seconds.
    """

    name = "slurm"

    def __init__(
        self, wish: Wish | None = None, parts: int = 1, labels: Sequence[str] = ()
    ) -> None:
        self._wish = wish or Wish()
        self._parts = parts
        self._labels = tuple(labels)
        self._output = Output()
        self._states: dict[str, tuple[float, api.JobState]] = {}
        self._heard: dict[str, float] = {}
        self._released: Counter[str] = Counter()

    def submit(self, job: api.Job) -> api.JobHandle:
        """Put ``job`` into the queue; raises ``bad-value``, ``slurm-failed``, ``slurm-missing``."""
        check(self._wish, self._labels)
        folder = Path(job.scratch)
        script = folder / "job.sh"
        script.write_text(task_script(job, "$SLURM_ARRAY_TASK_ID"), encoding="utf-8")
        name = f"cmbench-{folder.name}"
        words = [
            *("sbatch", "--parsable", f"--job-name={name}", f"--array=0-{self._parts - 1}"),
            *(f"--output={folder}/output-%a.txt", "--open-mode=append", "--requeue"),
            # The worker needs its own, whatever SBATCH_EXPORT says.
            "--export=ALL",
            *(f"--chdir={job.cwd}", *self._wish.words(self._labels), str(script)),
        ]
        number = _submitted(words, name, job.environment)
        return api.JobHandle(self.name, f"{number} {folder}")

    def logs(self, handle: api.JobHandle) -> list[str]:
        """New lines of all tasks."""
        found = self._output.lines(_parts_of(handle)[1])
        if not found:
            time.sleep(_LOOK_S)
        return found

    def poll(self, handle: api.JobHandle) -> api.JobState:
        """How the whole array goes; asks Slurm every two seconds at most.

        Raises ``slurm-failed`` where it has answered nothing for too long.
        """
        asked, state = self._states.get(handle.id, (0.0, api.JobState("waiting")))
        if time.monotonic() - asked >= _PAUSE_S:
            state = self._asked(handle)
            self._states[handle.id] = (time.monotonic(), state)
        return state

    def _asked(self, handle: api.JobHandle) -> api.JobState:
        number, folder = _parts_of(handle)
        now = time.monotonic()
        first = self._heard.setdefault(handle.id, now)
        try:
            tasks = tasks_of(number)
        except SilentError as problem:
            if now - first > SILENT_S:
                raise Error(
                    "slurm-failed",
                    f"Slurm has not answered for {now - first:.0f} s: {problem}",
                    hint="the job stays in its queue: the same command finds it again",
                ) from None
            return api.JobState("running", reason=f"Slurm does not answer: {problem}")
        self._heard[handle.id] = now
        self._release(number, tasks or {})
        return _state(tasks, folder)

    def _release(self, number: str, tasks: Mapping[str, tuple[str, str]]) -> None:
        """Let tasks go on that Slurm holds because it could not start them; a few times each.

        It does so where a node, or Slurm itself, has died at the moment of the start.
        """
        for part, (_, reason) in tasks.items():
            task = f"{number}_{part}"
            if _HELD in reason.replace(" ", "_") and self._released[task] < _RELEASES:
                self._released[task] += 1
                with suppress(SilentError):
                    _ask(["scontrol", "release", task])

    def cancel(self, handle: api.JobHandle) -> None:
        """End all tasks, those that wait and those that run."""
        with suppress(SilentError):
            _ask(["scancel", _parts_of(handle)[0]])

    def fetch(self, handle: api.JobHandle) -> None:
        """All is here already: the file system is shared."""


@dataclass(frozen=True, slots=True)
class SlurmCluster:
    """A cluster under Slurm; ``wish`` is what is asked of it besides labels."""

    wish: Wish
    container: Container | None = None
    name: ClassVar[str] = SlurmExecutor.name

    @property
    def scratch(self) -> str:
        """As in the wish."""
        return self.wish.scratch

    def reach(self) -> None:
        """Wait for Slurm; raises ``slurm-failed``, ``slurm-missing``."""
        reach()

    def check(self, labels: Sequence[str]) -> None:
        """Refuse labels that are features of no node; raises ``bad-value``."""
        check(self.wish, labels)

    def looker(self) -> SlurmExecutor:
        """What looks at any job."""
        return SlurmExecutor()

    def executor(
        self, labels: Sequence[str], points: int, seconds: Callable[[], float]
    ) -> tuple[SlurmExecutor, int]:
        """One array, a task for each point as far as arrays of that length are allowed."""
        parts = min(points, largest_array())
        wish = self.wish
        if not wish.time:
            wish = replace(wish, time=limit(-(-points // parts) * seconds(), wish.partition))
        return SlurmExecutor(wish, parts, labels), parts


class SilentError(Exception):
    """Slurm did not answer, or refused; the text is its own."""


def _parts_of(handle: api.JobHandle) -> tuple[str, Path]:
    number, _, folder = handle.id.partition(" ")
    return number, Path(folder)


def _ask(words: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """The output of a command of Slurm; raises ``SilentError``, ``slurm-missing``."""
    try:
        done = subprocess.run(
            words,
            env=_plain(env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise Error(
            "slurm-missing",
            f"there is no {words[0]} here",
            hint="run it on the login node of the cluster, where Slurm's commands are",
        ) from None
    except subprocess.TimeoutExpired:
        raise SilentError(f"{words[0]} took longer than a minute") from None
    if done.returncode:
        told = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise SilentError(told[-1].removeprefix(f"{words[0]}: ").removeprefix("error: "))
    return done.stdout


def _plain(env: Mapping[str, str] | None) -> dict[str, str]:
    """Without what makes these commands show less: a partition, a user, a format of somebody's."""
    given = os.environ if env is None else env
    hides = ("SQUEUE_", "SINFO_", "SACCT_")
    return {key: value for key, value in given.items() if not key.startswith(hides)}


_UNREACHED = re.compile(r"unable to contact|connect|timed out|longer than|socket", re.IGNORECASE)


def _submitted(words: Sequence[str], name: str, env: Mapping[str, str]) -> str:
    """The number of a new job. An answer that was lost does not submit it twice."""
    end = time.monotonic() + _SUBMIT_S
    while True:
        try:
            return _ask(words, env).strip().partition(";")[0]
        except SilentError as problem:
            _refuse_after(end, "sbatch", problem)
        time.sleep(_PAUSE_S)
        with suppress(SilentError):
            known = _ask(["squeue", "-h", f"--name={name}", "-o", "%F"]).split()
            if known:
                return known[0]


def reach() -> None:
    """Wait for Slurm as long as for a submission; raises ``slurm-failed``, ``slurm-missing``."""
    end = time.monotonic() + _SUBMIT_S
    while True:
        try:
            _ask(["sinfo", "-h", "-o", "%R"])
            return
        except SilentError as problem:
            _refuse_after(end, "sinfo", problem)
        time.sleep(_PAUSE_S)


def _refuse_after(end: float, program: str, problem: SilentError) -> None:
    """Raise ``slurm-failed`` where Slurm has refused, or was not reached until ``end``."""
    if not _UNREACHED.search(str(problem)) or time.monotonic() > end:
        raise Error(
            "slurm-failed",
            f"{program}: {problem}",
            hint="try it by hand: sbatch --wrap=hostname; sinfo shows the nodes",
        ) from None


def tasks_of(number: str) -> dict[str, tuple[str, str]] | None:
    """State and reason of each task of a job by its number; ``None`` where Slurm has forgotten it.

    Raises ``SilentError`` where nobody answers.
    """
    try:
        told = _ask(["squeue", "-h", "-r", "-t", "all", "-j", number, "-o", "%K|%T|%r"])
    except SilentError as problem:
        if "Invalid job id" not in str(problem):
            raise
        told = ""
    rows = [line.split("|", 2) for line in told.splitlines() if line.count("|") >= 2]
    return {part: (state, reason) for part, state, reason in rows} or _accounted(number)


def _accounted(number: str) -> dict[str, tuple[str, str]] | None:
    """The same from the accounts of a job that has left the queue, where there are accounts."""
    try:
        told = _ask(["sacct", "-n", "-X", "-P", "-j", number, "-o", "JobID,State"])
    except (SilentError, Error):
        return None
    rows = [line.partition("|") for line in told.splitlines()]
    return {row[0].partition("_")[2]: (row[2].partition(" ")[0], "") for row in rows} or None


def _state(tasks: Mapping[str, tuple[str, str]] | None, folder: Path) -> api.JobState:
    """The state of an array from those of its tasks and what they have left."""
    known = tasks or {}
    states = Counter(state for state, _ in known.values())
    active = sum(states[name] for name in ACTIVE)
    if active:
        return api.JobState(
            "waiting" if states["PENDING"] == active else "running", reason=_waits_for(known)
        )
    return _ended(states, exit_codes(folder))


def _ended(states: Mapping[str, int], codes: Sequence[int]) -> api.JobState:
    if not states and not codes:
        return api.JobState("lost", reason="Slurm no longer knows it")
    bad = [name for name in states if name not in ("COMPLETED", "FAILED")]
    told = ", ".join(f"{states[name]} {name}" for name in bad)
    if "TIMEOUT" in bad:
        told += " (--time=MINUTES asks for more)"
    return api.JobState("ended", max(codes, default=1), told)


def _waits_for(tasks: Mapping[str, tuple[str, str]]) -> str:
    """Why tasks wait, where it is not for their turn."""
    waits = {reason for state, reason in tasks.values() if state == "PENDING"}
    return listed(sorted(waits - {"None", "Resources", "Priority", "BeginTime"}))


def check(wish: Wish, labels: Iterable[str]) -> None:
    """Refuse a partition or labels that no node has, with the nearest names; raises ``bad-value``.

    Where Slurm does not answer, nothing is refused.
    """
    try:
        told = _ask(["sinfo", "-h", "-o", "%R|%f"])
    except SilentError:
        return
    rows = [line.partition("|")[::2] for line in told.splitlines()]
    asked = [name for name in wish.partition.split(",") if name]
    _check_partitions(asked, {partition for partition, _ in rows})
    features = [{*text.split(",")} for partition, text in rows if partition in asked or not asked]
    _check_labels(set(labels), [each - {"(null)"} for each in features])


def _check_partitions(asked: Iterable[str], known: set[str]) -> None:
    for name in asked:
        if name not in known:
            _refuse("partition", name, known)


def _check_labels(wanted: set[str], features: Sequence[set[str]]) -> None:
    known = set().union(*features)
    for name in sorted(wanted - known):
        _refuse("node with the label", name, known)
    if wanted and not any(wanted <= each for each in features):
        _refuse("node with all of", ", ".join(sorted(wanted)), known)


def _refuse(what: str, name: str, known: Iterable[str]) -> None:
    names = sorted(known)
    hint = did_you_mean(name, names) or f"there are: {', '.join(names) or 'none'}"
    raise Error("bad-value", f"Slurm has no {what} {name}", hint=hint)


def limit(seconds: float, partition: str) -> str:
    """A time limit for ``seconds`` of work as ``sbatch`` takes it, in minutes.

    It leaves room for the start, and is not above that of the partition. Empty for no seconds.
    """
    if seconds <= 0:
        return ""
    minutes = int(seconds / 60) + _ROOM_MIN
    with suppress(SilentError):
        rows = [r.split() for r in _ask(["sinfo", "-h", "-o", "%P %l"]).splitlines()]
        own = [most for name, most in rows if _is_asked(name, partition)]
        bounds = filter(None, map(_minutes, own))
        minutes = min([minutes, *bounds])
    return str(minutes)


def _is_asked(name: str, partition: str) -> bool:
    """Whether a task may go to a partition; the default one has a star behind its name."""
    return name.rstrip("*") in partition.split(",") if partition else name.endswith("*")


def _minutes(text: str) -> int:
    """A time of Slurm, ``[days-]hours:minutes:seconds`` or less; 0 for none."""
    days, _, rest = text.rpartition("-")
    if not re.fullmatch(r"[\d:]+", rest):
        return 0
    parts = [0, 0, *map(int, rest.split(":"))][-3:]
    return int(days or 0) * 1440 + parts[0] * 60 + parts[1]


def largest_array() -> int:
    """How many tasks one array may have; what most clusters allow where Slurm does not say."""
    try:
        told = _ask(["scontrol", "show", "config"])
    except SilentError:
        return _LARGEST
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", told)
    return max(1, int(found[1]) - 1) if found else _LARGEST
