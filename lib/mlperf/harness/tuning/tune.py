"""A second or two of measuring the bare backend, from which shapes and targets are derived.

LoadGen needs to know beforehand about how fast the system is: a guess that is too low ends an
Offline run before its minimum duration, one that is too high makes it last for ever. A model that
takes seconds for a sample is measured with few calls, as ``heavy`` says.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlperf import catalog
from mlperf.catalog import MULTI_STREAM, SINGLE_STREAM, Scenario

from .. import host
from ..backends import registry as backends
from ..benchmarks import registry as benchmarks
from ..benchmarks.base import Benchmark
from ..jobs import ProbeRequest
from ..measuring.loadgen_run import library_versions
from ..settings import WorkerShape
from . import slow_models, token_rates
from .layout_probe import LONG_S, LayoutProbe, ProbeWorker, measure_together
from .profile import SpeedProfile, StreamLatency, ThroughputPoint
from .slow_models import BATCH_GAIN, Foretell, SampleCosts, SampleTiming

POINT_S = 0.1
CONFIRM_S = 0.3
# The latency of a stream, at first, and where the middle and the tail disagree.
LATENCY_S, DOUBT_S = 0.3, 1.0

# More threads must make a query this much faster, in the middle and in the tail, to be used:
# they wait for each other, and on a busy machine one of them always comes late.
THREAD_GAIN = 0.9
# A Server batch may take this share of the latency limit, so that one may wait for another.
SERVER_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class TuningResult:
    """All points, the best of them, and the latencies of the streams.

    ``answer_bytes`` is the mean size of answers that vary in length, 0 of others.
    """

    points: list[ThroughputPoint]
    offline: ThroughputPoint
    streams: dict[str, StreamLatency]
    answer_bytes: float


def tune(request: ProbeRequest, foretell: Foretell = lambda seconds: None) -> SpeedProfile:
    """Measure this machine with this model; raises HarnessError as ``loadgen_run.execute`` does.

    ``foretell`` is called with the seconds that it will take in all, if it takes long.
    """
    started = time.perf_counter()
    benchmark = benchmarks.create(request.benchmark, Path(request.dataset), request.model)
    backend = backends.create(
        request.backend, request.device, request.precision, request.backend_options
    )
    bench = LayoutProbe(request, benchmark, backend)
    cores = host.usable_cores()
    measured = _measure(bench, cores, streams_of(request.benchmark), foretell)
    limit = benchmark.rules.server_limit_s
    alone = measured.points if backend.joins_queries else _single(measured.points)
    server = server_point(alone, limit)
    return SpeedProfile(
        cores=cores,
        sample_count=benchmark.sample_count,
        offline=measured.offline,
        server=server,
        streams=measured.streams,
        server_limit_s=limit,
        service_times=service_times(measured.points, server.shape),
        points=tuple(measured.points),
        versions={**backend.versions(), **library_versions()},
        seconds=time.perf_counter() - started,
        token_rates=_token_rates(benchmark, measured, server),
    )


def _token_rates(
    benchmark: Benchmark, measured: TuningResult, server: ThroughputPoint
) -> dict[str, float]:
    """Return the rates at which tokens come in time, by the scenarios that limit them."""
    rules = benchmark.rules
    if not rules.generates:
        return {}
    tokens = measured.answer_bytes / benchmark.result.dtype.itemsize
    return {
        scenario: token_rates.in_time(measured.points, server.shape, limit, tokens)
        for scenario, limit in rules.limits.items()
        if limit.ttft_ms and limit.tpot_ms
    }


def streams_of(benchmark: str) -> tuple[Scenario, ...]:
    """Return the streams to measure: MultiStream only where the rules do not rule it out.

    The latency of a single sample is reported for every model.
    """
    if benchmark not in catalog.names():
        return SINGLE_STREAM, MULTI_STREAM
    known = catalog.benchmark(benchmark).all_scenarios()
    return (SINGLE_STREAM, MULTI_STREAM) if MULTI_STREAM in known else (SINGLE_STREAM,)


def server_point(points: Sequence[ThroughputPoint], limit_s: float) -> ThroughputPoint:
    """The fastest point whose batches leave time to wait; the quickest batch if there is none."""
    quick = [point for point in points if point.batch_s <= SERVER_SHARE * limit_s]
    if quick:
        return max(quick, key=lambda point: point.samples_per_s)
    return min(points, key=lambda point: point.batch_s)


def _single(points: Sequence[ThroughputPoint]) -> list[ThroughputPoint]:
    """Return those of one sample at a time, where queries may not be joined on this side."""
    return [point for point in points if point.shape.batch == 1]


def service_times(points: Sequence[ThroughputPoint], shape: WorkerShape) -> dict[str, float]:
    """Seconds of a batch by its size, for the batches up to ``shape`` in the same layout."""
    return {
        str(point.shape.batch): point.batch_s
        for point in points
        if (point.shape.workers, point.shape.threads) == (shape.workers, shape.threads)
        and point.shape.batch <= shape.batch
    }


def _measure(
    bench: LayoutProbe, cores: int, streams: tuple[Scenario, ...], foretell: Foretell
) -> TuningResult:
    costs = SampleCosts(bench)
    seen, alone, answer_bytes = _first(bench, costs, bench.stream_threads(cores)[0])
    if alone is None:
        few = slow_models.SlowModel(bench, costs, seen, foretell)
        points = few.points(cores)
        latencies = few.streams(points, streams)
        return TuningResult(points, slow_models.best(points), latencies, answer_bytes)
    points = [
        point
        for workers, threads in bench.layouts(cores)
        for point in _throughputs(bench, workers, threads)
    ]
    offline = _confirmed(bench, max(points, key=lambda point: point.samples_per_s))
    latencies = {
        SINGLE_STREAM: _stream_latency(
            bench, SINGLE_STREAM, cores, None if bench.prepares else alone
        )
    }
    if MULTI_STREAM in streams:
        latencies[MULTI_STREAM] = _stream_latency(bench, MULTI_STREAM, cores)
    return TuningResult(points, offline, latencies, answer_bytes)


def _first(
    bench: LayoutProbe, costs: SampleCosts, threads: int
) -> tuple[SampleTiming, StreamLatency | None, float]:
    """How heavy the model is and, when it is not, the latency of a sample on all threads.

    The last is the mean size of its answers in bytes, see ``TuningResult``.
    """
    (worker,) = bench.open(1, threads, 1)
    seen = slow_models.look(worker, costs, threads)
    if seen.mean_s > slow_models.HEAVY_S:
        return seen, None, worker.mean_bytes
    latency = _latency(worker, SINGLE_STREAM, WorkerShape(1, threads, 1), LATENCY_S)
    return seen, latency, worker.mean_bytes


def _throughputs(bench: LayoutProbe, workers: int, threads: int) -> Iterator[ThroughputPoint]:
    """Points of one layout for growing batches, until those gain nothing more.

    When batches take long, doubling them twice for less than ``BATCH_GAIN`` ends the search. Quick
    ones are all measured: a disturbance in one of them must not end it.
    """
    sizes = bench.batch_sizes(workers, threads)
    team = bench.open(workers, threads, sizes[-1])
    best, idle = 0.0, 0
    for size in sizes:
        if size > sizes[0] and not bench.has_room():
            return
        bench.arrange(team, size)
        rate, batch_s = measure_together(team, size, POINT_S)
        yield ThroughputPoint(WorkerShape(workers, threads, size), rate, batch_s)
        idle = 0 if rate > BATCH_GAIN * best else idle + 1
        best = max(best, rate)
        if idle >= 2 and batch_s > POINT_S:
            return


def _stream_latency(
    bench: LayoutProbe, scenario: Scenario, cores: int, measured: StreamLatency | None = None
) -> StreamLatency:
    """Return the latency of one query with the number of threads that answers it best.

    ``measured`` is that with the most threads, if it was measured. A query that takes long
    is computed by them without asking: beside such work they wait little for each other.
    """
    most, *fewer = bench.stream_threads(cores)
    latency = measured or _opened_latency(bench, scenario, most, LATENCY_S)
    if latency.median_s > LONG_S:
        return latency
    for threads in fewer:
        few = _opened_latency(bench, scenario, threads, LATENCY_S)
        if _better(latency.median_s, few.median_s) != _better(latency.tail_s, few.tail_s):
            # One late query of a few may be bad luck.
            latency = _opened_latency(bench, scenario, latency.shape.threads, DOUBT_S)
            few = _opened_latency(bench, scenario, threads, DOUBT_S)
        if not (_better(latency.median_s, few.median_s) and _better(latency.tail_s, few.tail_s)):
            latency = few
    return latency


def _better(seconds: float, of_fewer_threads: float) -> bool:
    return seconds < THREAD_GAIN * of_fewer_threads


def _opened_latency(
    bench: LayoutProbe, scenario: Scenario, threads: int, seconds: float
) -> StreamLatency:
    most = bench.overrides.batch_size or bench.most(1, threads)
    batch = min(scenario.samples_per_query, most)
    (worker,) = bench.open(1, threads, batch, fixed=True)
    return _latency(worker, scenario, WorkerShape(1, threads, batch), seconds)


def _latency(
    worker: ProbeWorker, scenario: Scenario, shape: WorkerShape, seconds: float
) -> StreamLatency:
    times = worker.query_times(scenario.samples_per_query, shape.batch, seconds)
    tail = float(np.quantile(times, scenario.percentile or 0.5))
    return StreamLatency(shape, statistics.median(times), tail, statistics.fmean(times))


def _confirmed(bench: LayoutProbe, point: ThroughputPoint) -> ThroughputPoint:
    """The best point measured again for longer, as short measurements miss the full speed."""
    shape = point.shape
    if point.batch_s > LONG_S:
        return point
    team = bench.open(shape.workers, shape.threads, shape.batch, fixed=True)
    bench.arrange(team, shape.batch)
    rate, batch_s = measure_together(team, shape.batch, CONFIRM_S)
    return ThroughputPoint(shape, max(rate, point.samples_per_s), min(batch_s, point.batch_s))
