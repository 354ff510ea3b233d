"""The results of one measurement, out of what threads recorded and counters said."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import figures
from .figures import LatencySummary
from .load import Failure, Record
from .machine import MachineSample
from .server import ServerShare

# Above these, the client is suspected to be the limit.
OUTSIDE = 0.05
BUSY = 0.9
LATE_MS = 1.0
STOLEN = 0.05
BINS = 40
SLICES = 60


@dataclass(frozen=True, slots=True)
class Load:
    """What to send: in a closed loop ``size`` requests in flight, else so many a second.

    Requests that took more than ``bound_ms`` are counted.
    """

    size: float
    open_loop: bool
    seconds: float
    count: int = 0
    stable: bool = False
    bound_ms: float = math.inf


@dataclass(frozen=True, slots=True)
class Thread:
    """What one thread did; ``rate`` is in samples/s, as guide 003 has it."""

    requests: int
    seconds: float
    rate: float
    latency: LatencySummary | None


@dataclass(frozen=True, slots=True)
class RunCosts:
    """Processors that client and server were using, and what else went on here.

    ``outside`` is the share of the connections' time that no request was under way; ``server`` is
    None where the server is another user's or elsewhere; ``stolen`` is in processors.
    """

    client: float
    server: float | None
    outside: float
    stolen: float
    load_before: float | None
    load_after: float | None


@dataclass(frozen=True, slots=True)
class LatencyShape:
    """A histogram of latencies in ms, and slices of time: s, requests/s, and a percentile in ms."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    timeline: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """How one load went; ``late`` is by how much requests were sent after they were due (ms)."""

    load: Load
    begun_at: float
    seconds: float
    requests: int
    failures: Mapping[str, int]
    examples: Mapping[str, str]
    unsent: int
    stopped: str
    late: LatencySummary | None
    costs: RunCosts

    @property
    def failed(self) -> int:
        """Return how many requests failed, whatever the kind."""
        return sum(self.failures.values())

    @property
    def scheduled(self) -> int:
        """Return how many requests there should have been."""
        return self.requests + self.failed + self.unsent


@dataclass(frozen=True, slots=True)
class LoadPoint(MeasuredLoad):
    """One measurement of a model."""

    rate: float
    samples_rate: float
    over: int
    latency: LatencySummary | None
    threads: tuple[Thread, ...]
    server: ServerShare | None
    shape: LatencyShape

    @property
    def tail_ms(self) -> float:
        """Return the 99th percentile of the latency; infinite where nothing was answered."""
        return self.latency.percentile(99.0) if self.latency else math.inf


# Of an answered request, in ns: due, sent, answered.
Times = tuple[int, int, int]


def answered_after(records: Sequence[Record], since: int) -> list[Times]:
    """Return the requests that were answered after ``since``, in the order of their answers."""
    spans = [
        times
        for record in records
        for times in zip(record.due, record.start, record.done, strict=True)
        if times[2] >= since
    ]
    return sorted(spans, key=lambda times: times[2])


def thread(record: Record, batch: int, percentile: float) -> Thread:
    """Return the figures of one thread."""
    count, seconds = len(record.due), max((record.end - record.begin) / 1e9, 1e-9)
    latency = figures.latency(record.latencies(), percentile)
    return Thread(count, seconds, count * batch / seconds, latency)


def counted(failures: Sequence[Failure]) -> tuple[dict[str, int], dict[str, str]]:
    """Failures by kind, and the first of each."""
    first = {each.kind: each.message for each in reversed(failures)}
    return dict(Counter(each.kind for each in failures)), first


def costs(records: Sequence[Record], before: MachineSample, after: MachineSample) -> RunCosts:
    """Processors in use between two moments."""
    waited = max(after.at - before.at, 1e-9)
    server = None
    if before.server_cpu is not None and after.server_cpu is not None:
        server = (after.server_cpu - before.server_cpu) / waited
    there = sum(record.end - record.begin for record in records)
    busy = sum(
        done - sent
        for record in records
        for sent, done in zip(record.start, record.done, strict=True)
    )
    failed = any(record.failures for record in records)
    return RunCosts(
        client=(after.own_cpu - before.own_cpu) / waited,
        server=server,
        outside=0.0 if failed or not there else max(0.0, 1 - busy / there),
        stolen=max(0.0, (after.stolen - before.stolen) / waited),
        load_before=before.load,
        load_after=after.load,
    )


def shape(times: Sequence[Times], begin: int, percentile: float) -> LatencyShape:
    """What charts are drawn from."""
    latencies = [(done - due) / 1e6 for due, _, done in times]
    edges, counts = histogram(latencies)
    return LatencyShape(edges, counts, timeline(times, begin, percentile))


def histogram(values: Sequence[float]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Even steps of the logarithm from the smallest to the largest value."""
    if not values:
        return (), ()
    low, high = max(min(values), 1e-6), max(values)
    high = max(high, low * 1.01)
    width = math.log(high / low) / BINS
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(math.log(max(value, low) / low) / width))] += 1
    return tuple(low * math.exp(width * place) for place in range(BINS + 1)), tuple(counts)


def timeline(
    times: Sequence[Times], begin: int, percentile: float
) -> tuple[tuple[float, float, float], ...]:
    """Return slices of equal length with enough requests for a percentile."""
    if not times:
        return ()
    span = max(times[-1][2] - begin, 1)
    count = max(1, min(SLICES, len(times) // 20))
    slices: list[list[float]] = [[] for _ in range(count)]
    for due, _, done in times:
        slices[min(count - 1, (done - begin) * count // span)].append((done - due) / 1e6)
    step = span / count / 1e9
    return tuple(
        (
            round((place + 0.5) * step, 4),
            len(each) / step,
            figures.percentile(sorted(each), percentile) if each else 0.0,
        )
        for place, each in enumerate(slices)
    )


def on_schedule(points: Sequence[LoadPoint]) -> float | None:
    """The highest of several rates (1/s) up to which all requests were sent when they were due.

    None where there are not several, or the first was late already.
    """
    rates = sorted(
        (each for each in points if each.load.open_loop), key=lambda each: each.load.size
    )
    if len(rates) < 2:
        return None
    kept = itertools.takewhile(lambda each: not is_late(each), rates)
    return max((each.load.size for each in kept), default=None)


def is_late(point: LoadPoint) -> bool:
    """Return whether requests were sent later than they should have been, or never."""
    late = point.late is not None and point.late.percentile(99.0) > LATE_MS
    return late or point.late is None or point.unsent > 0


def warnings(point: LoadPoint, cores: int) -> dict[str, str]:
    """What a reader must know before believing the figures, by its kind."""
    texts = client_warnings(point, cores)
    share = point.server
    if share and share.requests > point.requests + point.failed + len(point.threads):
        answered = share.requests
        texts["others"] = f"the server answered {answered} requests: others were asking too"
    return texts


def client_warnings(point: MeasuredLoad, cores: int) -> dict[str, str]:
    """Return where the client or this machine was the limit, by its kind."""
    texts, at = {}, point.costs
    if not point.load.open_loop and at.outside > OUTSIDE:
        texts["outside"] = (
            f"the client is the limit: no request was under way for {100 * at.outside:.0f} % of "
            "the time of its connections"
        )
    if at.client > BUSY:
        texts["client"] = (
            f"the client is the limit: it uses {at.client:.2f} processors of the one it can"
        )
    if point.late and point.late.percentile(99.0) > LATE_MS:
        texts["late"] = (
            f"requests were sent late: p99 {point.late.percentile(99.0):.2f} ms; latency counts it"
        )
    if point.unsent:
        texts["unsent"] = (
            f"{point.unsent} requests were due and never sent: --connections were all busy"
        )
    if at.stolen > STOLEN:
        texts["stolen"] = f"other virtual machines had {at.stolen:.2f} processors of this one"
    if at.load_before is not None and at.load_before > cores:
        load = f"load {at.load_before:g} on {cores} cores"
        texts["busy"] = f"the machine was busy before: {load}"
    if at.server is not None and at.client + at.server > BUSY * cores:
        used = f"{at.client:.2f} and {at.server:.2f}"
        texts["cores"] = (
            f"client and server used {used} of {cores} cores: they were in each other's way"
        )
    return texts
