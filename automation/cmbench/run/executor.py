"""The seam for where the native part of a step runs: this machine, a container, another machine.

A step's ``customize.py`` stays in the engine's process. Its native script is a ``Job``, and an
``Executor`` runs it: ``submit``, ``poll``, ``cancel``, ``logs``, ``fetch``. Nothing else of the
engine knows where that is. ``docs/decisions/011`` checks the interface against SSH and Slurm.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from cmbench.values import immutable

LOOK_SECONDS = 0.2
"""``logs`` waits at most so long for output: an interruption must not wait longer."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Job:
    """One native program with all that it needs; every path in it is absolute.

    It writes below ``cwd`` and ``scratch`` only. It reads these two, the folders ``reads`` (its
    script) and the cache entries ``entries``, named by their keys. ``observed`` is the same command
    below an observer (``cmbench.run.observation``), for an executor that starts it on this machine.
    """

    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    scratch: str = ""
    reads: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()


@immutable(frozen=True, slots=True, eq=True, repr=True)
class JobHandle:
    """What names a submitted job: plain text, so that another process can find the job again."""

    executor: str
    id: str


@immutable(frozen=True, slots=True, eq=True, repr=True)
class JobState:
    """``waiting`` for its turn, ``running``, ``ended``, or ``lost`` with the machine that ran it.

    ``exit_code`` counts once it has ended; it is negative for a signal. ``reason`` says what an
    exit status does not: preempted, out of time, node down.
    """

    status: str
    exit_code: int = 0
    reason: str = ""


RUNNING = JobState("running")


class Executor(Protocol):
    """Runs jobs somewhere. Every method raises ``Error`` where the machine cannot be reached."""

    @property
    def name(self) -> str:
        """The word for it in handles, records and on the command line."""

    def submit(self, job: Job) -> JobHandle:
        """Start ``job``, or put it into a queue; its input files exist before it starts."""

    def logs(self, handle: JobHandle) -> Sequence[str]:
        """Whole lines of output that are new; waits up to ``LOOK_SECONDS`` for one."""

    def poll(self, handle: JobHandle) -> JobState:
        """Return how it goes. ``ended`` comes only after ``logs`` has given the last line."""

    def cancel(self, handle: JobHandle) -> None:
        """End the job with all that it has started, and forget it."""

    def fetch(self, handle: JobHandle) -> None:
        """Bring what an ended job has written to its ``cwd`` and ``scratch``, and forget it."""


def run_job(
    executor: Executor,
    job: Job,
    line: Callable[[str], None],
    pulse: Callable[[], None] = lambda: None,
) -> JobState:
    """Run ``job`` to its end; its output goes to ``line``, line by line.

    ``pulse`` is called a few times a second. An exception of it, and an interruption, cancels the
    job and is raised.
    """
    with signals_held() as let_go:
        handle = executor.submit(job)
        try:
            let_go()
            state = RUNNING
            while state.status in ("waiting", "running"):
                pulse()
                for text in executor.logs(handle):
                    line(text)
                state = executor.poll(handle)
        except BaseException:
            executor.cancel(handle)
            raise
    executor.fetch(handle)
    return state


@contextmanager
def signals_held() -> Iterator[Callable[[], None]]:
    """Defer Ctrl-C and SIGTERM until the given function is called, or the block ends.

    One that arrives just after a process was started would leave it behind.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    arrived: list[int] = []
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in previous.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, frame: arrived.append(number))

    def let_go() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        handlers.clear()
        if arrived:
            signal.raise_signal(arrived.pop())

    try:
        yield let_go
    finally:
        let_go()
