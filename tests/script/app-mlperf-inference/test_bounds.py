"""What bound a run: from the clocks of workers to one line."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

import benchmark_lab  # noqa: F401  # finds the packages
from mlperf.harness.backends.base import Array, Feeds, Predictor
from mlperf.harness.benchmarks.base import Result
from mlperf.harness.jobs import DeviceTime, TimeSpent
from mlperf.harness.pipeline import time_spent, workers
from mlperf.harness.pipeline.batcher import SampleBatch
from mlperf.harness.pipeline.completion import Completer
from mlperf.harness.pipeline.failures import Failures
from mlperf.harness.pipeline.time_spent import WorkerClock, timed
from mlperf.harness.pipeline.workers import BatchWorker
from mlperf.harness.reporting import bounds


def spent(worked: float, called: float, device: DeviceTime | None = None) -> TimeSpent:
    """Two workers over ten seconds."""
    return TimeSpent(2, 100.0, 110.0, worked, called, device)


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (spent(19.2, 18), "compute-bound (computing 90 %, host 6 %, idle 4 %)"),
        (spent(19, 4), "host-bound (host 75 %, computing 20 %, idle 5 %)"),
        (spent(4, 3), "mostly idle (idle 80 %, computing 15 %, host 5 %)"),
        (
            spent(20, 20, DeviceTime(10, 6, 3, 9)),
            "copy-bound (copying 60 %, computing 30 %, launching 10 %)",
        ),
        (
            spent(20, 20, DeviceTime(10, 1, 2, 9)),
            "launch-bound (launching 70 %, computing 20 %, copying 10 %)",
        ),
        # Two lanes compute at once: what one waits for the other is not idle.
        (
            spent(21, 20, DeviceTime(10, 6, 12, 9)),
            "compute-bound (computing 95 %, host 5 %)",
        ),
    ],
)
def test_the_largest_part_names_what_bound_a_run(time: TimeSpent, text: str) -> None:
    assert bounds.in_words(time) == text


def test_rates_are_said_by_accelerator() -> None:
    shared = TimeSpent(2, 100.0, 110.0, 19, 18, samples={"cuda:0": 61000, "cuda:1": 60500})
    assert bounds.by_accelerator(shared) == "cuda:0 6100, cuda:1 6050 samples/s"
    assert bounds.by_accelerator(spent(1, 1)) == ""


class SlowPredictor(Predictor):
    length_step = 3
    few_callers = True

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        Clock.now += 0.5
        return []


class Clock:
    now = 10.0


def test_workers_time_their_batches_and_the_calls_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(perf_counter=lambda: Clock.now, monotonic=lambda: Clock.now + 1000)
    monkeypatch.setattr(time_spent, "time", fake)
    monkeypatch.setattr(workers, "time", fake)
    clock = WorkerClock()
    predictor = timed({"main": SlowPredictor()}, clock)["main"]
    assert (predictor.length_step, predictor.few_callers) == (3, True)
    assert predictor.buffer((2, 3), np.float32).shape == (2, 3)

    class Solver:
        def solve(self, indices: Sequence[int], results: Array, sizes: Array) -> None:
            Clock.now += 0.25
            predictor.predict({})

    loadgen = SimpleNamespace(
        QuerySamplesComplete=lambda _: None, QuerySampleResponse=lambda *_: SimpleNamespace()
    )
    completer = Completer(loadgen, 4, Result(np.dtype(np.int64), ()))
    worker = BatchWorker(Solver(), completer, Failures(), clock)  # type: ignore[arg-type]
    worker.warm_up([1])
    assert (clock.called_s, Clock.now) == (0, 10.75), "a warm-up does not count"
    assert time_spent.spent([clock]) is None
    began = Clock.now
    worker.serve(SampleBatch([1], [1]))
    Clock.now += 2
    worker.serve(SampleBatch([1], [1]))
    time = time_spent.spent([clock, WorkerClock()])
    assert time == TimeSpent(2, began + 1000, began + 1003.5, 1.5, 1.0)
    assert bounds.bound(time) == "mostly idle"
