"""Between LoadGen's issue thread and the workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

import numpy as np

from ..benchmarks.base import Array
from .batcher import Batch, DeadlinePolicy


class WorkQueue(Protocol):
    """Takes queries from LoadGen and hands batches to workers."""

    def put(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Called by LoadGen's issue thread; must return at once."""

    def next(self) -> Batch | None:
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

    def next(self) -> Batch | None:
        """See ``WorkQueue``."""
        taken = self._queue.get()
        return None if taken is None else Batch(taken[0].tolist(), taken[1].tolist())

    def close(self, workers: int) -> None:
        """See ``WorkQueue``."""
        for _ in range(workers):
            self._queue.put(None)


class DynamicBatcher:
    """Server: single queries arrive at random times, and a worker takes several together."""

    def __init__(self, policy: DeadlinePolicy) -> None:
        self._policy = policy
        self._queue: SimpleQueue[tuple[int, int, float] | None] = SimpleQueue()

    def put(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """See ``WorkQueue``."""
        now = time.perf_counter()
        for query, index in zip(ids, indices, strict=True):
            self._queue.put((query, index, now))

    def next(self) -> Batch | None:
        """See ``WorkQueue``; the policy says how many of the waiting queries are joined."""
        first = self._queue.get()
        if first is None:
            return None
        ids, indices, arrived = [first[0]], [first[1]], [first[2]]
        age = time.perf_counter() - first[2]
        for _ in range(self._policy.take(1 + self._queue.qsize(), age) - 1):
            try:
                item = self._queue.get_nowait()
            except Empty:
                break  # another worker was faster
            if item is None:
                self._queue.put(None)
                break
            ids.append(item[0])
            indices.append(item[1])
            arrived.append(item[2])
        return Batch(ids, indices, arrived)

    def close(self, workers: int) -> None:
        """See ``WorkQueue``."""
        for _ in range(workers):
            self._queue.put(None)
