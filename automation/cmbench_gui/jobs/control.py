"""Start and stop runs: processes of their own, that need neither the page nor the server."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from cmbench import api
from cmbench.api import RunSummary
from cmbench.errors import Error
from cmbench.lib import locks, orphans
from cmbench.record import NAMED, new_run_id
from cmbench_gui.site import Site

STARTED, OUTPUT = "job.json", "output.txt"
GRACE_S = 3.5
"""A run ends its programs within 2.5 s; what is there after this is ended by force."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run with what this server knows of it: ``output`` is what its command has printed.

    ``left`` is whether processes that it has started run on, though it was killed itself.
    """

    run: RunSummary
    status: str
    command: tuple[str, ...]
    error: str = ""
    left: bool = False

    @property
    def id(self) -> str:
        """The id of its run."""
        return self.run.id

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.status == "running"

    @property
    def output(self) -> str:
        """The file of what its command has printed."""
        return os.path.join(self.run.folder, OUTPUT)


def jobs(site: Site, limit: int = 50) -> list[Job]:
    """The newest runs of the home, the newest first."""
    return _with_left([_job(run) for run in api.runs(site.workspace(), limit)])


def job(site: Site, run: str) -> Job:
    """One of them; raises ``entry-not-found``."""
    return _with_left([_job(api.one_run(site.workspace(), run))])[0]


def _with_left(jobs_listed: list[Job]) -> list[Job]:
    """Return jobs with the leftovers of the killed ones; searches only where one was killed."""
    killed = [job.run.folder for job in jobs_listed if job.status == "killed"]
    left = orphans.occupied(killed) if killed else set()
    return [replace(job, left=True) if job.run.folder in left else job for job in jobs_listed]


def _job(run: RunSummary) -> Job:
    """A run, also before its first event, and if it never had one."""
    command, status, error = run.command, run.status, run.error
    if status == "killed":
        pid, ticks, words = _started(run.folder)
        command = command or words
        if pid and orphans.started(pid) == ticks:
            status = "running"
        elif not os.path.exists(os.path.join(run.folder, "log.txt")):
            status, error = "failed", _last_line(run.folder)
    return Job(run, status, command, error)


def _started(folder: str) -> tuple[int, str, tuple[str, ...]]:
    """Pid, its start time and words of a run that was started here; 0 for another one."""
    try:
        with open(os.path.join(folder, STARTED), encoding="utf-8") as stream:
            data = json.load(stream)
        return int(data["pid"]), str(data["ticks"]), tuple(map(str, data["command"]))
    except (OSError, ValueError, KeyError, TypeError):
        return 0, "", ()


def _last_line(folder: str) -> str:
    try:
        with open(os.path.join(folder, OUTPUT), encoding="utf-8", errors="replace") as stream:
            lines = [line.strip() for line in stream if line.strip()]
    except OSError:
        return ""
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1 if not errors else 0]


def start(site: Site, words: Sequence[str]) -> str:
    """Start the command ``words`` in the background; the id of its run.

    A command that runs now is not started a second time: two browsers see the same run. Raises
    ``refused``, ``cannot-start``.
    """
    if not site.may_run:
        raise Error("refused", "this server runs nothing", hint="start it without --no_run")
    parent = os.path.join(site.home, "cmbench", "runs")
    lock = os.path.join(parent, "starting.lock")
    try:
        os.makedirs(parent, exist_ok=True)
        # Two servers of one home wait for the lock, too.
        handle = locks.acquire(lock)
    except OSError as problem:
        raise _cannot_start(problem) from None
    try:
        command = set(words)
        for other in jobs(site, 20):
            if other.running and set(other.command) == command:
                return other.id
        return _start(site, words, parent)
    finally:
        locks.release(lock, handle)


def _cannot_start(problem: OSError) -> Error:
    reason = problem.strerror or str(problem)
    hint = "free some of the disk: `cm gc cache`" if problem.errno == errno.ENOSPC else ""
    return Error("cannot-start", f"the command cannot be started: {reason}", hint=hint)


def _start(site: Site, words: Sequence[str], parent: str) -> str:
    run = new_run_id()
    folder = os.path.join(parent, run)
    process = None
    try:
        os.makedirs(folder)
        process = _process(site, words, run, folder)
        data = {"pid": process.pid, "ticks": orphans.started(process.pid), "command": list(words)}
        draft = os.path.join(folder, STARTED + ".new")
        with open(draft, "w", encoding="utf-8") as stream:
            json.dump(data, stream)
        os.rename(draft, os.path.join(folder, STARTED))
    except OSError as problem:
        # A run that could not be listed again, or stopped, is ended.
        if process is not None:
            _end(process.pid, folder, os.killpg)
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
        raise _cannot_start(problem) from None
    # No other code reaps the process while this server lives.
    threading.Thread(target=process.wait, daemon=True).start()
    return run


def _process(site: Site, words: Sequence[str], run: str, folder: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, NAMED: run, "CM_REPOS": site.home, "PYTHONUNBUFFERED": "1"}
    with open(os.path.join(folder, OUTPUT), "wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "cmind", *words[1:]],
            cwd=site.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def stop(site: Site, run: str) -> bool:
    """End a run with all that it has started, within five seconds; whether there was anything.

    Of a job that was killed itself, stop its leftover processes.
    """
    target = job(site, run)
    if target.left:
        orphans.stop(target.run.folder)
        return True
    pid, ticks, _ = _started(target.run.folder)
    ours = bool(pid) and orphans.started(pid) == ticks
    pid = pid if ours else target.run.pid
    if not (target.running and pid):
        return False
    _end(pid, target.run.folder, os.killpg if ours else os.kill)
    return True


def _end(pid: int, folder: str, kill: Callable[[int, int], None]) -> None:
    """End the run of a process with all that it has started; ``kill`` is for one that stays."""
    family = orphans.Family(folder, pid)
    family.living()
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while orphans.started(pid) and time.monotonic() < deadline:
        family.living()
        time.sleep(0.05)
    if orphans.started(pid):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    family.end(0.5)
