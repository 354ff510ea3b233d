"""The executor of this machine: a process in a group of its own, and its end within seconds."""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from cmbench.errors import Error
from cmbench.lib import orphans
from cmbench.run.executor import LOOK_SECONDS, RUNNING, Job, JobHandle, JobState, run_job

GRACE_SECONDS = 2.0


class LocalExecutor:
    """Runs jobs as processes of this machine, in process groups of their own.

    To cancel one ends its whole group, by force after ``GRACE_SECONDS`` or a second interruption,
    and what has left the group, such as ``timeout 60 make``: all descendants, and also those
    without a parent where the environment of the job names its ``scratch``.
    """

    name = "local"

    def __init__(self) -> None:
        self._jobs: dict[str, _Process] = {}

    def submit(self, job: Job) -> JobHandle:
        """Start ``job``; raises ``cannot-start``."""
        process = _start(_observed(job), job.command[0], job.cwd, job.environment)
        handle = JobHandle(self.name, str(process.pid))
        self._jobs[handle.id] = _Process(process, job.scratch)
        return handle

    def logs(self, handle: JobHandle) -> list[str]:
        """New lines of its output."""
        return self._jobs[handle.id].lines()

    def poll(self, handle: JobHandle) -> JobState:
        """Return the state of the job: running, or its exit status once its output is closed."""
        job = self._jobs[handle.id]
        return JobState("ended", job.process.wait()) if job.over else RUNNING

    def cancel(self, handle: JobHandle) -> None:
        """End it with all that it has started."""
        job = self._jobs.pop(handle.id)
        try:
            end_all(job.process, job.scratch)
        finally:
            job.close()

    def fetch(self, handle: JobHandle) -> None:
        """All is here already."""
        self._jobs.pop(handle.id).close()


def run_process(
    command: list[str],
    cwd: str,
    environment: Mapping[str, str],
    line: Callable[[str], None],
    pulse: Callable[[], None] = lambda: None,
    scratch: str = "",
) -> int:
    """Run ``command`` on this machine as ``run_job`` does; returns its exit status."""
    job = Job(tuple(command), cwd, environment, scratch)
    return run_job(LocalExecutor(), job, line, pulse).exit_code


def _observed(job: Job) -> list[str]:
    """Return the command of ``job``: below its observer, unless there is nothing to start."""
    import shutil

    is_there = job.observed and shutil.which(job.command[0], path=job.environment.get("PATH"))
    return list(job.observed if is_there else job.command)


def _start(
    command: list[str], name: str, cwd: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as problem:
        raise Error(
            "cannot-start",
            f"cannot start {name}: {problem.strerror}",
            hint=_remedy(problem, name, environment),
        ) from None


_REMEDIES = {
    errno.EACCES: "run it in a folder that you may enter, with programs that you may execute",
    errno.EMFILE: "raise the limit of open files: ulimit -n 1024",
    errno.EAGAIN: "raise the limit of processes (ulimit -u), or end some",
    errno.ENOMEM: "end programs that use memory, or raise its limit (ulimit -v)",
}


def _remedy(problem: OSError, program: str, environment: Mapping[str, str]) -> str:
    remedy = _REMEDIES.get(problem.errno or 0)
    if remedy:
        return remedy
    if problem.errno != errno.E2BIG:
        return f"install {program} or put it on PATH"
    key = max(environment, key=lambda name: len(environment[name]))
    size = len(environment[key])
    return f"the longest value, of {key}, has {size} characters: pass it in a file"


class _Process:
    """A started process and its output so far."""

    def __init__(self, process: subprocess.Popen[bytes], scratch: str) -> None:
        assert process.stdout is not None
        self.process = process
        self.scratch = scratch
        self.over = False
        self._stream = process.stdout
        self._rest = b""
        os.set_blocking(self._stream.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stream, selectors.EVENT_READ)

    def lines(self) -> list[str]:
        """Whole lines that are new; ``over`` from the last one on."""
        # Polled first: what a program that has ended wrote is all there to be read, even where the
        # wait is over at once, as after Ctrl-Z and fg. Who writes for it may take a moment more.
        ended = self.process.poll() is not None
        self._selector.select(timeout=LOOK_SECONDS)
        data = self._stream.read(65536)
        if data:
            *lines, self._rest = (self._rest + data).split(b"\n")
            return [_visible(item) for item in lines]
        self.over = data == b"" or ended
        return [_visible(self._rest)] if self.over and self._rest else []

    def close(self) -> None:
        """Let go of its output."""
        self._selector.close()
        self._stream.close()


def _visible(raw: bytes) -> str:
    """Return the last state of a line that a program drew over with carriage returns."""
    return raw.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")


def end_all(process: subprocess.Popen[bytes], scratch: str) -> None:
    """End a process with all that it has started: ask first, force after ``GRACE_SECONDS``."""
    family = orphans.Family(scratch, process.pid)
    try:
        # The parents are known by now only: a signal may leave their children without a parent.
        family.living()
        _signal_all(process, family, signal.SIGTERM, GRACE_SECONDS)
    finally:
        # Who presses Ctrl-C again while they have time to end has waited long enough.
        _signal_all(process, family, signal.SIGKILL, 0.5)
        with suppress(Exception):
            process.wait(timeout=1)


def _signal_all(
    process: subprocess.Popen[bytes], family: orphans.Family, number: int, patience: float
) -> None:
    """Send a signal to the group and to what has left it; wait until all are gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
    family.send_signal(number)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and _alive(process, family):
        time.sleep(0.05)


def _alive(process: subprocess.Popen[bytes], family: orphans.Family) -> bool:
    process.poll()
    if family.living():
        return True
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
