"""The highest rate of Poisson arrivals that calls of known length can answer in time.

A physical limit for the Server scenario: whoever comes while all workers are busy has to wait,
so that a call which takes a third of the latency limit cannot be kept busy. What stands around
the calls (LoadGen, Python, other threads) counts as nothing here.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np

from mlperf.harness.pipeline.batcher import DeadlinePolicy

QUERIES = 20_000
ALLOWED_LATE = 0.01
STEPS = 12


def highest_rate(service_s: Mapping[int, float], workers: int, limit_s: float) -> float:
    """Queries per second of which 99 % are answered within ``limit_s``; 0 where none are.

    ``service_s`` maps the size of a batch to the seconds of a call; batches are joined by the
    harness's own policy.
    """
    sizes = sorted(service_s)
    seconds = np.interp(range(sizes[-1] + 1), sizes, [service_s[size] for size in sizes])
    low, high = 0.0, workers * max(size / service_s[size] for size in sizes)
    for _ in range(STEPS):
        middle = (low + high) / 2
        if late_share(middle, seconds, workers, limit_s) <= ALLOWED_LATE:
            low = middle
        else:
            high = middle
    return low


def late_share(rate: float, seconds: np.ndarray, workers: int, limit_s: float) -> float:
    """The share of queries that is answered too late; ``seconds`` by the size of the batch."""
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1 / rate, QUERIES))
    times = {size: float(seconds[size]) for size in range(1, len(seconds))}
    policy = DeadlinePolicy(limit_s, len(seconds) - 1, times)
    free = [0.0] * workers
    done = late = 0
    while done < QUERIES:
        start = max(heapq.heappop(free), arrivals[done])
        waiting = int(np.searchsorted(arrivals, start, side="right")) - done
        size = policy.take(waiting, start - arrivals[done])
        end = start + times[size]
        late += int((end - arrivals[done : done + size] > limit_s).sum())
        heapq.heappush(free, end)
        done += size
    return late / QUERIES
