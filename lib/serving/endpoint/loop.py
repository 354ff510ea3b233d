"""One thread for all streams: it waits for whichever socket is ready.

A thread per stream spends as much time on handing Python's lock around as on the answers.
"""

from __future__ import annotations

import select
import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from serving.bench.load import NAP_S, PAUSE_S, Pace, Watch, supervise
from serving.http_client import READ, WRITE, HttpClient, Steps

from .load import PAUSE, StreamRecord, StreamWorker

EVENTS = {READ: selectors.EVENT_READ, WRITE: selectors.EVENT_WRITE}


def run_streams(
    workers: Sequence[StreamWorker], pace: Pace, watch: Watch | None = None
) -> list[StreamRecord]:
    """Run all workers until the pace ends; ``watch`` may end it, with its reason."""
    records = [worker.new_record() for worker in workers]
    loop = StreamLoop(workers, records, pace)
    supervise(workers, records, [loop.run], pace, watch)
    return records


@dataclass(slots=True, eq=False)
class StreamTask:
    """A worker, its request under way, and the socket and event that this waits for.

    ``resumes`` is when a pause ends, in seconds of ``time.monotonic``.
    """

    worker: StreamWorker
    record: StreamRecord
    steps: Steps[None] | None = None
    watched: socket.socket | None = None
    event: int = READ
    resumes: float = 0.0

    @property
    def client(self) -> HttpClient:
        """Return what has the socket, and the deadline of a request."""
        return self.worker.connection.client


class StreamLoop:
    """Starts requests when they are due, and goes on with those whose sockets are ready."""

    def __init__(
        self, workers: Sequence[StreamWorker], records: Sequence[StreamRecord], pace: Pace
    ) -> None:
        pairs = zip(workers, records, strict=True)
        self._tasks = [StreamTask(worker, record) for worker, record in pairs]
        self._pace = pace
        self._idle = deque(self._tasks)
        self._paused: list[StreamTask] = []
        self._due: int | None = None
        self._is_over = False
        self._looked = 0.0
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Send until the pace ends and all answers are there."""
        now = time.perf_counter_ns()
        for task in self._tasks:
            task.record.begin = task.record.end = now
        with self._selector:
            while True:
                self._start_due()
                if self._is_over and len(self._idle) == len(self._tasks):
                    return
                for key, _ in self._wait():
                    self._resume(key.data)
                self._end_pauses()

    def _is_due(self) -> bool:
        """Return whether a request is to be sent now."""
        if self._is_over or (self._due is not None and self._pace.is_stopped):
            self._is_over = True
            return False
        if self._due is None:
            self._due = self._pace.next_due()
            self._is_over = self._due < 0
        return not self._is_over and self._due <= time.perf_counter_ns()

    def _start_due(self) -> None:
        """Start the requests that are due, as far as there are idle workers."""
        while self._idle and self._is_due():
            assert self._due is not None
            task, due, self._due = self._idle.popleft(), self._due, None
            task.steps = task.worker.send_steps(due, task.record)
            self._advance(task)

    def _wait(self) -> Sequence[tuple[selectors.SelectorKey, int]]:
        """Return the sockets that are ready, in time for whatever else is due."""
        seconds = PAUSE_S if self._paused else NAP_S
        if self._idle and self._due is not None and not self._is_over:
            left = min(seconds, (self._due - time.perf_counter_ns()) / 1e9)
            # A selector waits for whole milliseconds.
            select.select([self._selector], [], [], max(left, 0.0))
            seconds = 0.0
        return self._selector.select(seconds)

    def _resume(self, task: StreamTask) -> None:
        """Go on with the request of a socket that is ready."""
        if task.steps is None or task.resumes:
            # No request is open: the connection ends, or what comes would spoil the next answer.
            task.client.close()
            self._follow(task)
            return
        self._advance(task)
        # The next request follows an answer at once, whatever else is ready.
        self._start_due()

    def _advance(self, task: StreamTask, late: bool = False) -> None:
        """Go on with the request of a task until it waits; ``late`` ends it with TimeoutError."""
        assert task.steps is not None
        try:
            event = task.steps.throw(TimeoutError()) if late else next(task.steps)
        except StopIteration:
            task.steps = None
            task.record.end = time.perf_counter_ns()
            self._idle.append(task)
            event = READ
        if event == PAUSE:
            task.resumes = time.monotonic() + PAUSE_S
            self._paused.append(task)
            event = READ
        if task.watched is not task.client.open_socket or task.event != event:
            task.event = event
            self._follow(task)

    def _follow(self, task: StreamTask) -> None:
        """Have the selector wait for the socket and event that the task waits for."""
        if task.watched is not None:
            self._selector.unregister(task.watched)
        task.watched = task.client.open_socket
        if task.watched is not None:
            self._selector.register(task.watched, EVENTS[task.event], task)

    def _end_pauses(self) -> None:
        """Go on with what was paused, and end the requests whose time is over."""
        now = time.monotonic()
        if self._paused:
            over = [task for task in self._paused if task.resumes <= now]
            self._paused = [task for task in self._paused if task.resumes > now]
            for task in over:
                task.resumes = 0.0
                self._advance(task)
        if now < self._looked + NAP_S:
            return
        self._looked = now
        for task in self._tasks:
            if task.steps is not None and not task.resumes and task.client.deadline <= now:
                self._advance(task, late=True)
