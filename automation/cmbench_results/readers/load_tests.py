"""Results of ``bench,endpoint`` and of other load generators for language models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from cmbench_results.readers import ReadItems, text_of, unread
from cmbench_results.values import (
    HIGHER,
    LOWER,
    OWN_RECORD,
    SUMMARY,
    TELEMETRY,
    THROUGHPUT,
    BenchmarkResult,
    BenchmarkWorkload,
    ResultMetric,
    SoftwareStack,
    SystemDescription,
    digest,
    text,
)
from serving.endpoint import imports
from serving.endpoint.imports import LoadTestPoint

BENCHMARK = "endpoint"
PER_TOKEN = "energy_per_token"
PER_USER = "tokens_per_s_per_user"


def read(path: Path, benchmark_round: str = "") -> ReadItems:
    """Return a result for every load in a file."""
    try:
        yield from [_result(point, path) for point in points_in(path)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        yield unread(path, problem)


def is_load_test(path: Path) -> bool:
    """Return whether a file is one of these."""
    try:
        return bool(imports.program_of(json.loads(text_of(path))))
    except (OSError, ValueError, RecursionError):
        return False


def points_in(path: Path) -> list[LoadTestPoint]:
    """Return the loads in a file; raise ``OSError`` and ``ValueError``."""
    return list(imports.points_of(json.loads(text_of(path))))


def _result(point: LoadTestPoint, path: Path) -> BenchmarkResult:
    rate = point.output_tokens_per_s
    facts = [point.program, point.model, point.load, rate, point.at, sorted(point.settings.items())]
    settings = {"load": point.load, "program": point.program, **point.settings}
    return BenchmarkResult(
        key=f"load-test:{digest(facts)[:24]}",
        workload=BenchmarkWorkload(
            benchmark=BENCHMARK, scenario=point.load, model=text(point.model)
        ),
        system=SystemDescription(
            name=text(point.machine.name), cpu=text(point.machine.cpu), cores=point.machine.cores
        ),
        software=SoftwareStack(framework=point.program),
        metric="output tokens per second",
        value=rate,
        unit="tokens/s",
        reasons=(f"{point.failed} requests failed",) if point.failed else (),
        metrics=tuple(_metrics(point)),
        settings={name: text(value) for name, value in settings.items()},
        measured_at=_moment(point.at),
        duration_s=point.seconds,
        figures_from=OWN_RECORD if point.program == imports.OURS else SUMMARY,
        notes=text(point.notes),
        folder=str(path.parent),
    )


def _metrics(point: LoadTestPoint) -> Iterator[ResultMetric]:
    if point.output_tokens_per_s is not None:
        yield ResultMetric(THROUGHPUT, point.output_tokens_per_s, "tokens/s", HIGHER)
    if point.tokens_per_s_per_user is not None:
        yield ResultMetric(PER_USER, point.tokens_per_s_per_user, "tokens/s", HIGHER)
    if point.joules_per_token is not None:
        yield ResultMetric(PER_TOKEN, point.joules_per_token, "J", LOWER, TELEMETRY)
    for name, value in point.latencies.items():
        yield ResultMetric(name, value, "ms", LOWER)


def _moment(at: str) -> str:
    """Return a time as ISO 8601, in UTC where the program says which."""
    seconds = imports.number(at)
    if seconds:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    return text(at)
