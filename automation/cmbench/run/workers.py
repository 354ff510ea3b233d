"""Several steps at once in one process: who may work, whose turn it is, who must give way.

Only one thread at a time is inside the engine or inside a ``customize.py``: it holds the crew's
lock. A thread lets go of it while it waits for a program, a lock or another step. So steps run side
by side where time goes, in their programs, and nothing else of the engine has to know of threads.

What a step has made counts only in its turn, after all steps that a serial run would have run
before. Until then it can be withdrawn without a trace.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cmbench.errors import Error
from cmbench.lib import locks, orphans

STOP_SECONDS = 4.0
"""How long steps have to end when the user stops the run."""
_LOOK_SECONDS = 0.02


class TaskWithdrawn(KeyboardInterrupt):
    """The step has been withdrawn. A kind of interruption, so that it leaves nothing behind."""


class Task:
    """One step, with all below it, in a thread of its own.

    ``events`` are published once it counts; ``changed`` names what earlier siblings have set since
    it began; ``made`` has the events of the entries that it has published; ``again`` says that it
    has to be run again, in its turn.
    """

    def __init__(self, above: Task | None, number: int, label: str) -> None:
        self.above = above
        self.order: tuple[int, ...] = (*(above.order if above else ()), number)
        self.label = label
        self.events: list[Callable[[], None]] = []
        self.changed: set[str] = set()
        self.made: dict[str, list[Callable[[], None]]] = {}
        self.result: Any = None
        self.error: BaseException | None = None
        self.root: Any = None
        self.done = False
        self.turn = False
        self.withdrawn = False
        self.again = False

    @property
    def counts(self) -> bool:
        """Whether all that a serial run would have done before is done."""
        return self.turn and (self.above is None or self.above.counts)

    @property
    def unwanted(self) -> bool:
        """Whether it, or one that it works for, has been withdrawn."""
        return self.withdrawn or (self.above is not None and self.above.unwanted)

    def withdraw(self, again: bool = False) -> None:
        """Let it end as soon as it can; ``again``: its work has to be done once more."""
        self.withdrawn = True
        self.again = self.again or again


class Crew:
    """The threads of one run; at most ``jobs`` of them work on steps."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._mine = threading.local()
        self._working = 0
        self.kept: dict[str, list[Callable[[], None]]] = {}
        self._makers: dict[str, Task | None] = {}
        self._in_hook = 0
        self._scratch = ""
        self._stopped = False
        self._given_up = False

    @property
    def here(self) -> Task | None:
        """The task that this thread works on; ``None`` in the main thread."""
        task: Task | None = getattr(self._mine, "task", None)
        return task

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The run: the calling thread is the one that gets signals."""
        streams, cwd = (sys.stdout, sys.stderr), os.getcwd()
        self._enter()
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            if self._given_up:
                # A hook that did not end has left them bent.
                sys.stdout, sys.stderr = streams
                os.chdir(cwd)
            else:
                self._lock.release()

    def _enter(self) -> None:
        """Become the one thread that is inside the engine, whatever signals come meanwhile."""
        interrupted = False
        main = self.here is None
        while not self._given_up:
            try:
                if self._lock.acquire(timeout=STOP_SECONDS):
                    break
                self._given_up = main and self._stopped
            except KeyboardInterrupt:
                interrupted = True
                self.stop()
        if interrupted:
            raise KeyboardInterrupt

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Let others into the engine while this thread waits for a program."""
        if not self._given_up:
            self._lock.release()
        try:
            yield
        except KeyboardInterrupt:
            if self.here is None:
                self.stop()
            raise
        finally:
            self._enter()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Release the slot of this thread while it waits for other steps."""
        self._working -= 1
        try:
            yield
            self.wait(lambda: self._working < self.jobs)
        finally:
            self._working += 1

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until ``ready``; raises ``TaskWithdrawn`` when the own task has been withdrawn."""
        while not ready():
            self.check()
            with self.idle():
                self._news.wait(_LOOK_SECONDS)
            self._news.clear()

    def check(self) -> None:
        """Raise ``TaskWithdrawn`` when the own task has been withdrawn."""
        task = self.here
        if task is not None and (self._stopped or task.unwanted):
            raise TaskWithdrawn

    def start(self, task: Task, work: Callable[[], Any]) -> None:
        """Start ``task``: do ``work`` as soon as a slot is free."""
        try:
            threading.Thread(target=self._work_on, args=(task, work), daemon=True).start()
        except RuntimeError as problem:
            hint = "raise the limit (ulimit -u), or leave out --jobs"
            task.error = Error("cannot-start", f"no worker could be started: {problem}", hint=hint)
            task.done = True
            self._news.set()

    def _work_on(self, task: Task, work: Callable[[], Any]) -> None:
        """Do the work of a task in this thread, when it is its turn; keep its result or error."""
        self._mine.task = task
        self._enter()
        try:
            self.wait(lambda: self._working < self.jobs)
            self._working += 1
            try:
                task.result = work()
            finally:
                self._working -= 1
        except BaseException as problem:
            task.error = problem
        finally:
            task.done = True
            self._news.set()
            if not self._given_up:
                self._lock.release()

    def end(self, tasks: list[Task]) -> None:
        """Withdraw ``tasks`` and wait until they have ended."""
        for task in tasks:
            task.withdraw()
        waited = 0.0
        while not self._given_up and not all(task.done for task in tasks):
            with self.idle():
                self._news.wait(_LOOK_SECONDS)
            self._news.clear()
            waited += _LOOK_SECONDS
            if self._stopped and waited > STOP_SECONDS:
                return

    def stop(self) -> None:
        """The user ends the run: everything is withdrawn, hooks are interrupted."""
        self._stopped = True
        if self._in_hook and self._in_hook != threading.get_ident():
            _interrupt(self._in_hook, self._scratch)

    @contextmanager
    def hook(self, scratch: str) -> Iterator[None]:
        """While ``customize.py`` runs, it keeps the engine's lock all the time.

        ``scratch`` is the private directory of its step, by which its programs are known. Raises
        ``TaskWithdrawn`` where the run was stopped before: nothing would interrupt the hook then.
        """
        before = self._in_hook, self._scratch
        self._in_hook, self._scratch = threading.get_ident(), scratch
        try:
            self.check()
            yield
        finally:
            self._in_hook, self._scratch = before

    @property
    def in_hook(self) -> bool:
        """Whether this thread is inside a ``customize.py``."""
        return self._in_hook == threading.get_ident()

    @contextmanager
    def making(self, identity: str) -> Iterator[None]:
        """This thread waits for the lock of ``identity``; ``made`` says that it has got it."""
        self._mine.wants = identity
        try:
            yield
        finally:
            self._mine.wants = ""
            if self._makers.get(identity, self) is self.here:
                del self._makers[identity]

    def made(self, identity: str) -> None:
        """The lock of ``identity`` is ours."""
        self._makers[identity] = self.here
        self._mine.wants = ""

    def lock_file(self, handle: int) -> None:
        """Wait for a lock on a file; a later step of ours that holds it has to give way."""
        self.wait(lambda: self._try(handle))

    def _try(self, handle: int) -> bool:
        if locks.try_lock(handle):
            return True
        key = getattr(self._mine, "wants", "")
        holder = self._makers.get(key)
        task = self.here
        if holder is not None and task is not None and task.order < holder.order:
            holder.withdraw(again=True)
        return False

    def alone(self, why: str) -> None:
        """Stop running in parallel, because of ``why``: the step is run again in its turn."""
        task = self.here
        if task is None:
            return
        while task.above is not None:
            task = task.above
        task.withdraw(again=True)
        raise TaskWithdrawn(why)


def _interrupt(thread: int, scratch: str) -> None:
    """End a hook that runs in ``thread``: its own code, as soon as its programs let it."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(TaskWithdrawn)
    )
    for child in _children():
        with suppress(OSError):
            os.kill(child, signal.SIGTERM)
    # A second interruption only means that they have had time enough.
    with suppress(KeyboardInterrupt):
        orphans.stop(scratch)


def _children() -> list[int]:
    """Processes of ours that are in our own process group: those that a hook has started."""
    process_ids = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                fields = stream.read().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and int(fields[2]) == os.getpgrp():
                process_ids.append(int(name))
    return process_ids
