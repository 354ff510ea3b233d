"""The tuning guide as code: how long runs take, and what to change in one that is INVALID."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf.catalog import Scenario
from mlperf.catalog.scenario import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.logs import COMPLETED, detail
from nvidia_mlperf.make.work import PlannedRun, WorkPlan

SECONDS = {"test": 10, "fast": 120, "valid": 600}
LEAST_S = 1.1
FIELDS = {
    OFFLINE: "offline_expected_qps",
    SERVER: "server_target_qps",
    SINGLE_STREAM: "single_stream_expected_latency_ns",
    MULTI_STREAM: "multi_stream_expected_latency_ns",
}
LEAST_QUERIES = {OFFLINE: 24576}
"""What the rules ask of a valid run besides its length, in samples; others stop early."""
LESS = 0.9
"""A Server rate is lowered to this share of the target, or of what was answered."""
LONGER = 1.5
"""How many times its queries a run makes next that was in time and ended too early."""


def run_times(flow: Flow, work: WorkPlan) -> list[str]:
    """How long each performance run takes, and all of them, by the tuning guide's formula."""
    runs = [(item, *seconds(item.config.scenario, length(flow, work, item))) for item in work.items]
    lines = [f"run time: {item.name}: {took:.0f} s ({why})" for item, took, why in runs]
    whole = sum(took for _, took, _ in runs)
    return [*lines, f"run time: at least {whole:.0f} s for {len(runs)} runs, and the preparation"]


@dataclass(frozen=True, slots=True)
class Length:
    """What decides how long a run takes; 0 where it is not known.

    ``least_s`` is its least duration in seconds, ``queries`` its least count (samples in Offline).
    ``expected`` and ``actual`` are rates in samples/s, of streams their latencies in ns.
    """

    least_s: float
    queries: int = 0
    expected: float = 0
    actual: float = 0


def length(flow: Flow, work: WorkPlan, item: PlannedRun) -> Length:
    """Return the length of an item's run, from the rate of its last run.

    Without a rate in RUN_ARGS the harness measures first and expects what it has measured.
    """
    overrides, fast = item.overrides, work.arguments.fast
    expected = next((float(overrides[name]) for name in expecting(item) if name in overrides), 0.0)
    if work.machine is not None and not expected:
        values = (item.value(name) for name in expecting(item))
        expected = next((float(value) for value in values if value), 0.0)
    usual = LEAST_QUERIES.get(item.config.scenario, 0)
    least = 1 if fast else usual if flow.settings.execution_mode == "valid" else 0
    return Length(
        least_seconds(flow, item, fast),
        int(overrides.get("min_query_count", least)),
        expected,
        measured(flow, item),
    )


def expecting(item: PlannedRun) -> tuple[str, str]:
    """Return the fields of an item's expected rate; v0.7 prefixes them with gpu_."""
    return FIELDS[item.config.scenario], f"gpu_{FIELDS[item.config.scenario]}"


def measured(flow: Flow, item: PlannedRun) -> float:
    """What the item's last finished run has reached: samples/s, ns; 0 where there was none."""
    scenario = item.config.scenario
    place = f"*_results/*/{item.ours}/{scenario.folder}/performance/run_1/mlperf_log_detail.txt"
    logs = sorted(flow.results.glob(place), key=lambda path: path.stat().st_mtime)
    if not logs:
        return 0.0
    entries = detail(logs[-1])
    keys = (scenario.result.otherwise, COMPLETED, OFFLINE.result.key)
    return next((float(entries[key]) for key in keys if key and entries.get(key)), 0.0)


def seconds(scenario: Scenario, of: Length) -> tuple[float, str]:
    """How long a run takes in seconds, and why: section "Performance tuning" of NVIDIA's guide.

    Offline makes one query of all samples that the expected rate answers in the least duration and
    a tenth more; streams make as many queries as the expected latency fits into it.
    """
    actual = of.actual or of.expected
    by_count = of.queries * seconds_per_query(scenario, actual) if actual else 0.0
    if by_count > (by_time := room(scenario) * of.least_s * slower(scenario, of)):
        return by_count, f"{of.queries} queries at least"
    why = f"{of.least_s:g} s at least"
    why += f", and {LEAST_S:g} of it" if scenario.batched else ""
    if of.expected and of.actual:
        unit = "ns" if scenario.stream else "samples/s"
        why += f"; {of.expected:g} {unit} expected, {of.actual:g} reached last"
    return by_time, why


def seconds_per_query(scenario: Scenario, actual: float) -> float:
    """Seconds of a query (a sample, in Offline) at a rate in samples/s or a latency in ns."""
    return actual / 1e9 if scenario.stream else 1 / actual


def room(scenario: Scenario) -> float:
    """Return how much more than the least duration LoadGen prepares samples for."""
    return LEAST_S if scenario.batched else 1.0


def slower(scenario: Scenario, of: Length) -> float:
    """The number of times as long as expected that a query takes; 1 where it is not known."""
    if not of.expected or not of.actual:
        return 1.0
    return seconds_per_query(scenario, of.actual) / seconds_per_query(scenario, of.expected)


def least_seconds(flow: Flow, item: PlannedRun, fast: bool) -> float:
    """Return the least length of a performance run in seconds."""
    duration = item.overrides.get("min_duration", 60_000 if fast else None)
    return duration / 1000 if duration is not None else SECONDS[flow.settings.execution_mode]


def problems(
    flow: Flow, item: PlannedRun, result: Mapping[str, Any], folder: Path
) -> Iterator[str]:
    """Yield why a run is INVALID, and the field to change."""
    del flow
    if result.get("performance_run") and result.get("validity") == "INVALID":
        entries = detail(folder / "performance" / "run_1" / "mlperf_log_detail.txt")
        yield f"{item.name} is INVALID: {change(item, result, entries)}"
    if result.get("accuracy_run") and result.get("accuracy_reached") is False:
        yield (
            f"{item.name}: accuracy {result.get('accuracy')} is below"
            f" {result.get('accuracy_target')}: the model or its data are not the right ones"
        )


def change(item: PlannedRun, result: Mapping[str, Any], entries: Mapping[str, Any]) -> str:
    """Return the field to change and its new value, from what LoadGen has logged."""
    reasons = "; ".join(str(reason) for reason in result.get("reasons", ())) or "LoadGen says so"
    if too_few(item, entries):
        # In time, and still too few to be sure: a longer run, at the same rate.
        longer: dict[str, float] = {"min_query_count": math.ceil(LONGER * queries_of(entries))}
    else:
        value = new_value(item, result, entries)
        longer = {FIELDS[item.config.scenario]: value} if value else {}
    if not longer:
        return f"{reasons}: change --{FIELDS[item.config.scenario]}"
    text = " ".join(f"--{field}={value:.10g}" for field, value in longer.items())
    return f"{reasons}: {text}{_next_step(item, longer)}"


def _next_step(item: PlannedRun, changed: Mapping[str, Any]) -> str:
    """What helps a Server run where a lower rate alone does not."""
    batch = int(item.overrides.get("gpu_batch_size", 0))
    if "server_target_qps" not in changed or batch < 2:
        return ""
    return f"; where that does not help, --gpu_batch_size={batch // 2}"


def too_few(item: PlannedRun, entries: Mapping[str, Any]) -> bool:
    """Whether all was in time, and only early stopping or the least count was not reached."""
    if item.config.scenario.batched or not queries_of(entries):
        return False
    in_time = entries.get("result_perf_constraints_met", True) is not False
    return in_time and (
        entries.get("early_stopping_met") is False or entries.get("result_min_queries_met") is False
    )


def queries_of(entries: Mapping[str, Any]) -> int:
    """Return the number of queries of a run; 0 where the log lacks it."""
    return int(entries.get("result_query_count") or 0)


def new_value(item: PlannedRun, result: Mapping[str, Any], entries: Mapping[str, Any]) -> float:
    """Return the new value of the field, in its unit; 0 where the log has none."""
    scenario = item.config.scenario
    figure = result.get("value")
    if scenario.batched:
        rate = entries.get(scenario.result.key, figure)
        return round(float(rate) * LEAST_S, 3) if rate else 0
    if scenario.online:
        target = entries.get("effective_target_qps", item.value("server_target_qps"))
        # What was answered is the most that there was; far below the target, that is the measure.
        rates = [float(rate) for rate in (target, entries.get(COMPLETED)) if rate]
        return round(min(rates, default=0) * LESS, 3)
    latency = entries.get(scenario.result.otherwise)
    return float(latency) if latency else 0
