"""Benchmark, scenario and round, inferred from logs, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable

from mlperf import catalog
from mlperf.catalog import BenchmarkSpec, rounds
from mlperf.harness.measuring.detail_log import DetailLog

SEED = "effective_qsl_rng_seed"
SAMPLES = "qsl_reported_total_count"


def round_of(logs: Iterable[DetailLog]) -> str:
    """Return the round whose seed a log has; empty without one."""
    known = {rounds.seeds(name).get("qsl"): name for name in rounds.ROUNDS}
    names = (known.get(log.values.get(SEED)) for log in logs)
    return next((name for name in names if name), "")


def benchmarks(log: DetailLog, scenario: str, benchmark_round: str) -> list[BenchmarkSpec]:
    """Return the benchmarks of a round and scenario whose data set has the size in the log."""
    size = log.number(SAMPLES)
    specs = (spec.at(benchmark_round) for spec in catalog.benchmarks().values())
    return [
        spec
        for spec in specs
        if size in (spec.dataset_size, spec.accuracy_samples)
        and spec.in_round(scenario, benchmark_round)
    ]
