"""Results of the client of MLPerf Endpoints inside a submission to MLPerf inference, from 6.1 on.

A folder of a scenario with ``config.yaml`` has ``performance/result_summary.json`` and
``accuracy/accuracy_results.json`` in place of LoadGen's logs. Source: endpoints_parser.py and the
settings ENDPOINTS_* of the official checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from common.problems import Problem
from mlperf import client_run as runs
from mlperf.catalog import BenchmarkSpec, Scenario, rounds
from mlperf.catalog.benchmark import Target
from mlperf.client_run import ClientRun

from .counted import CountedResult, key_of
from .layouts import ScenarioCell

MODELS = (
    "wan-2.2-t2v-a14b",
    "qwen3-vl-235b-a22b",
    "qwen3.6-27b",
    "llama3.1-8b",
    "llama3.1-8b-edge",
    "gpt-oss-120b",
    "deepseek-r1",
)
"""Benchmarks whose results may come from the client."""
MINIMUM_MS = 600_000


def read_client_run(cell: ScenarioCell) -> ClientRun:
    """Return the run of a scenario; raise Problem where a file of it cannot be read."""
    return runs.read_run(cell.results)


def client_result(
    run: ClientRun, spec: BenchmarkSpec | None, scenario: Scenario, benchmark_round: str
) -> CountedResult:
    """Return the figure that counts: the client's own rate, or a mean latency in ms.

    In Server and Interactive it is over the time until the last request was issued, as LoadGen
    counts: ``qps`` and ``tps``, and not requests or tokens over the duration.
    """
    key = key_of(spec, scenario, benchmark_round)
    if key.unit == "ms":
        return CountedResult(run.answer_seconds * 1000 or None, "ms", key.meaning, scenario)
    name = "tps" if key.unit == "tokens/s" else "qps"
    return CountedResult(run.figure(name), key.unit, key.meaning, scenario)


def judged_accuracy(run: ClientRun, target: Target) -> float | None:
    """Return the accuracy in the unit of its target, over all data sets; None where it lacks."""
    scores = [
        (score, float(entry.get("unit_samples") or entry.get("num_samples") or 1))
        for entry in run.accuracy
        if entry.get("dataset_type") != "performance"
        for score in _scores(entry, target)
    ]
    weight = sum(samples for _, samples in scores)
    return sum(score * samples for score, samples in scores) / weight if weight else None


def _scores(entry: object, target: Target) -> Iterator[float]:
    values = runs.scores_of(entry) if isinstance(entry, dict) else {}
    names = {name.lower().replace("-", ""): value for name, value in values.items()}
    name = target.metric.checker_name.lower()
    value = names.get(name, names.get("score"))
    if value is not None:
        # Scorers report percentages as fractions of 1.
        yield 100 * value if target.unit == "%" and value <= 1 else value


def seed_faults(run: ClientRun, benchmark_round: str) -> Iterator[str]:
    """Yield the seeds that are not those of the round."""
    expected = rounds.seeds(benchmark_round)
    kinds = {"sample_index_rng_seed": "sample_index", "scheduler_rng_seed": "schedule"}
    for name, kind in kinds.items():
        if run.seed(name) != expected.get(kind):
            yield f"{name} is {run.seed(name)}, round {benchmark_round} has {expected.get(kind)}"


def latency_faults(run: ClientRun, spec: BenchmarkSpec, scenario: Scenario) -> Iterator[str]:
    """Yield the latencies above the limits of a scenario, by estimates of early stopping."""
    limit = spec.limits.get(scenario)
    if limit is None:
        return
    limits = (
        ("ttft", "time to the first token", limit.ttft_ms),
        ("tpot", "time per output token", limit.tpot_ms),
        ("latency", "latency", limit.latency_ms if limit.ttft_ms is None else None),
    )
    for metric, meaning, most in limits:
        if most is None:
            continue
        reached = run.early_milliseconds(metric, 99)
        if reached is None:
            yield f"there is no estimate of the p99 of the {meaning}"
        elif reached > most:
            yield f"the p99 of the {meaning} is {reached:g} ms, the limit {most:g} ms"


def readable_run(cell: ScenarioCell) -> ClientRun | None:
    """Return the run of a scenario, or None where a file of it cannot be read."""
    try:
        return read_client_run(cell)
    except Problem:
        return None
