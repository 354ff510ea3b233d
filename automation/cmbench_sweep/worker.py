"""Measures points one after the other, on the machine where it runs: ``python -m …worker JOB``.

It is the native program that executors run. Every run of a point is a process of its own, made by
``fork`` from one that has the engine loaded: a run that crashes, hangs or is ended takes nothing
with it. What comes out is on the disk before the next point starts; standard output only reports.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from cmbench import api
from cmbench.errors import Error, internal
from cmbench.lib.causes import find_cause
from cmbench_sweep.figures import figures_of
from cmbench_sweep.points import request_of
from cmbench_sweep.preparing import prepare, take_in
from cmbench_sweep.store import PointStore, clear, decode, machine
from cmbench_sweep.values import (
    FAILED,
    MEASURED,
    PointOutcome,
    Repeat,
    SweepPoint,
    SweepRun,
    spread,
)

GRACE_S = 4.0
"""A run that is to end has so many seconds before it is killed."""
_PULSE_S = 0.5
_INTERRUPTED = "interrupted"
_NO_SPACE = "no-space"
_MAKE_ROOM = "make room on that disk, and repeat the command to continue"
_FULL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PointBatch:
    """What a worker is given.

    ``home`` is the CM home and ``root`` the folder of cmbench in it; ``judged`` is the figure
    whose spread ends the repeats. ``bound``: it ends with the process that has started it.
    ``until`` is the time at which no further run starts, 0 for never; ``parts`` workers divide it.
    Before the first run the cache entries of ``archive`` are taken in, as far as they fit, and what
    the points ``prepare`` need besides is made. ``scratch`` is a folder of the machine in which
    runs write; what they have left there goes to the home when they have ended. Outcomes of the
    versions ``replaced`` do not count: those points are measured again. ``environment`` are
    variables of the runs; in their values ``$NAME`` is a variable of the machine.
    """

    home: str
    repositories: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    record: Mapping[str, str]
    repeat: Repeat
    judged: str = ""
    point_seconds: float = 0.0
    until: float = 0.0
    bound: bool = True
    parts: int = 1
    prepare: tuple[SweepPoint, ...] = ()
    archive: str = ""
    scratch: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class StopError(Exception):
    """The worker must end; its current point is still to do."""


class PointWorker:
    """Works through a batch; several on one file system divide it among themselves."""

    def __init__(self, batch: PointBatch) -> None:
        self._batch = batch
        self._workspace = api.Workspace.open(batch.home, batch.repositories)
        self._store = PointStore(self._workspace.root, batch.replaced)
        self._parent = os.getppid()
        self._out: Any = sys.stdout
        self._waits: set[str] = set()
        # Loaded before the first fork, not after every one.
        _load()

    def work(self) -> None:
        """Measure every open point that no other process measures; wait for the others.

        Raises ``Error`` where nothing can be kept, ``StopError`` where it is to end.
        """
        if self._batch.prepare:
            with machine(self._report_busy):
                self._prepare()
        left: Sequence[SweepPoint] = self._batch.points
        while left:
            taken = [point for point in left if not self._point(point)]
            if len(taken) == len(left):
                self._report_wait("other processes are at the points that are left")
                self._check()
                time.sleep(_PULSE_S)
            left = taken

    def _prepare(self) -> None:
        if self._batch.archive:
            take_in(self._workspace, self._batch.archive)
        prepare(self._workspace, self._batch.prepare)

    def _point(self, point: SweepPoint) -> bool:
        """Measure a point unless it is done; false where another process is at it."""
        self._check()
        with self._store.claim(point.key) as mine:
            if not mine:
                return False
            outcome = self._store.outcome(point.key)
            if not outcome.done:
                with machine(self._report_busy):
                    outcome = self._measure(point, outcome)
            self._report_outcome(point, outcome)
        return True

    def _check(self) -> None:
        late = self._batch.until and time.time() > self._batch.until
        if late or (self._batch.bound and os.getppid() != self._parent):
            raise StopError

    def _measure(self, point: SweepPoint, outcome: PointOutcome) -> PointOutcome:
        """Run a point until its rule says enough; store every run when it has ended."""
        batch = self._batch
        while not outcome.done:
            number = len(outcome.runs) + 1
            run, answer = self._run(point, self._store.run_folder(point.key) / f"run-{number}")
            if answer["code"] == _NO_SPACE:
                # It is the machine that has failed, not the point.
                raise Error(_NO_SPACE, answer["reason"], hint=_MAKE_ROOM)
            if run is None:
                reason, code, record = (answer[key] for key in ("reason", "code", "record"))
                host = socket.gethostname()
                outcome = replace(
                    outcome, status=FAILED, reason=reason, code=code, record=record, host=host
                )
            else:
                outcome = replace(outcome, runs=(*outcome.runs, run), host=run.host)
                if enough(outcome, batch.repeat, batch.judged):
                    outcome = replace(outcome, status=MEASURED)
            self._store.put(outcome)
        return outcome

    def _run(self, point: SweepPoint, folder: Path) -> tuple[SweepRun | None, Mapping[str, Any]]:
        """Run a point in a process of its own; return ``None`` and the reason if it fails."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        began = time.monotonic()
        # What a run has left that was killed, or is measured anew, is none of this one's figures.
        clear(folder)
        answer = self._in_a_process(point, folder)
        if answer["code"] == _INTERRUPTED:
            raise StopError
        if "figures" not in answer:
            return None, answer
        seconds = round(time.monotonic() - began, 3)
        return SweepRun(
            answer["figures"], seconds, answer["record"], socket.gethostname(), at
        ), answer

    def _in_a_process(self, point: SweepPoint, folder: Path) -> dict[str, Any]:
        if not self._batch.scratch:
            return self._forked(point, folder)
        scratch = Path(os.path.expandvars(self._batch.scratch)).absolute()
        try:
            scratch.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="cmbench-", dir=scratch) as near:
                answer = self._forked(point, Path(near))
                shutil.copytree(near, folder, dirs_exist_ok=True, symlinks=True)
                return answer
        except (OSError, shutil.Error) as problem:
            raise Error(
                "file-error", f"--scratch: {scratch}: {problem}", hint="name a folder of the nodes"
            ) from None

    def _forked(self, point: SweepPoint, folder: Path) -> dict[str, Any]:
        reading, writing = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(self._workspace, point, self._batch.record, folder, writing)
        os.close(writing)
        try:
            said = self._attend(pid, reading)
        except BaseException:
            _end(pid)
            raise
        finally:
            os.close(reading)
        _, status = os.waitpid(pid, 0)
        return _parse_answer(said, status, self._batch.point_seconds)

    def _attend(self, pid: int, reading: int) -> bytes:
        """Return what the run says until its end; one that is out of time is ended."""
        limit = self._batch.point_seconds
        end = time.monotonic() + limit if limit else float("inf")
        said = b""
        while True:
            wait = min(_PULSE_S, max(0.0, end - time.monotonic()))
            if select.select([reading], [], [], wait)[0]:
                part = os.read(reading, 1 << 16)
                if not part:
                    return said
                said += part
            elif time.monotonic() >= end:
                _end(pid, reap=False)
                return _LATE
            if self._batch.bound and os.getppid() != self._parent:
                raise StopError

    def _report_outcome(self, point: SweepPoint, outcome: PointOutcome) -> None:
        """Report how a point has ended; listeners are optional."""
        self._print({"point": point.key, "status": outcome.status})

    def _report_busy(self) -> None:
        self._report_wait(f"something else is measured on {socket.gethostname()}")

    def _report_wait(self, why: str) -> None:
        """Report once why nothing goes on."""
        if why not in self._waits:
            self._waits.add(why)
            self._print({"waits": why})

    def _print(self, said: Mapping[str, str]) -> None:
        with suppress(OSError):
            print(json.dumps(said), file=self._out, flush=True)


_LATE = b'{"late": true}'


def enough(outcome: PointOutcome, repeat: Repeat, judged: str) -> bool:
    """Return whether a point has been run often enough."""
    runs = len(outcome.runs)
    if runs >= repeat.most or runs < repeat.least:
        return runs >= repeat.most
    name = judged or next(iter(outcome.names), "")
    apart = spread(outcome.all_of(name))
    return apart is not None and apart <= repeat.spread


def _load() -> None:
    """Import what every run needs."""
    for name in ("cmbench.api.running", "cmbench_results.readers.run"):
        import_module(name)


def _parse_answer(said: bytes, status: int, limit: float) -> dict[str, Any]:
    """Return what a run has said, or why it has said nothing."""
    try:
        answer: dict[str, Any] = json.loads(said)
    except ValueError:
        answer = {}
    failed = {"reason": "", "code": "", "record": "", **answer}
    error = _without_answer(answer, status, limit)
    return failed if error is None else {**failed, "reason": error.message, "code": error.code}


def _without_answer(answer: Mapping[str, Any], status: int, limit: float) -> Error | None:
    """Return why a run has not said how it went; ``None`` where it has."""
    if answer.get("late"):
        return Error("out-of-time", f"it ran past {limit:g} s")
    if answer:
        return None
    number = os.waitstatus_to_exitcode(status)
    ended = f"by {signal.Signals(-number).name}" if number < 0 else f"with status {number}"
    return Error("run-lost", f"its process was ended {ended}")


def _end(pid: int, reap: bool = True) -> None:
    """End a run with all that it has started."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            done = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if done is not None:
                break
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
    if reap:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _child(
    workspace: api.Workspace,
    point: SweepPoint,
    record: Mapping[str, str],
    folder: Path,
    writing: int,
) -> None:
    """The process of one run: it says how that went, and ends."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    _end_with_the_worker()
    said: dict[str, Any] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _quiet(folder / "output.txt")
        os.chdir(folder)
        ran = api.run(request_of(workspace, {**point.flags, "quiet": True}))
        said = {"code": "", "record": ran.record}
        said["figures"] = figures_of(ran, record, str(folder))
    except Error as error:
        error = explain_full_disk(error, (workspace.root, tempfile.gettempdir()))
        said |= {"code": error.code, "reason": _reason(error)}
        said["record"] = error.record or said.get("record", "")
    except KeyboardInterrupt:
        said = {"code": _INTERRUPTED}
    except BaseException as problem:
        internal_error = internal(problem)
        said |= {"code": internal_error.code, "reason": _reason(internal_error)}
    with suppress(OSError):
        os.write(writing, json.dumps(said).encode())
    sys.stdout.flush()
    os._exit(0)


def _end_with_the_worker() -> None:
    """Let a run end when its worker is killed, where the system can say so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


_PR_SET_PDEATHSIG = 1


def _quiet(path: Path) -> None:
    """Let all that a run prints go to a file."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for number in (1, 2):
        os.dup2(target, number)
    os.close(target)


def explain_full_disk(error: Error, folders: Sequence[str]) -> Error:
    """Return ``error``, or the one that says so where a disk of ``folders`` is full."""
    if error.code == _NO_SPACE:
        return error
    full = next((f for f in folders if shutil.disk_usage(f).free < _FULL_BYTES), "")
    cause = find_cause("\n".join(error.context))
    if not full and (cause is None or cause.name != "disk-full"):
        return error
    disk = os.path.realpath(full or folders[0])
    while not os.path.ismount(disk):
        disk = os.path.dirname(disk)
    disk_error = Error(_NO_SPACE, f"no space left on the disk at {disk}: {error.message}")
    disk_error.hint, disk_error.context, disk_error.record = _MAKE_ROOM, error.context, error.record
    return disk_error


def _reason(error: Error) -> str:
    last = f"; {error.context[-1].strip()}" if error.context else ""
    step = f"{error.chain[-1]}: " if error.chain else ""
    return f"{step}{error.message}{last}"[:1000]


def read_batch(path: str, part: int = 0) -> PointBatch:
    """Return the batch that the driver has put into a file; of several parts, this one."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    data["points"] = data["points"][part :: data["parts"]]
    return decode(PointBatch, data)


def main(path: str, part: str = "0") -> int:
    """Work through the batch at ``path``, or a part of it; the exit status of the process."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        batch = read_batch(path, int(part))
        # Not all at once: a later one may name an earlier one.
        for name, value in batch.environment.items():
            os.environ[name] = os.path.expandvars(value)
        PointWorker(batch).work()
    except (StopError, KeyboardInterrupt):
        return 3
    except Error as problem:
        error = explain_full_disk(problem, (os.path.dirname(path), tempfile.gettempdir()))
        print(
            json.dumps({"error": error.code, "message": error.message, "hint": error.hint.marked})
        )
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
