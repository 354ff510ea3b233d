"""Between LoadGen's issue thread and the workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

import numpy as np

from ..benchmarks.base import Array
from .batcher import DeadlinePolicy, SampleBatch

# A query: its id, its sample, and when it came; None ends a worker.
Item = tuple[int, int, float] | None
NOBODY: Item = (-1, -1, 0.0)


class WorkQueue(Protocol):
    """Takes queries from LoadGen and passes batches to workers."""

    def put(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Called by LoadGen's issue thread; must return at once."""

    def next(self) -> SampleBatch | None:
        """Called by a worker: the next batch, waiting for it, or None when there is no more."""

    def close(self, workers: int) -> None:
        """Let each of ``workers`` get a None after everything that was put before."""


class CutQueue:
    """Offline: one huge query is cut into batches at once and spread over the workers.

    Where samples differ in ``costs`` the most expensive are taken first: a batch then holds samples
    of about one length, and the last ones to finish are short. Waiting samples are kept as arrays:
    LoadGen's lists take five times the memory, and a long run has millions.
    """

    def __init__(self, batch: int, costs: Array | None = None) -> None:
        self._batch = batch
        self._costs = costs
        self._queue: SimpleQueue[tuple[Array, Array] | None] = SimpleQueue()

    def put(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """See ``WorkQueue``."""
        queries, samples = np.asarray(ids, np.uint64), np.asarray(indices, np.int64)
        if self._costs is not None:
            order = np.argsort(-self._costs[samples], kind="stable")
            queries, samples = queries[order], samples[order]
        for start in range(0, len(queries), self._batch):
            end = start + self._batch
            self._queue.put((queries[start:end], samples[start:end]))

    def next(self) -> SampleBatch | None:
        """See ``WorkQueue``."""
        taken = self._queue.get()
        return None if taken is None else SampleBatch(taken[0].tolist(), taken[1].tolist())

    def close(self, workers: int) -> None:
        """See ``WorkQueue``."""
        for _ in range(workers):
            self._queue.put(None)


class DynamicBatcher:
    """Server: single queries arrive at random times, and a worker takes several together.

    With a ``window_s`` a batch that is not full waits for more queries, until its oldest one is
    that old: fewer and larger batches, for an accelerator that needs them, and later answers.
    ``queue`` and ``clock`` are given where time is simulated.
    """

    def __init__(
        self,
        policy: DeadlinePolicy,
        window_s: float = 0.0,
        queue: SimpleQueue[Item] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._policy = policy
        self._queue: SimpleQueue[Item] = SimpleQueue() if queue is None else queue
        self._clock = clock
        self._patience = policy.patience(window_s) if window_s else 0.0
        # Two that wait for more would both get half of it.
        self._gathering = threading.Lock()

    def put(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """See ``WorkQueue``."""
        now = self._clock()
        for query, index in zip(ids, indices, strict=True):
            self._queue.put((query, index, now))

    def next(self) -> SampleBatch | None:
        """See ``WorkQueue``; the policy says how many of the waiting queries are joined."""
        if self._patience <= 0:
            return self._gather(0.0)
        with self._gathering:
            return self._gather(self._patience)

    def _gather(self, patience: float) -> SampleBatch | None:
        first = self._queue.get()
        if first is None:
            return None
        ids, indices, arrived = [first[0]], [first[1]], [first[2]]
        age = self._clock() - first[2]
        waits = age < patience
        most = self._policy.largest if waits else self._policy.take(1 + self._queue.qsize(), age)
        for _ in range(most - 1):
            try:
                item = self._queue.get_nowait()
            except Empty:  # another worker was faster, or none has come yet
                if not waits or (item := self._later(first[2] + patience)) is NOBODY:
                    break
            if item is None:
                self._queue.put(None)
                break
            ids.append(item[0])
            indices.append(item[1])
            arrived.append(item[2])
        return SampleBatch(ids, indices, arrived)

    def _later(self, until: float) -> Item:
        """Return the next query, waited for ``until`` then; ``NOBODY`` where none comes."""
        try:
            return self._queue.get(timeout=max(0.0, until - self._clock()))
        except Empty:
            return NOBODY

    def close(self, workers: int) -> None:
        """See ``WorkQueue``."""
        for _ in range(workers):
            self._queue.put(None)
