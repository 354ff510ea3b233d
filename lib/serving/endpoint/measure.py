"""One load: connections, warm-up, the load itself, and its figures."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from serving.bench import figures as latency_figures
from serving.bench import machine, results
from serving.bench.load import CTRL_C, ClosedLoop, OpenLoop, Pace, Record, Watch
from serving.bench.results import Load
from serving.bench.schedule import arrivals
from serving.bench.stability import Stability

from .connection import EndpointConnection
from .energy_use import EnergyWatch, watch_energy
from .figures import EndpointPoint, is_good, latencies_of, requests_of, totals
from .load import StreamRecord, StreamWorker
from .loop import run_streams
from .options import EndpointCall, EndpointSettings
from .prompts import EndpointPrompt, RequestBuilder

SPARE = 64
"""File descriptors in addition to the connections."""


@dataclass(frozen=True, slots=True)
class EndpointTarget:
    """An endpoint that answered: the call, the model's name, and the prompts."""

    call: EndpointCall
    model: str
    prompts: tuple[EndpointPrompt, ...]

    def builder(self, connection: EndpointConnection, seed: int = 0) -> RequestBuilder:
        """Return a builder of requests; ``seed`` makes the salts of two of them differ."""
        endpoint, prompts = self.call.endpoint, self.call.prompts
        return RequestBuilder(
            connection,
            model=self.model,
            chat=endpoint.chat,
            body=endpoint.body,
            salted=prompts.salted,
            seed=prompts.seed + seed,
        )


def connect(settings: EndpointSettings, *, in_steps: bool = False) -> EndpointConnection:
    """Return a connection as the settings have it, for a loop where it is ``in_steps``."""
    return EndpointConnection(
        settings.address,
        timeout=settings.timeout,
        headers=settings.headers,
        tls_ca=settings.tls_ca,
        in_steps=in_steps,
    )


def measure(target: EndpointTarget, load: Load) -> EndpointPoint:
    """Measure once; raises Problem where the system has no room for the connections."""
    call = target.call
    count = call.load.connections if load.open_loop else int(load.size)
    if load.count:
        count = min(count, load.count)
    machine.allow_files(count + SPARE)
    with contextlib.ExitStack() as stack:
        workers = _workers(target, count, stack, seed=int(load.size * 1000))
        _warm_up(workers, call.load.warmup, call.endpoint.timeout, load.open_loop)
        address = call.endpoint.address
        server = machine.listener(address.host, address.port)
        meter = watch_energy(address)
        before = machine.moment(server)
        pace = _pace(target, load)
        records = run_streams(workers, pace, _watch(target, load, pace, meter))
        point, span = _point(target, load, pace, records, (before, machine.moment(server)))
        used = meter.finish(*span, point.tokens.output) if meter else None
        return replace(point, energy=used)


def _workers(
    target: EndpointTarget, count: int, stack: contextlib.ExitStack, seed: int
) -> list[StreamWorker]:
    prompts = itertools.cycle(target.prompts)
    workers: list[StreamWorker] = []
    for _ in range(count):
        connection = connect(target.call.endpoint, in_steps=True)
        stack.callback(connection.close)
        builder = target.builder(connection, seed + len(workers) + 1)
        workers.append(StreamWorker(connection, builder, prompts))
    return workers


def _warm_up(workers: Sequence[StreamWorker], count: int, timeout: float, open_loop: bool) -> None:
    """Send the first requests; raise KeyboardInterrupt after Ctrl-C: nothing was measured yet.

    An open loop warms a few connections up: all of them at once would be a load of their own.
    """
    workers = workers[:8] if open_loop else workers
    if not count:
        return
    begin = time.perf_counter_ns()
    pace = ClosedLoop(begin, begin + int(timeout * 1e9), count * len(workers))
    run_streams(workers, pace)
    if pace.why == CTRL_C:
        raise KeyboardInterrupt


def _pace(target: EndpointTarget, load: Load) -> Pace:
    settings, begin = target.call.load, time.perf_counter_ns()
    end = begin + int(load.seconds * 1e9)
    if not load.open_loop:
        return ClosedLoop(begin, end, load.count)
    if settings.trace:
        count = min(load.count or len(target.prompts), len(target.prompts))
        return OpenLoop(begin, 1 << 62, count, _trace(target.prompts))
    seed = target.call.prompts.seed
    due = arrivals(settings.distribution, load.size, settings.burst, seed)
    return OpenLoop(begin, end, load.count, due)


def _trace(prompts: Sequence[EndpointPrompt]) -> Iterator[int]:
    """Yield the times of a trace in ns, as often as they are wanted."""
    times = sorted(prompt.at for prompt in prompts)
    while True:
        yield from times


def _watch(target: EndpointTarget, load: Load, pace: Pace, meter: EnergyWatch | None) -> Watch:
    settings = target.call.load
    rule = Stability(pace.begin, settings.window, settings.stable_percent, settings.percentile)

    def watch(records: Sequence[Record]) -> str:
        if meter:
            meter.look()
        return rule.watch(records) if load.stable else ""

    return watch


def _point(
    target: EndpointTarget,
    load: Load,
    pace: Pace,
    records: Sequence[StreamRecord],
    around: tuple[machine.MachineSample, machine.MachineSample],
) -> tuple[EndpointPoint, tuple[int, int]]:
    """Return the figures, and from when to when tokens were counted, in ns."""
    call, percentile = target.call, target.call.load.percentile
    last = max(record.end for record in records)
    since = Stability.kept_since(pace, call.load.window) if load.stable else pace.begin
    requests = requests_of(records, since)
    stopped = pace.why or pace.ended()
    failures, examples = results.counted(
        [failure for record in records for failure in record.failures]
    )
    late = [request.start - request.due for request in requests] if load.open_loop else []
    # Streams under way at the end are waited for, but the time of that wait is not counted.
    end = min(pace.end, last) if stopped == "time" else last
    before, after = around
    point = EndpointPoint(
        load=load,
        begun_at=time.time() - (after.at - before.at),
        seconds=max((last - since) / 1e9, 1e-9),
        requests=len(requests),
        failures=failures,
        examples=examples,
        unsent=pace.unsent(last) if isinstance(pace, OpenLoop) else 0,
        stopped=stopped,
        latencies=latencies_of(requests, records, percentile),
        tokens=totals(requests, records, since, end),
        good=sum(is_good(request, call.slo) for request in requests),
        late=latency_figures.latency(late, percentile),
        costs=results.costs(records, before, after),
    )
    return point, (since, end)
