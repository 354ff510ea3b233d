"""Load: threads with one connection each; a pace sets when the next request is due.

A closed loop sends as soon as the answer is there. An open loop has a schedule; there, latency
counts from the scheduled moment, so that a server which stalls is not spared the requests that
would have come meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import sys
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from common.problems import Problem
from serving.kserve import Connection, KserveError, WireTensor

NEVER = 1 << 62
# Why a pace was stopped by the user.
CTRL_C = "Ctrl-C"
ENDED = -1
# A shorter sleep is exact; a longer one can be ended.
NAP_S = 0.05
# After an immediate failure: do not retry a server that is gone in a busy loop.
PAUSE_S = 0.001
# Values are looked at this often, in ns; names, types and shapes always.
LOOK_NS = 100_000_000
PR_SET_TIMERSLACK = 29
# So many requests that were never sent are counted one by one.
COUNTED = 100_000

Check = Callable[[dict[str, WireTensor], bool], Sequence[str]]


class Pace(ABC):
    """The times at which requests are due; threads call it before every request."""

    def __init__(self, begin: int, end: int, count: int) -> None:
        self.begin, self.end = begin, end
        self._count = count or NEVER
        self._stop = threading.Event()
        self.why = ""

    @abstractmethod
    def next_due(self) -> int:
        """Return when the next request is due, in ns of ``perf_counter_ns``; ENDED for none."""

    def take(self) -> int:
        """Return when the next request is due, not before that; ENDED when there is none."""
        return self.next_due()

    @abstractmethod
    def ended(self) -> str:
        """Return why it ended of itself: time or count."""

    @property
    def is_stopped(self) -> bool:
        """Return whether no further request is to be sent."""
        return self._stop.is_set()

    def stop(self, why: str) -> None:
        """Stop sending requests."""
        self.why = self.why or why
        self._stop.set()


class ClosedLoop(Pace):
    """Sends the next request at once, as responses come."""

    def __init__(self, begin: int, end: int, count: int) -> None:
        super().__init__(begin, end, count)
        self._numbers = itertools.count()
        self._all = False

    def next_due(self) -> int:
        """Return the present time."""
        now = time.perf_counter_ns()
        if now >= self.end or self._stop.is_set():
            return ENDED
        if next(self._numbers) >= self._count:
            self._all = True
            return ENDED
        return now

    def ended(self) -> str:
        """Return "count" when that many were sent."""
        return "count" if self._all else "time"


class OpenLoop(Pace):
    """Sends at the times of a schedule; one thread at a time waits for the next."""

    def __init__(self, begin: int, end: int, count: int, arrivals: Iterator[int]) -> None:
        super().__init__(begin, end, count)
        self._arrivals = arrivals
        self._turn = threading.Lock()
        self._over = False
        self.taken = 0

    def next_due(self) -> int:
        """Return the next time of the schedule."""
        now = time.perf_counter_ns()
        if now >= self.end or self._stop.is_set() or self.taken >= self._count or self._over:
            return ENDED
        due = self.begin + next(self._arrivals)
        self._over = due >= self.end
        if self._over:
            return ENDED
        self.taken += 1
        return due

    def take(self) -> int:
        """Wait for the next time of the schedule and return it."""
        with self._turn:
            due = self.next_due()
            while (left := (due - time.perf_counter_ns()) / 1e9) > NAP_S:
                if self._stop.wait(left - NAP_S / 2):
                    return ENDED
            if left > 0:
                time.sleep(left)
            return due

    def ended(self) -> str:
        """Return "count" when that many were sent."""
        return "count" if self.taken >= self._count else "time"

    def unsent(self, last: int) -> int:
        """Return how many were due before ``last``, and never sent: all connections were busy."""
        if self.taken >= self._count or self._over:
            return 0
        limit = min(last, self.end) - self.begin
        late = itertools.takewhile(lambda due: due < limit, self._arrivals)
        intended = list(itertools.islice(late, COUNTED))
        count = len(intended)
        if count == COUNTED:
            # The rest is as dense as these are.
            count += round((limit - intended[-1]) * count / max(intended[-1] - intended[0], 1))
        return min(count, self._count - self.taken)


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that failed: when it ended, in ns, by what kind, and what was said."""

    at: int
    kind: str
    message: str


@dataclass(slots=True)
class Record:
    """What a thread has done; the times of requests that were answered, in ns."""

    begin: int = 0
    end: int = 0
    due: array[int] = field(default_factory=lambda: array("q"))
    start: array[int] = field(default_factory=lambda: array("q"))
    done: array[int] = field(default_factory=lambda: array("q"))
    failures: list[Failure] = field(default_factory=list)

    def latencies(self) -> list[int]:
        """From due to done."""
        return [done - due for due, done in zip(self.due, self.done, strict=True)]


RecordType = TypeVar("RecordType", bound=Record)


class Sender(ABC, Generic[RecordType]):
    """A connection that sends one request after the other, as a pace has it."""

    @abstractmethod
    def new_record(self) -> RecordType:
        """Return an empty record for ``run``."""

    @abstractmethod
    def interrupt(self) -> None:
        """Close the connection under a request of another thread."""


class ThreadSender(Sender[RecordType]):
    """A connection that has a thread to itself."""

    @abstractmethod
    def send(self, due: int, record: RecordType) -> None:
        """Send a request that is due at ``due`` (ns) and record what came of it."""

    def run(self, pace: Pace, record: RecordType) -> None:
        """Send until the pace ends."""
        record.begin = record.end = time.perf_counter_ns()
        while (due := pace.take()) >= 0:
            self.send(due, record)
            record.end = time.perf_counter_ns()


class LoadWorker(ThreadSender[Record]):
    """A connection, its requests, and what happens to them."""

    def __init__(self, connection: Connection, requests: Sequence[Any], check: Check) -> None:
        self.connection = connection
        self._requests = itertools.cycle(requests)
        self._check = check
        self._looked = 0

    def new_record(self) -> Record:
        """Return a record of times alone."""
        return Record()

    def interrupt(self) -> None:
        """Close the connection."""
        self.connection.interrupt()

    def send(self, due: int, record: Record) -> None:
        """Send the next request, and look at what came."""
        request, start = next(self._requests), time.perf_counter_ns()
        try:
            outputs = self.connection.run(request)
        except KserveError as error:
            failure = Failure(time.perf_counter_ns(), error.kind, str(error))
            record.failures.append(failure)
            if error.kind in ("refused", "reset"):
                time.sleep(PAUSE_S)
            return
        done = time.perf_counter_ns()
        look = done - self._looked > LOOK_NS
        if look:
            self._looked = done
        if problems := self._check(outputs, look):
            record.failures.append(Failure(done, "wrong", "; ".join(problems)))
            return
        record.due.append(due)
        record.start.append(start)
        record.done.append(done)


Watch = Callable[[Sequence[Record]], str]


def run(
    workers: Sequence[ThreadSender[RecordType]], pace: Pace, watch: Watch | None = None
) -> list[RecordType]:
    """Run all workers until the pace ends; ``watch`` may end it, with its reason."""
    records = [worker.new_record() for worker in workers]
    pairs = zip(workers, records, strict=True)
    jobs = [partial(worker.run, pace, record) for worker, record in pairs]
    supervise(workers, records, jobs, pace, watch)
    return records


def supervise(
    workers: Sequence[Sender[RecordType]],
    records: Sequence[RecordType],
    jobs: Sequence[Callable[[], None]],
    pace: Pace,
    watch: Watch | None,
) -> None:
    """Run ``jobs``, which use ``workers`` until the pace ends, in a thread per job.

    Ctrl-C ends it too: what is in flight gets a moment, then its connections are closed. An
    exception that no failure of a request is, ends all of it, and is raised here.
    """
    crashes: list[Exception] = []

    def work(job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:
            crashes.append(error)
            pace.stop("a crash")

    threads = [threading.Thread(target=work, args=(job,), daemon=True) for job in jobs]
    with _steady():
        _start(threads, pace)
        try:
            _wait(threads, pace, records, watch)
        except KeyboardInterrupt:
            pace.stop(CTRL_C)
            _end(workers, threads)
    if crashes:
        raise crashes[0]


def _start(threads: Sequence[threading.Thread], pace: Pace) -> None:
    """Start all of them, or raise Problem where the system has no room for so many."""
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        pace.stop("no thread")
        count = sum(thread.ident is not None for thread in threads)
        text = f"this system lets {count} threads start, not {len(threads)}: {error}"
        raise Problem(
            "server-failed", text, hint=f"ask for at most {count}, or see ulimit -u"
        ) from error


def _wait(
    threads: Sequence[threading.Thread],
    pace: Pace,
    records: Sequence[Record],
    watch: Watch | None,
) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)
            if watch is not None and not pace.why and (why := watch(records)):
                pace.stop(why)


def _end(workers: Sequence[Sender[RecordType]], threads: Sequence[threading.Thread]) -> None:
    deadline = time.monotonic() + 1
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        for worker in workers:
            worker.interrupt()
    for thread in threads:
        thread.join(1)


@contextlib.contextmanager
def _steady() -> Iterator[None]:
    """Sleeps that end when they should, threads that take turns often, no collection of garbage."""
    slack = _prctl(1)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        sys.setswitchinterval(interval)
        if slack:
            _prctl(0)


def _prctl(nanoseconds: int) -> bool:
    """How late a sleep of this thread, and of those it starts, may end; 0 is the usual 50 us."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        done: int = ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0)
        return done == 0
    return False
