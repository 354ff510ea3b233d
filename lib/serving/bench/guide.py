"""The lines of guide 003's client, to the letter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from .option_table import ENDLESS
from .options import BenchSettings
from .results import LoadPoint, Thread
from .target import ProbedModel

PERCENTILES = (50.0, 75.0, 95.0, 99.0)


def model_line(settings: BenchSettings) -> str:
    """Return the first line without a benchmark."""
    return f"Model name = {settings.model}, batch size = {settings.batch}"


def judged(target: ProbedModel) -> Iterator[str]:
    """Yield whether the first answer is right, and how long it took."""
    yield f"{'FAIL' if target.problems else 'PASS'}: {target.settings.model}"
    yield from (f"  {problem}" for problem in target.problems)
    if target.stand_in:
        yield f"note: {target.stand_in}"
    yield f"##### Model inference time in ms: {target.first_ms!r}"


def announced(settings: BenchSettings, threads: int) -> Iterator[str]:
    """What is about to be measured."""
    yield "##### WARMUP COMPLETE, NOW DO BENCHMARK #####"
    yield f"##### Model name: {settings.model}, Batch size: {settings.batch}"
    length = f"{timedelta(seconds=settings.seconds)} seconds"
    if settings.seconds == ENDLESS:
        length = f"{settings.count} requests" if settings.count else "stable windows"
    for number in range(threads):
        yield f"RUN Thread {number} for {length}"
    yield f">>> Running {threads} threads"


def measured(settings: BenchSettings, point: LoadPoint) -> Iterator[str]:
    """Yield the figures of every thread."""
    for number, thread in enumerate(point.threads):
        count, seconds = f"{thread.requests} {settings.protocol}", f"{thread.seconds:.6f}"
        yield f"Thread {number}: Completed {count} requests in {seconds} seconds."
        yield from _figures(number, thread)


def _figures(number: int, thread: Thread) -> Iterator[str]:
    yield f"Thread {number} Throughput per second: {thread.rate!r}"
    for each in PERCENTILES if thread.latency else ():
        value = thread.latency.percentile(each) if thread.latency else 0.0
        yield f"Thread {number} Latency p{each:g} in ms: {value!r}"
