"""A second or two of measuring the bare backend, from which shapes and targets are derived.

LoadGen needs to know beforehand about how fast the system is: a guess that is too low ends an
Offline run before its minimum duration, one that is too high makes it last for ever.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from . import backends, benchmarks, host, memory
from .backends.base import Backend
from .benchmarks.base import Benchmark, Solver
from .calibration import Calibration, Latency, Point, Request
from .loadgen_run import library_versions
from .pipeline.inference import solvers
from .settings import MULTI_STREAM, MULTI_STREAM_SAMPLES, SINGLE_STREAM, Overrides, Shape

LARGEST_BATCH = 64
ANSWERS = 1 << 24
POINT_S = 0.1
CONFIRM_S = 0.3
LATENCY_S = 0.3
SAMPLES = 256

# More threads must make a query this much faster, in the middle and in the tail, to be used:
# they wait for each other, and on a busy machine one of them always comes late.
THREAD_GAIN = 0.9
# When batches take long, doubling them twice for less than this gain ends the search. Quick ones
# are all measured: a disturbance in one of them must not end it.
BATCH_GAIN = 1.02
# A Server batch may take this share of the latency limit, so that one may wait for another.
SERVER_SHARE = 0.3


def calibrate(request: Request) -> Calibration:
    """Measure this machine with this model; raises HarnessError as ``loadgen_run.execute`` does."""
    started = time.perf_counter()
    benchmark = benchmarks.create(request.benchmark, Path(request.dataset), request.model)
    backend = backends.create(request.backend, request.device, request.precision)
    bench = _Bench(request, benchmark, backend)
    cores = host.usable_cores()
    points = [
        point
        for workers, threads in bench.fitting(layouts(cores, request.overrides))
        for point in bench.throughputs(workers, threads)
    ]
    offline = bench.confirmed(max(points, key=lambda point: point.samples_per_s))
    limit = benchmark.rules.server_limit_s
    server = server_point(points, limit)
    streams = {
        SINGLE_STREAM: bench.stream_latency(1, cores),
        MULTI_STREAM: bench.stream_latency(MULTI_STREAM_SAMPLES, cores),
    }
    return Calibration(
        cores=cores,
        sample_count=benchmark.sample_count,
        offline=offline,
        server=server,
        streams=streams,
        server_limit_s=limit,
        service_times=service_times(points, server.shape),
        points=tuple(points),
        versions={**backend.versions(), **library_versions()},
        seconds=time.perf_counter() - started,
    )


def layouts(cores: int, given: Overrides) -> list[tuple[int, int]]:
    """Pairs of workers and threads to try that use all cores, or just what the user fixed."""
    if given.num_workers and given.threads:
        return [(given.num_workers, given.threads)]
    if given.threads:
        return [(max(1, cores // given.threads), given.threads)]
    if given.num_workers:
        return [(given.num_workers, max(1, cores // given.num_workers))]
    threads = [1, cores] if cores < 8 else [1, 2, 4, cores]
    return [(max(1, cores // count), count) for count in dict.fromkeys(threads)]


def copies(workers: int, threads: int) -> int:
    """How often the weights lie in memory: callers of one thread share them."""
    return workers if threads > 1 else 1


def batch_sizes(given: Overrides, answer_bytes: int = 1, most: int = LARGEST_BATCH) -> list[int]:
    """The batch sizes to try: powers of two up to the user's largest, and that one.

    Where an answer is large (a labelled volume), the answers of a batch stay below ``ANSWERS``;
    ``most`` samples fit into memory while they are computed.
    """
    largest = given.batch_size or max(1, min(LARGEST_BATCH, most, ANSWERS // answer_bytes))
    sizes = [1 << power for power in range(largest.bit_length()) if 1 << power < largest]
    return [*sizes, largest]


def server_point(points: Sequence[Point], limit_s: float) -> Point:
    """The fastest point whose batches leave time to wait; the quickest batch if there is none."""
    quick = [point for point in points if point.batch_s <= SERVER_SHARE * limit_s]
    if quick:
        return max(quick, key=lambda point: point.samples_per_s)
    return min(points, key=lambda point: point.batch_s)


def service_times(points: Sequence[Point], shape: Shape) -> dict[str, float]:
    """Seconds of a batch by its size, for the batches up to ``shape`` in the same layout."""
    return {
        str(point.shape.batch): point.batch_s
        for point in points
        if (point.shape.workers, point.shape.threads) == (shape.workers, shape.threads)
        and point.shape.batch <= shape.batch
    }


class _Bench:
    """Opens the backend in a layout and times it on real samples."""

    def __init__(self, request: Request, benchmark: Benchmark, backend: Backend) -> None:
        self._request = request
        self._benchmark = benchmark
        self._backend = backend
        self._count = min(SAMPLES, benchmark.sample_count)
        benchmark.load(range(self._count))
        self._model_bytes = memory.model_bytes(request.model)
        self._free, _ = memory.available()

    def fitting(self, wanted: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The layouts whose copies of the model fit into memory; one caller if none does."""
        if self._free is None:
            return list(wanted)
        some = [(w, t) for w, t in wanted if copies(w, t) * self._model_bytes < self._free]
        return some or [(1, max(threads for _, threads in wanted))]

    def _most(self, workers: int, threads: int) -> int:
        """How many samples each caller can compute at once without running out of memory."""
        # Only benchmarks whose samples take much say so.
        each = int(getattr(self._benchmark, "work_bytes", 0))
        if self._free is None or not each:
            return LARGEST_BATCH
        left = self._free - copies(workers, threads) * self._model_bytes
        return max(1, left // (workers * each))

    def _open(self, workers: int, threads: int, capacity: int) -> list[_Caller]:
        shape = Shape(workers, threads, capacity)
        return [
            _Caller(self._benchmark, solver, capacity, self._count)
            for solver in solvers(self._backend, self._request.model, self._benchmark, shape)
        ]

    def throughputs(self, workers: int, threads: int) -> Iterator[Point]:
        """Points of one layout for growing batches, until those gain nothing more."""
        most = self._most(workers, threads)
        sizes = batch_sizes(self._request.overrides, self._benchmark.result.row_bytes, most)
        callers = self._open(workers, threads, sizes[-1])
        best, idle = 0.0, 0
        for size in sizes:
            rate, batch_s = _measure_together(callers, size, POINT_S)
            yield Point(Shape(workers, threads, size), rate, batch_s)
            idle = 0 if rate > BATCH_GAIN * best else idle + 1
            best = max(best, rate)
            if idle >= 2 and batch_s > POINT_S:
                return

    def stream_latency(self, samples: int, cores: int) -> Latency:
        """The latency of one query of ``samples`` with one thread or with all cores."""
        given = self._request.overrides
        choices = [given.threads] if given.threads else list(dict.fromkeys([1, cores]))
        batch = min(samples, given.batch_size or samples)
        measured = [self._latency(samples, batch, threads) for threads in choices]
        best = measured[0]
        for other in measured[1:]:
            better_median = other.median_s < THREAD_GAIN * best.median_s
            if better_median and other.p99_s < THREAD_GAIN * best.p99_s:
                best = other
        return best

    def _latency(self, samples: int, batch: int, threads: int) -> Latency:
        (caller,) = self._open(1, threads, batch)
        times = caller.query_times(samples, batch, LATENCY_S)
        tail = float(np.quantile(times, 0.99))
        return Latency(Shape(1, threads, batch), statistics.median(times), tail)

    def confirmed(self, point: Point) -> Point:
        """The best point measured again for longer: short measurements miss the full speed."""
        shape = point.shape
        callers = self._open(shape.workers, shape.threads, shape.batch)
        rate, batch_s = _measure_together(callers, shape.batch, CONFIRM_S)
        return Point(shape, max(rate, point.samples_per_s), min(batch_s, point.batch_s))


class _Caller:
    """One caller with its buffers, walking through the loaded samples."""

    def __init__(self, benchmark: Benchmark, solver: Solver, capacity: int, loaded: int) -> None:
        self._solver = solver
        self._loaded = loaded
        self._results = benchmark.result.rows(capacity)
        self._sizes = np.zeros(capacity, dtype=np.int64)
        self._next = 0

    def batch(self, size: int) -> None:
        """Run one batch of the next samples."""
        indices = (np.arange(size) + self._next) % self._loaded
        self._next = (self._next + size) % self._loaded
        self._solver.solve(indices, self._results[:size], self._sizes[:size])

    def batch_times(self, size: int, seconds: float) -> list[float]:
        """Time whole batches until ``seconds`` are over; at least one."""
        times: list[float] = []
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            started = time.perf_counter()
            self.batch(size)
            times.append(time.perf_counter() - started)
        return times

    def query_times(self, samples: int, batch: int, seconds: float) -> list[float]:
        """Time queries that are cut into batches, as a stream answers them; at least three."""
        per_query = math.ceil(samples / batch)
        self.batch(batch)
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            started = time.perf_counter()
            for _ in range(per_query):
                self.batch(batch)
            times.append(time.perf_counter() - started)
        return times


def _measure_together(callers: Sequence[_Caller], size: int, seconds: float) -> tuple[float, float]:
    """Samples/s of all callers at once, and the median seconds of their batches."""
    times: list[list[float]] = [[] for _ in callers]
    failures: list[BaseException] = []
    together = threading.Barrier(len(callers))

    def work(number: int) -> None:
        try:
            callers[number].batch(size)
            together.wait()
            times[number] = callers[number].batch_times(size, seconds)
        except BaseException as error:  # raised again in the calling thread
            failures.append(error)
            together.abort()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(callers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    rate = sum(size * len(mine) / sum(mine) for mine in times)
    return rate, statistics.median(time for mine in times for time in mine)
