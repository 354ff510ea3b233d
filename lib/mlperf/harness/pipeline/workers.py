"""The two ways to work: in LoadGen's own thread, or in a pool of workers behind a queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from ..benchmarks.base import Solver
from .batcher import SampleBatch, cut
from .completion import Completer
from .failures import Failures
from .queue import WorkQueue
from .recorder import Latencies
from .time_spent import WorkerClock


@dataclass(slots=True)
class Tally:
    """What one worker has done; summed up for the outcome of the run."""

    batches: int = 0
    samples: int = 0


class BatchWorker:
    """Runs batches and answers them, whatever happens."""

    def __init__(
        self,
        solver: Solver,
        completer: Completer,
        failures: Failures,
        clock: WorkerClock | None = None,
    ) -> None:
        self._solver = solver
        self._completer = completer
        self._failures = failures
        self.clock = clock or WorkerClock()
        self.tally = Tally()
        self.latencies = Latencies()

    @property
    def capacity(self) -> int:
        """Return the most samples of one batch."""
        return self._completer.capacity

    def serve(self, batch: SampleBatch) -> None:
        """Answer a batch; without data once anything in this run has failed."""
        if self._failures:
            self._completer.answer_empty(batch.ids)
            return
        began = time.perf_counter()
        try:
            self.answer(batch)
        except Exception as error:  # whatever it is, LoadGen must get its answer
            self._failures.record("running the model", error)
            self._completer.answer_empty(batch.ids)
            return
        clock, now = self.clock, time.perf_counter()
        clock.began = clock.began or began
        clock.worked_s += now - began
        clock.ended = now
        self.tally.batches += 1
        self.tally.samples += len(batch.ids)
        if batch.arrived:
            self.latencies.add_batch(batch.arrived)

    def answer(self, batch: SampleBatch) -> None:
        """Run a batch through the model, then answer it; raises whatever fails before that."""
        count = len(batch.ids)
        rows, sizes = self._completer.results[:count], self._completer.sizes[:count]
        self._solver.solve(batch.indices, rows, sizes)
        self._completer.answer(batch.ids)

    def warm_up(self, indices: Sequence[int]) -> None:
        """Run the first of these loaded samples through the model without answering."""
        count = min(self.capacity, len(indices))
        rows, sizes = self._completer.results[:count], self._completer.sizes[:count]
        try:
            self._solver.solve(indices[:count], rows, sizes)
        except Exception as error:  # the run then answers without data, and fails
            self._failures.record("running the model", error)
        self.clock.restart()


class Pipeline(Protocol):
    """A receiver of the queries of LoadGen's system under test."""

    def prepare(self, action: Callable[[BatchWorker], None]) -> None:
        """Do something with all workers, in turn and in their threads, before the first query.

        ``action`` raises nothing.
        """

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Take queries; called in LoadGen's thread."""

    def close(self) -> Tally:
        """Stop when everything is answered; returns what was done."""


class DirectPipeline:
    """Streams: answered in the issuing thread, because passing them on costs more than it gains."""

    def __init__(self, worker: BatchWorker) -> None:
        self._worker = worker

    def prepare(self, action: Callable[[BatchWorker], None]) -> None:
        """See ``Pipeline``; LoadGen loads samples in the thread that issues queries."""
        action(self._worker)

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """See ``Pipeline``."""
        began = time.perf_counter()
        for batch in cut(ids, indices, self._worker.capacity):
            self._worker.serve(batch)
        self._worker.latencies.add(began)

    def close(self) -> Tally:
        """See ``Pipeline``."""
        return self._worker.tally


def whole(batch: SampleBatch) -> Iterable[SampleBatch]:
    """Return a batch in one part."""
    return (batch,)


class PooledPipeline:
    """Offline and Server: one thread per worker behind a queue.

    ``split`` returns the parts of a batch that a worker serves one after the other.
    """

    def __init__(
        self,
        queue: WorkQueue,
        workers: Sequence[BatchWorker],
        split: Callable[[SampleBatch], Iterable[SampleBatch]] = whole,
    ) -> None:
        self._queue = queue
        self._split = split
        self._workers = workers
        # What the threads do before they take batches; None when they may begin with them.
        self._actions: list[SimpleQueue[Callable[[], None] | None]] = [
            SimpleQueue() for _ in workers
        ]
        self._is_begun = False
        self._threads = [
            threading.Thread(target=self._work, args=(n,), name=f"worker-{n}", daemon=True)
            for n in range(len(workers))
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int) -> None:
        while (action := self._actions[number].get()) is not None:
            action()
        worker = self._workers[number]
        while (batch := self._queue.next()) is not None:
            for part in self._split(batch):
                worker.serve(part)

    def prepare(self, action: Callable[[BatchWorker], None]) -> None:
        """See ``Pipeline``."""
        for actions, worker in zip(self._actions, self._workers, strict=True):
            done = threading.Event()
            actions.put(partial(action, worker))
            actions.put(done.set)
            done.wait()

    def _begin(self) -> None:
        self._is_begun = True
        for actions in self._actions:
            actions.put(None)

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """See ``Pipeline``."""
        if not self._is_begun:
            self._begin()
        self._queue.put(ids, indices)

    def close(self) -> Tally:
        """See ``Pipeline``."""
        if not self._is_begun:
            self._begin()
        self._queue.close(len(self._threads))
        for thread in self._threads:
            thread.join()
        tallies = [worker.tally for worker in self._workers]
        return Tally(sum(t.batches for t in tallies), sum(t.samples for t in tallies))
