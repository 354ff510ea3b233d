"""Tuning for a model that takes seconds or minutes for a sample, in few calls.

Samples may differ much in work, such as volumes of few or many windows. One is measured that does
not take too long; the reported mean is over all, by the ``costs`` of the benchmark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mlperf.catalog import MULTI_STREAM, SINGLE_STREAM, Scenario

from ..settings import WorkerShape
from .layout_probe import LayoutProbe, ProbeWorker, measure_together
from .profile import StreamLatency, ThroughputPoint

# A model that takes longer than this for a mean sample is measured here.
HEAVY_S = 1.0
# A sample that is expected to take longer is not chosen, one that has is not run again.
SAMPLE_S = 10.0
# A further call that is expected to take longer than this is not made.
CALL_S = 60.0
# A larger batch must be this much faster to go on to the next one.
BATCH_GAIN = 1.02

# Called with the seconds that tuning will take in all.
Foretell = Callable[[float], None]


class SampleCosts:
    """How much work the samples are, as shares of the mean of the whole data set."""

    def __init__(self, bench: LayoutProbe) -> None:
        costs, count = bench.benchmark.costs, bench.benchmark.sample_count
        known = np.ones(count) if costs is None else np.asarray(costs, dtype=np.float64)
        self.shares = known / known.mean()
        self._loaded = self.shares[: bench.count]

    def cheapest(self) -> int:
        """Return the loaded sample of least work."""
        return int(self._loaded.argmin())

    def nearest(self, most: float) -> int:
        """Return the loaded sample nearest to the mean of those of at most this share of it."""
        allowed = np.flatnonzero(self._loaded <= most)
        return int(allowed[np.abs(self._loaded[allowed] - 1).argmin()])

    def like(self, sample: int) -> list[int]:
        """Return all loaded samples, those first that are about as much work as this one."""
        distance = np.abs(self._loaded - self._loaded[sample])
        return [int(place) for place in distance.argsort(kind="stable")]


@dataclass(frozen=True, slots=True)
class SampleTiming:
    """The seconds of one loaded ``sample`` on a worker of ``threads``, and those of a mean one."""

    threads: int
    sample: int
    seconds: float
    mean_s: float


def look(worker: ProbeWorker, costs: SampleCosts, threads: int) -> SampleTiming:
    """Return a first look at how heavy a model is, from one sample or two."""
    sample = costs.cheapest()
    seconds = worker.sample(sample)
    share = costs.shares[sample]
    if seconds / share > HEAVY_S and seconds < SAMPLE_S:
        # The first call was also that in which libraries prepare themselves.
        sample = costs.nearest(share * SAMPLE_S / seconds)
        seconds = worker.sample(sample)
    return SampleTiming(threads, sample, seconds, float(seconds / costs.shares[sample]))


class SlowModel:
    """The measurements that follow a look."""

    def __init__(
        self, bench: LayoutProbe, costs: SampleCosts, seen: SampleTiming, foretell: Foretell
    ) -> None:
        self._bench = bench
        self._costs = costs
        self._seen = seen
        self._foretell = foretell
        self._began = time.perf_counter() - seen.seconds

    def points(self, cores: int) -> list[ThroughputPoint]:
        """One sample in every layout that is quick enough, then larger batches in the best one."""
        chosen = self._affordable(cores)
        new = [threads for workers, threads in chosen if (workers, threads) != self._known]
        self._expect(sum(map(self._call_s, new)) + 2 * self._seen.seconds)
        points = [self._single(workers, threads) for workers, threads in chosen]
        return [*points, *self._grown(best(points))]

    def streams(
        self, points: list[ThroughputPoint], scenarios: tuple[Scenario, ...]
    ) -> dict[str, StreamLatency]:
        """The latencies of streams, which all threads answer: such work is worth their waiting.

        Several samples take as long as the best rate of one worker says.
        """
        seen, overrides = self._seen, self._bench.overrides
        shape = WorkerShape(1, seen.threads, 1)
        latencies: dict[str, StreamLatency] = {
            SINGLE_STREAM: self._latency(SINGLE_STREAM, shape, seen.mean_s)
        }
        if MULTI_STREAM in scenarios:
            most = self._bench.batch_sizes(1, seen.threads)[-1]
            batch = min(MULTI_STREAM.samples_per_query, overrides.batch_size or most)
            alone = [
                point.samples_per_s
                for point in points
                if (point.shape.workers, point.shape.threads) == (1, seen.threads)
                and point.shape.batch <= batch
            ]
            rate = max([1 / seen.mean_s, *alone])
            shape = WorkerShape(1, seen.threads, batch)
            latencies[MULTI_STREAM] = self._latency(
                MULTI_STREAM, shape, MULTI_STREAM.samples_per_query / rate
            )
        return latencies

    def _latency(self, scenario: Scenario, shape: WorkerShape, mean_s: float) -> StreamLatency:
        middle, tail = np.quantile(self._costs.shares, [0.5, scenario.percentile])
        return StreamLatency(shape, float(middle * mean_s), float(tail * mean_s), mean_s)

    @property
    def _known(self) -> tuple[int, int]:
        """Return the layout of the look."""
        return 1, self._seen.threads

    def _affordable(self, cores: int) -> list[tuple[int, int]]:
        """Return the layouts to try; that with the most threads when all would take too long."""
        wanted = self._bench.layouts(cores)
        few = [
            layout
            for layout in wanted
            if layout == self._known or self._call_s(layout[1]) <= CALL_S
        ]
        return few or [max(wanted, key=lambda layout: layout[1])]

    def _mean_s(self, threads: int) -> float:
        """What a mean sample takes at most with so many threads."""
        return self._seen.mean_s * max(1.0, self._seen.threads / threads)

    def _call_s(self, threads: int) -> float:
        """What a call with a sample takes at most with so many threads."""
        mean_s = self._mean_s(threads)
        return float(mean_s * self._costs.shares[self._sample(mean_s)])

    def _sample(self, mean_s: float) -> int:
        """What to measure with where a mean sample takes so long: that of the look, or less."""
        usual = self._seen.sample
        return usual if mean_s * self._costs.shares[usual] <= CALL_S else self._costs.cheapest()

    def _single(self, workers: int, threads: int) -> ThroughputPoint:
        if (workers, threads) == self._known:
            return ThroughputPoint(
                WorkerShape(workers, threads, 1), 1 / self._seen.mean_s, self._seen.mean_s
            )
        return self._point(workers, threads, 1, self._mean_s(threads))

    def _point(self, workers: int, threads: int, size: int, mean_s: float) -> ThroughputPoint:
        """One batch of every worker, where one of mean samples takes about ``mean_s``."""
        order = self._costs.like(self._sample(mean_s))
        team = self._bench.open(workers, threads, size, order)
        rate, batch_s = measure_together(team, size, 0.0)
        share = float(self._costs.shares[np.resize(order, size)].mean())
        return ThroughputPoint(WorkerShape(workers, threads, size), share * rate, batch_s / share)

    def _grown(self, last: ThroughputPoint) -> Iterator[ThroughputPoint]:
        """Larger batches as long as they gain and take no minute; the user's own in any case."""
        workers, threads = last.shape.workers, last.shape.threads
        fixed = self._bench.overrides.batch_size
        sizes = self._bench.batch_sizes(workers, threads)[1:]
        for size in sizes[-1:] if fixed else sizes:
            mean_s = size * last.batch_s / last.shape.batch
            expected = float(mean_s * self._costs.shares[self._sample(mean_s)])
            if expected > CALL_S:
                if fixed:
                    yield ThroughputPoint(
                        WorkerShape(workers, threads, size), last.samples_per_s, mean_s
                    )
                return
            self._expect(expected)
            point = self._point(workers, threads, size, mean_s)
            yield point
            if point.samples_per_s <= BATCH_GAIN * last.samples_per_s:
                return
            last = point

    def _expect(self, seconds: float) -> None:
        self._foretell(time.perf_counter() - self._began + seconds)


def best(points: list[ThroughputPoint]) -> ThroughputPoint:
    """Return the fastest; of equal ones that with the largest batch."""
    return max(points, key=lambda point: (point.samples_per_s, point.shape.batch))
