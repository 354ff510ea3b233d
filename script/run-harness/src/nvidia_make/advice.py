"""The tuning guide as code: how long runs take, and what to change in one that is INVALID."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nvidia_make.flow import Flow
from nvidia_make.logs import COMPLETED, detail
from nvidia_make.work import Item, Work

SECONDS = {"test": 10, "fast": 120, "valid": 600}
LEAST_S = 1.1
FIELDS = {
    "Offline": "offline_expected_qps",
    "Server": "server_target_qps",
    "SingleStream": "single_stream_expected_latency_ns",
    "MultiStream": "multi_stream_expected_latency_ns",
}
_LATENCY = {
    "SingleStream": "result_90.00_percentile_latency_ns",
    "MultiStream": "result_99.00_percentile_per_query_latency_ns",
}
LESS = 0.9
"""A Server rate is lowered to this share of the target, or of what was answered."""


def run_times(flow: Flow, work: Work) -> list[str]:
    """How long the runs take at least, by their settings."""
    seconds = sum(least_seconds(flow, item, work.asked.fast) for item in work.items)
    return [f"run time: at least {seconds:.0f} s for {len(work.items)} runs, and the preparation"]


def least_seconds(flow: Flow, item: Item, fast: bool) -> float:
    """The least length of a performance run in seconds."""
    given = item.given.get("min_duration", 60_000 if fast else None)
    return given / 1000 if given is not None else SECONDS[flow.settings.execution_mode]


def problems(flow: Flow, item: Item, result: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Why a run is not as it must be, and the field that changes it."""
    del flow
    if result.get("performance_run") and result.get("validity") == "INVALID":
        told = detail(folder / "performance" / "run_1" / "mlperf_log_detail.txt")
        yield f"{item.name} is INVALID: {change(item, result, told)}"
    if result.get("accuracy_run") and result.get("accuracy_reached") is False:
        yield (
            f"{item.name}: accuracy {result.get('accuracy')} is below"
            f" {result.get('accuracy_target')}: the model or its data are not the right ones"
        )


def change(item: Item, result: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """The field to change and its new value, from what LoadGen has logged."""
    scenario = item.config.scenario
    field, value = FIELDS[scenario], new_value(item, result, told)
    reasons = "; ".join(str(reason) for reason in result.get("reasons", ())) or "LoadGen says so"
    return f"{reasons}: --{field}={value:g}" if value else f"{reasons}: change --{field}"


def new_value(item: Item, result: Mapping[str, Any], told: Mapping[str, Any]) -> float:
    """The new value of the field; 0 where the log does not tell one."""
    scenario = item.config.scenario
    figure = result.get("value")
    if scenario == "Offline":
        rate = told.get("result_samples_per_second", figure)
        return round(float(rate) * LEAST_S, 3) if rate else 0
    if scenario == "Server":
        target = told.get("effective_target_qps", item.value("server_target_qps"))
        # What was answered is the most that there was; far below the target, that is the measure.
        rates = [float(rate) for rate in (target, told.get(COMPLETED)) if rate]
        return round(min(rates, default=0) * LESS, 3)
    latency = told.get(_LATENCY[scenario])
    return float(latency) if latency else 0
