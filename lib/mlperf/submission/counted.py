"""The result of a run: the figure that counts in its round, and the power it took.

Sources: ``get_performance_metric``, ``get_inferred_result`` and ``get_power_metric`` of the
official submission checkers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mlperf.catalog import BenchmarkSpec, ResultKey, Scenario
from mlperf.catalog.scenario import INFERRED_TOKENS, SERVER, of_log
from mlperf.harness.measuring.detail_log import DetailLog

from .build import SAMPLES
from .files import text

TIME = "%m-%d-%Y %H:%M:%S.%f"
_READING = re.compile(r"^Time,([^,]+),Watts,(-?[\d.]+)", re.MULTILINE)
_TOKENS = "requested_use_token_latencies"
_PER_QUERY = Scenario.MULTI_STREAM.samples_per_query


@dataclass(frozen=True, slots=True)
class CountedResult:
    """The figure of a scenario, in ``unit``; ``measured`` is the scenario of its log."""

    value: float | None
    unit: str
    metric: str
    measured: Scenario

    @property
    def higher_is_better(self) -> bool:
        """Whether it is a rate."""
        return self.unit != "ms"


def counted(
    run: DetailLog, spec: BenchmarkSpec | None, scenario: Scenario, benchmark_round: str
) -> CountedResult:
    """Return the result of a run for ``scenario``.

    Where a run of one scenario stands for another one, other keys of its log count; of benchmarks
    with a fixed number of tokens for a sample, LoadGen logs the tokens in a second.
    """
    measured = _measured(run) or scenario
    key = key_of(spec, scenario, benchmark_round)
    for name in INFERRED_TOKENS.values():
        tokens = run.number(name)
        if tokens is not None:
            return CountedResult(tokens, "tokens/s", key.meaning, measured)
    if measured is not scenario:
        value, unit = _inferred(run, scenario, measured), scenario.result.unit
        return CountedResult(value, unit, scenario.result.meaning, measured)
    # LoadGen's own estimate is of first tokens where it takes their latencies.
    tokens_first = scenario.stream and run.values.get(_TOKENS)
    value = run.milliseconds(key.otherwise) if tokens_first else run.figure(key)
    return CountedResult(value, key.unit, key.meaning, measured)


def key_of(spec: BenchmarkSpec | None, scenario: Scenario, benchmark_round: str) -> ResultKey:
    """Return the key of the result of a run of ``scenario`` itself."""
    if spec is None:
        return scenario.result_in(benchmark_round)
    return spec.result(scenario, benchmark_round)


def _measured(run: DetailLog) -> Scenario | None:
    """Return the scenario of the log; None for Server, which Interactive runs log too."""
    scenario = of_log(run.values.get("effective_scenario"))
    return None if scenario is SERVER else scenario


def _inferred(run: DetailLog, scenario: Scenario, measured: Scenario) -> float | None:
    """The figure of ``scenario`` out of a run of ``measured``."""
    if measured.samples_per_query == 1 and not scenario.batched:
        latency = run.milliseconds("early_stopping_latency_ms") or run.milliseconds(
            "result_99.00_percentile_latency_ns"
        )
        return None if latency is None else latency * _PER_QUERY
    if measured.samples_per_query == 1:
        return run.number("result_qps_without_loadgen_overhead")
    mean = run.milliseconds("result_mean_query_latency_ns")
    return _PER_QUERY * 1000 / mean if mean else None


@dataclass(frozen=True, slots=True)
class PowerReading:
    """What a power analyzer has seen of a run: mean ``watts`` of readings above 0."""

    watts: float
    seconds: float

    def per_sample(self, run: DetailLog, scenario: Scenario, result: CountedResult) -> float | None:
        """Joules for a sample; ``None`` where the result does not count samples."""
        if not scenario.stream:
            samples_per_s = result.value if result.unit == "samples/s" else None
            return self.watts / samples_per_s if samples_per_s else None
        queries = run.number("result_query_count")
        samples = (queries or 0) * result.measured.samples_per_query
        return self.watts * self.seconds / samples if samples else None


def power(folder: Path, run: DetailLog) -> PowerReading | None:
    """The power that the run of ``folder`` took, where an analyzer's readings of it are there."""
    readings = text(folder / SAMPLES)
    span = lasted(run) if readings else None
    above = [watts for watts in during(readings, span) if watts > 0] if span else []
    if not span or not above:
        return None
    return PowerReading(sum(above) / len(above), (span[1] - span[0]).total_seconds())


def lasted(run: DetailLog) -> tuple[datetime, datetime] | None:
    """When a run began and ended by its log, in the analyzer's clock."""
    begin, end = (_time(run.values.get(f"power_{word}")) for word in ("begin", "end"))
    return (begin, end) if begin and end else None


def during(readings: str, span: tuple[datetime, datetime]) -> Iterator[float]:
    """The readings between two times, in W."""
    for stamp, watts in _READING.findall(readings):
        at = _time(stamp)
        if at is not None and span[0] < at < span[1]:
            yield float(watts)


def _time(stamp: object) -> datetime | None:
    try:
        return datetime.strptime(str(stamp), TIME)
    except ValueError:
        return None
