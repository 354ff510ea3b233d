"""Figures of a run's log that the checker calculates with: without one it ends with a traceback."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from mlperf.catalog import MULTI_STREAM, OFFLINE, SINGLE_STREAM, Scenario
from mlperf.catalog.scenario import INFERRED_TOKENS

from .base import CHECKER, Finding, Rule
from .run import CheckedRun
from .settings import fewer

FIGURES = Rule("performance.figures", "the figures that the checker calculates with", CHECKER)

AGAIN = "run it again, and submit the log as LoadGen wrote it"
# What a result is made of that is inferred from a run of another scenario.
INFERRED: Mapping[tuple[Scenario, Scenario], tuple[str, ...]] = {
    (SINGLE_STREAM, MULTI_STREAM): ("early_stopping_latency_ms",),
    (SINGLE_STREAM, OFFLINE): ("result_qps_without_loadgen_overhead",),
    (MULTI_STREAM, OFFLINE): ("result_mean_query_latency_ns", "effective_samples_per_query"),
}


def figures(run: CheckedRun) -> Iterator[Finding]:
    """Check for figures that a log lacks, or that are no numbers."""
    if run.measured is None or not run.log.validity:
        return
    results = tuple(_results(run, run.measured))
    inferred = _inferred(run, run.measured)
    # The estimate of early stopping is zero after too few queries, which another rule reports.
    above_zero = inferred if run.measured.stream and fewer(run) else (*results, *inferred)
    for key in dict.fromkeys((*results, *_settings(run.measured), *inferred)):
        if not _possible(run.log.number(key), key in above_zero):
            fault = repr(run.log.values[key]) if key in run.log.values else "not there"
            yield FIGURES.broken(run.where, f"{key} is {fault}", AGAIN)


def _results(run: CheckedRun, measured: Scenario) -> Iterator[str]:
    benchmark_round = run.site.layout.round
    yield measured.result_in(benchmark_round).key
    yield run.known.result(measured, benchmark_round).key
    if run.known.inferred_tokens and measured in INFERRED_TOKENS:
        yield INFERRED_TOKENS[measured]


def _possible(value: float | None, above_zero: bool) -> bool:
    if value is None or not math.isfinite(value):
        return False
    return value > 0 if above_zero else value >= 0


def _inferred(run: CheckedRun, measured: Scenario) -> tuple[str, ...]:
    """What the result is made of, where it is that of another scenario."""
    wanted = Scenario.of_folder(run.cell.scenario)
    return () if wanted is None or run.test else INFERRED.get((measured, wanted), ())


def _settings(measured: Scenario) -> tuple[str, ...]:
    """Return the settings of the run that the checker compares."""
    if measured.online:
        return ("effective_target_latency_ns",)
    return ("effective_samples_per_query", "effective_min_query_count") if measured.batched else ()
