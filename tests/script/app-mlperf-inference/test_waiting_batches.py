"""Server batches that wait for more queries: what it gains and costs, in simulated time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf.harness.pipeline.batcher import DeadlinePolicy
from mlperf.harness.pipeline.queue import DynamicBatcher
from support import HANG_S

Cost = Callable[[int], float]


class Arrivals:
    """The queue of one worker in simulated time: waiting costs nothing but that."""

    def __init__(self, times: list[float]) -> None:
        self.now = 0.0
        self._left = [(number, 0, at) for number, at in enumerate(times)][::-1]

    def clock(self) -> float:
        return self.now

    def qsize(self) -> int:
        return sum(1 for each in self._left if each[2] <= self.now)

    def get_nowait(self) -> Any:
        if not self._left or self._left[-1][2] > self.now:
            raise Empty
        return self._left.pop()

    def get(self, timeout: float | None = None) -> Any:
        if not self._left:
            if timeout is None:
                return None
            self.now += timeout
            raise Empty
        if timeout is not None and self._left[-1][2] > self.now + timeout:
            self.now += timeout
            raise Empty
        self.now = max(self.now, self._left[-1][2])
        return self._left.pop()


class Served(NamedTuple):
    """Batch sizes, latencies in s, and the share of the time that the worker computed."""

    sizes: list[int]
    latencies: list[float]
    busy: float


def serve(times: list[float], cost: Cost, window_s: float, limit: float, largest: int) -> Served:
    arrivals = Arrivals(times)
    known = {size: cost(size) for size in range(1, largest + 1)}
    policy = DeadlinePolicy(limit, largest, known)
    queue: Any = arrivals
    batcher = DynamicBatcher(policy, window_s, queue, arrivals.clock)
    sizes, latencies, busy = [], [], 0.0
    while (batch := batcher.next()) is not None:
        took = cost(len(batch.ids))
        arrivals.now += took
        busy += took
        sizes.append(len(batch.ids))
        latencies += [arrivals.now - at for at in batch.arrived]
    return Served(sizes, latencies, busy / arrivals.now)


def poisson(rate: float, count: int) -> list[float]:
    gaps = np.random.default_rng(1).exponential(1 / rate, count)
    return [float(at) for at in np.cumsum(gaps)]


def on_a_card(size: int) -> float:
    """A call has a fixed cost, and samples cost little."""
    return 0.001 + 0.00002 * size


def test_waiting_makes_fewer_calls_and_later_answers() -> None:
    times = poisson(1500, 20_000)
    at_once = serve(times, on_a_card, 0, 0.015, 64)
    waiting = serve(times, on_a_card, 0.004, 0.015, 64)
    # The gain: batches of several times as many samples, and a card that is mostly idle.
    assert np.mean(waiting.sizes) > 2.5 * np.mean(at_once.sizes)
    assert waiting.busy < 0.5 * at_once.busy
    # The cost: answers come later, by no more than the window and what a larger batch takes.
    later = np.percentile(waiting.latencies, 99) - np.percentile(at_once.latencies, 99)
    assert 0 < later < 0.004 + on_a_card(64) - on_a_card(1)
    assert max(waiting.latencies) < 0.015
    assert len(waiting.latencies) == len(at_once.latencies) == 20_000


def test_a_full_batch_does_not_wait() -> None:
    served = serve([0.0] * 8, on_a_card, 1.0, 10.0, 4)
    assert served.sizes == [4, 4]
    assert max(served.latencies) == pytest.approx(2 * on_a_card(4))


@given(
    st.lists(st.floats(0, 0.01), min_size=1, max_size=60),
    st.floats(0.00001, 1.0),
    st.integers(1, 16),
    st.floats(0.002, 0.05),
)
def test_nothing_is_lost_and_waiting_alone_makes_nobody_late(
    gaps: list[float], window_s: float, largest: int, limit: float
) -> None:
    times = [float(at) for at in np.cumsum(gaps)]
    served = serve(times, on_a_card, window_s, limit, largest)
    assert sum(served.sizes) == len(times)
    assert max(served.sizes) <= largest
    arrivals = Arrivals(times)
    policy = DeadlinePolicy(limit, largest, {n: on_a_card(n) for n in range(1, largest + 1)})
    queue: Any = arrivals
    batcher = DynamicBatcher(policy, window_s, queue, arrivals.clock)
    before = arrivals.now
    while (batch := batcher.next()) is not None:
        waited = arrivals.now - max(before, batch.arrived[0])
        assert waited <= window_s + 1e-9
        if waited > 1e-9:
            end = arrivals.now + on_a_card(len(batch.ids))
            assert end - batch.arrived[0] <= limit + 1e-9
        arrivals.now += on_a_card(len(batch.ids))
        before = arrivals.now


def test_workers_that_wait_share_the_queries_and_are_let_go() -> None:
    queue = DynamicBatcher(DeadlinePolicy(5.0, 8, {8: 0.001}), 0.02)
    seen: list[int] = []
    sizes: list[int] = []

    def work() -> None:
        while (batch := queue.next()) is not None:
            seen.extend(batch.ids)
            sizes.append(len(batch.ids))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for query in range(2000):
        queue.put([query], [0])
    queue.close(3)
    for worker in workers:
        worker.join(HANG_S)
        assert not worker.is_alive()
    assert sorted(seen) == list(range(2000))
    assert max(sizes) <= 8
