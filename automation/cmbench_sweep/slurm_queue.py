"""What Slurm's own commands say of a cluster: its partitions, its queue, the tasks of a job."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from cmbench.errors import Error, did_you_mean
from cmbench_sweep.clusters import POLL_S, ClusterUnreachableError

Say = Callable[[str], None]

_ANSWER_S = 60.0
_SUBMIT_S = 120.0
_LOOK_S = 0.1
_LARGEST = 1000
_ROOM_MIN = 10


def ask(words: Sequence[str], env: Mapping[str, str] | None = None, say: Say | None = None) -> str:
    """Return the output of a command of Slurm; its messages while it retries go to ``say`` at once.

    Raises ``ClusterUnreachableError``, ``slurm-missing``.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as problems:
        try:
            process = subprocess.Popen(
                words, env=_plain(env), stdin=subprocess.DEVNULL, stdout=out, stderr=problems
            )
        except FileNotFoundError:
            raise Error(
                "slurm-missing",
                f"there is no {words[0]} here",
                hint="run it on the login node of the cluster, where Slurm's commands are",
            ) from None
        try:
            status = _wait(process, problems, say)
        finally:
            process.kill()
            process.wait()
        lines = _lines(problems)
        if status is None:
            detail = f": {_plain_words(words[0], lines[-1])}" if lines else ""
            raise ClusterUnreachableError(f"{words[0]} took longer than a minute{detail}")
        if status:
            raise ClusterUnreachableError(
                _plain_words(words[0], (lines or [f"exit status {status}"])[-1])
            )
        out.seek(0)
        return out.read().decode("utf-8", "replace")


def _wait(process: subprocess.Popen[bytes], problems: IO[bytes], say: Say | None) -> int | None:
    """Wait for a command, and report its new lines; return ``None`` after the timeout.

    A line that is an error is not reported: its command ends with it, and it is raised.
    """
    end = time.monotonic() + _ANSWER_S
    reported: set[str] = set()
    while time.monotonic() < end:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_S)
        for line in _lines(problems) if say else ():
            if say and line not in reported and "error:" not in line:
                say(f"  {line}")
            reported.add(line)
    return None


def _lines(stream: IO[bytes]) -> list[str]:
    """Return what was written to a file so far, without empty lines."""
    size = os.fstat(stream.fileno()).st_size
    text = os.pread(stream.fileno(), size, 0).decode("utf-8", "replace")
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _plain_words(program: str, line: str) -> str:
    return line.strip().removeprefix(f"{program}: ").removeprefix("error: ")


def _plain(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment without variables that hide jobs: a partition, a user, a format."""
    variables = os.environ if env is None else env
    hides = ("SQUEUE_", "SINFO_", "SACCT_")
    return {key: value for key, value in variables.items() if not key.startswith(hides)}


_FULL = "temporarily unable"
_UNREACHED = re.compile(
    rf"unable to contact|connect|timed out|longer than|socket|{_FULL}", re.IGNORECASE
)


def submit(words: Sequence[str], name: str, env: Mapping[str, str], say: Say | None = None) -> str:
    """Return the number of a new job. An answer that was lost does not submit it twice."""
    end = time.monotonic() + _SUBMIT_S
    while True:
        try:
            return ask(words, env, say).strip().partition(";")[0]
        except ClusterUnreachableError as problem:
            _refuse_after(end, "sbatch", problem, say)
        time.sleep(POLL_S)
        with suppress(ClusterUnreachableError):
            numbers = ask(["squeue", "-h", f"--name={name}", "-o", "%F"]).split()
            if numbers:
                return numbers[0]


def reach(say: Say | None = None) -> None:
    """Wait for Slurm as long as for a submission; raises ``slurm-failed``, ``slurm-missing``."""
    end = time.monotonic() + _SUBMIT_S
    while True:
        try:
            ask(["sinfo", "-h", "-o", "%R"])
            return
        except ClusterUnreachableError as problem:
            _refuse_after(end, "sinfo", problem, say)
        time.sleep(POLL_S)


def _refuse_after(
    end: float, program: str, problem: ClusterUnreachableError, say: Say | None
) -> None:
    """Report a problem that may pass; raise ``slurm-failed`` for another, and after ``end``."""
    left = end - time.monotonic()
    if _UNREACHED.search(str(problem)) and left > 0:
        if say:
            say(f"waiting for Slurm, {left:.0f} s at most: {program}: {problem}")
        return
    full = "its queue is full, or its controller busy: squeue shows the queue. Repeat it later"
    refused = (
        "what is submitted: the same command with `plan` in place of `run`; sinfo shows the nodes"
    )
    raise Error(
        "slurm-failed",
        f"{program}: {problem}",
        hint=full
        if _FULL in str(problem)
        else refused
        if program == "sbatch"
        else "try it by hand: `sbatch --wrap=hostname`; sinfo shows the nodes",
    ) from None


def tasks_of(number: str) -> dict[str, tuple[str, str]] | None:
    """Return state and reason of the tasks of a job by number; ``None`` if Slurm has forgotten it.

    Raises ``ClusterUnreachableError`` if Slurm does not answer.
    """
    try:
        output = ask(["squeue", "-h", "-r", "-t", "all", "-j", number, "-o", "%K|%T|%r"])
    except ClusterUnreachableError as problem:
        if "Invalid job id" not in str(problem):
            raise
        output = ""
    rows = [line.split("|", 2) for line in output.splitlines() if line.count("|") >= 2]
    return {part: (state, reason) for part, state, reason in rows} or _accounted(number)


def _accounted(number: str) -> dict[str, tuple[str, str]] | None:
    """Return the same from the accounts of a job that has left the queue, if there are any."""
    try:
        output = ask(["sacct", "-n", "-X", "-P", "-j", number, "-o", "JobID,State"])
    except (ClusterUnreachableError, Error):
        return None
    rows = [line.partition("|") for line in output.splitlines()]
    return {row[0].partition("_")[2]: (row[2].partition(" ")[0], "") for row in rows} or None


def check(partition: str, labels: Iterable[str]) -> None:
    """Refuse partitions that are unknown or down, and labels of no node; raises ``bad-value``.

    ``partition`` names one or several, empty for the default. Where Slurm does not answer, nothing
    is refused.
    """
    try:
        output = ask(["sinfo", "-h", "-o", "%P|%a|%f"])
    except ClusterUnreachableError:
        return
    rows = [(line.split("|", 2) + ["", ""])[:3] for line in output.splitlines() if line]
    _check_partitions(partition, {name: state for name, state, _ in rows})
    texts = [
        features for name, _, features in rows if not partition or _is_selected(name, partition)
    ]
    _check_labels(set(labels), [{*text.split(",")} - {"(null)"} for text in texts])


def _check_partitions(partition: str, states: Mapping[str, str]) -> None:
    """Refuse names that are not in ``states``, and partitions none of which is up."""
    names = {name.rstrip("*") for name in states}
    for name in filter(None, partition.split(",")):
        if name not in names:
            _refuse("partition", name, names)
    chosen = {n.rstrip("*"): state for n, state in states.items() if _is_selected(n, partition)}
    if chosen and "up" not in chosen.values():
        up = sorted(name.rstrip("*") for name, state in states.items() if state == "up")
        name, state = next(iter(chosen.items()))
        raise Error(
            "bad-value",
            f"Slurm's partition {name} is {state}: nothing starts there",
            hint=f"write --partition={up[0]}; up are: {', '.join(up)}"
            if up
            else "no partition is up: sinfo shows them",
        )


def _check_labels(labels: set[str], features: Sequence[set[str]]) -> None:
    existing = set().union(*features)
    for name in sorted(labels - existing):
        _refuse("node with the label", name, existing)
    if labels and not any(labels <= available for available in features):
        _refuse("node with all of", ", ".join(sorted(labels)), existing)


def _refuse(what: str, name: str, existing: Iterable[str]) -> None:
    names = sorted(existing)
    hint = did_you_mean(name, names) or f"there are: {', '.join(names) or 'none'}"
    raise Error("bad-value", f"Slurm has no {what} {name}", hint=hint)


def limit(seconds: float, partition: str) -> str:
    """Return a time limit for ``seconds`` of work as ``sbatch`` takes it, in minutes.

    It leaves room for the start, and is not above that of the partition. Empty for no seconds.
    """
    if seconds <= 0:
        return ""
    minutes = int(seconds / 60) + _ROOM_MIN
    with suppress(ClusterUnreachableError):
        rows = [r.split() for r in ask(["sinfo", "-h", "-o", "%P %l"]).splitlines()]
        own = [most for name, most in rows if _is_selected(name, partition)]
        bounds = filter(None, map(_minutes, own))
        minutes = min([minutes, *bounds])
    return str(minutes)


def _is_selected(name: str, partition: str) -> bool:
    """Return whether a task may go to a partition; the default one has a star behind its name."""
    return name.rstrip("*") in partition.split(",") if partition else name.endswith("*")


def _minutes(text: str) -> int:
    """Return a time of Slurm, ``[days-]hours:minutes:seconds`` or less; 0 for none."""
    days, _, rest = text.rpartition("-")
    if not re.fullmatch(r"[\d:]+", rest):
        return 0
    parts = [0, 0, *map(int, rest.split(":"))][-3:]
    return int(days or 0) * 1440 + parts[0] * 60 + parts[1]


def largest_array() -> int:
    """Return how many tasks an array may have; the usual limit if Slurm does not say."""
    try:
        config = ask(["scontrol", "show", "config"])
    except ClusterUnreachableError:
        return _LARGEST
    match = re.search(r"MaxArraySize\s*=\s*(\d+)", config)
    return max(1, int(match[1]) - 1) if match else _LARGEST


def update_waiting(number: str, settings: Mapping[str, str]) -> bool:
    """Change what the waiting tasks of a job ask for; whether there are any.

    ``settings`` have the names that ``scontrol update`` knows. Raises ``ClusterUnreachableError``.
    """
    waiting = ask(["squeue", "-h", "-t", "PD", "-j", number, "-o", "%i"]).split()
    words = [f"{name}={value}" for name, value in settings.items()]
    for task in waiting:
        ask(["scontrol", "update", f"JobId={task}", *words])
    return bool(waiting)
