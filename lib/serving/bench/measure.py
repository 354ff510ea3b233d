"""One measurement: warm-up, load, and what the client, the server and the machine have to say."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from serving.kserve import Connection, KserveError, Statistics

from . import figures, machine, results, server, target
from .load import CTRL_C, ClosedLoop, LoadWorker, OpenLoop, Pace, Record, Watch, run
from .machine import MachineSample
from .probe import explained
from .results import Load, LoadPoint
from .schedule import arrivals
from .stability import Stability
from .target import ProbedModel

COUNTERS_TIMEOUT_S = 0.5
"""How long a server may take to count its responses."""


@dataclass(frozen=True, slots=True)
class _Counters:
    """Samples of the machine and of the server's statistics, before or after the load."""

    sample: MachineSample
    statistics: Statistics | None


class _CounterReader:
    """Reads the counters of the machine and server, over a connection of its own."""

    def __init__(self, target: ProbedModel, connection: Connection) -> None:
        self._connection = connection
        self._settings = target.settings
        address = connection.address
        self._server = machine.listener(address.host, address.port)

        self._counted = self._statistics(target.counted)

    def before(self, warm_up: Sequence[Record]) -> _Counters:
        """Read the server's counters first: this request is not measured."""
        self._counted = self._counted_after(warm_up)
        return _Counters(machine.moment(self._server), self._counted)

    def after(self, records: Sequence[Record]) -> _Counters:
        """Read the server's counters last; a server that is gone has none."""
        at = machine.moment(self._server)
        with contextlib.suppress(KserveError):
            return _Counters(at, self._counted_after(records))
        return _Counters(at, None)

    def _counted_after(self, records: Sequence[Record]) -> Statistics | None:
        known = self._counted.success.count if self._counted else 0
        return self._statistics(known + sum(len(record.done) for record in records))

    def _statistics(self, least: int) -> Statistics | None:
        """Return the counters once they hold ``least`` requests, or at the timeout.

        A server answers first, then counts.
        """
        deadline = time.monotonic() + COUNTERS_TIMEOUT_S
        while True:
            settings = self._settings
            statistics = server.statistics(self._connection, settings.model, settings.version)
            late = time.monotonic() > deadline
            if statistics is None or statistics.success.count >= least or late:
                return statistics
            time.sleep(0.002)


def measure(endpoint: ProbedModel, load: Load) -> LoadPoint:
    """Measure once; raises Problem where it cannot begin."""
    settings = endpoint.settings
    count = settings.connections if load.open_loop else int(load.size)
    with contextlib.ExitStack() as stack:
        control = stack.enter_context(target.connect(settings))
        try:
            workers = target.workers(endpoint, count, stack)
            reader = _CounterReader(endpoint, control)
            before = reader.before(warm_up(endpoint, workers))
        except KserveError as error:
            raise explained(settings, control, error) from error
        pace = make_pace(endpoint, load)
        records = run(workers, pace, _watch(endpoint, load, pace))
        return _point(endpoint, load, pace, records, (before, reader.after(records)))


def make_pace(target: ProbedModel, load: Load) -> Pace:
    """Return the pace of a load, beginning now."""
    settings = target.settings
    begin = time.perf_counter_ns()
    end = begin + int(load.seconds * 1e9)
    if not load.open_loop:
        return ClosedLoop(begin, end, load.count)
    due = arrivals(settings.distribution, load.size, settings.burst, settings.seed)
    return OpenLoop(begin, end, load.count, due)


def _watch(target: ProbedModel, load: Load, pace: Pace) -> Watch | None:
    if not load.stable:
        return None
    settings = target.settings
    rule = Stability(pace.begin, settings.window, settings.stable_percent, settings.percentile)
    return rule.watch


def warm_up(target: ProbedModel, workers: Sequence[LoadWorker]) -> list[Record]:
    """Open every connection and make its first requests, before the clock runs.

    Raises KeyboardInterrupt after Ctrl-C: nothing was measured yet.
    """
    settings = target.settings
    records: list[Record] = []
    if settings.warmup_seconds:
        begin = time.perf_counter_ns()
        records += _warm(workers, ClosedLoop(begin, begin + int(settings.warmup_seconds * 1e9), 0))
    each = max(1, -(-settings.warmup_requests // len(workers)))
    for worker in workers:
        begin = time.perf_counter_ns()
        records += _warm([worker], ClosedLoop(begin, begin + int(1e9 * settings.timeout), each))
    return records


def _warm(workers: Sequence[LoadWorker], pace: Pace) -> list[Record]:
    records = run(workers, pace)
    if pace.why == CTRL_C:
        raise KeyboardInterrupt
    return records


def _point(
    target: ProbedModel,
    load: Load,
    pace: Pace,
    records: Sequence[Record],
    around: tuple[_Counters, _Counters],
) -> LoadPoint:
    percentile, batch = target.settings.percentile, target.batch or 1
    end = max(record.end for record in records)
    since = Stability.kept_since(pace, target.settings.window) if load.stable else pace.begin
    times = results.answered_after(records, since)
    seconds = max((end - since) / 1e9, 1e-9)
    failures, examples = results.counted([each for record in records for each in record.failures])
    late = [sent - due for due, sent, _ in times] if load.open_loop else []
    before, after = around
    return LoadPoint(
        load=load,
        begun_at=time.time() - (after.sample.at - before.sample.at),
        seconds=seconds,
        requests=len(times),
        rate=len(times) / seconds,
        samples_rate=len(times) / seconds * batch,
        failures=failures,
        examples=examples,
        unsent=pace.unsent(end) if isinstance(pace, OpenLoop) else 0,
        over=sum(done - due > load.bound_ms * 1e6 for due, _, done in times),
        stopped=pace.why or pace.ended(),
        latency=figures.latency([done - due for due, _, done in times], percentile),
        late=figures.latency(late, percentile),
        threads=tuple(results.thread(record, batch, percentile) for record in records),
        server=server.share(before.statistics, after.statistics),
        costs=results.costs(records, before.sample, after.sample),
        shape=results.shape(times, since, percentile),
    )
