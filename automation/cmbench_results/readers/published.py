"""Rows of published summaries: the field names of the official checker's summary, in both forms.

Source: ``cm-result.json`` in mlcommons/cm4mlperf-results (rounds 2.0 to 4.1) and
``summary_results.json`` in mlcommons/inference_results_* (5.0 and later).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from cmbench_results import shared
from cmbench_results.values import (
    CERTIFIED,
    ENERGY,
    HIGHER,
    LOCAL,
    LOWER,
    OFFICIAL,
    POWER,
    SUMMARY,
    THROUGHPUT,
    BenchmarkResult,
    BenchmarkWorkload,
    ResultMetric,
    SoftwareStack,
    SystemDescription,
    count,
    number,
    text,
)

Row = Mapping[str, Any]

_NAMES = {
    "Organization": ("Organization", "Submitter"),
    "Division": ("Division", "Category"),
    "SystemType": ("SystemType", "Suite"),
    "SystemName": ("SystemName", "System"),
    "Result": ("Result", "Performance_Result"),
    "Units": ("Result_Units", "Units", "Performance_Units"),
    "cpu": ("host_processor_model_name", "Processor"),
    "cores": ("host_processor_core_count",),
    "sockets": ("host_processors_per_node", "p#"),
    "accelerator": ("accelerator_model_name", "Accelerator"),
    "accelerators": ("accelerators_per_node", "a#"),
    "nodes": ("number_of_nodes", "Nodes"),
    "framework": ("framework", "Software"),
    "link": ("url", "Details"),
    "notes": ("notes", "Notes"),
    "power": ("Result_Power", "Power_Result"),
    "power_unit": ("Result_Power_Units", "Power_Units"),
}
_NEEDED = ("version", "division", "organization", "platform", "model", "scenario")
_UNITS = {"samples/s": "samples/s", "queries/s": "samples/s", "tokens/s": "tokens/s"}
_FIGURE = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", re.IGNORECASE)
_PUBLISHER = "https://github.com/mlcommons/"


class IncompleteError(ValueError):
    """A row without what makes it a result."""


def get_field(row: Row, name: str) -> Any:
    """Return a field by any of its names in the two forms."""
    return next((row[key] for key in _NAMES.get(name, (name,)) if row.get(key) is not None), None)


def result(row: Row) -> BenchmarkResult:
    """Return the result of one row; raise ``IncompleteError``."""
    version = text(row.get("version")).lstrip("v")
    name = [text(get_field(row, key)) for key in ("Division", "Organization", "Platform")]
    model, scenario = text(row.get("Model")), text(row.get("Scenario"))
    needed = dict(zip(_NEEDED, (version, *name, model, scenario), strict=True))
    if not all(needed.values()):
        lacking = ", ".join(word for word, value in needed.items() if not value)
        raise IncompleteError(f"not a result of MLPerf inference: it has no {lacking}")
    benchmark = shared.benchmark_of(text(row.get("MlperfModel")) or model, model)
    scenario_rules = shared.scenario_of(scenario)
    value, unit, energy = _figures(row, scenario_rules)
    if unit == "samples/s" and shared.counts_tokens(benchmark, version):
        # Rounds 4.0 and 4.1 call them samples or queries.
        unit = "tokens/s"
    link = text(get_field(row, "link"))
    read_result = BenchmarkResult(
        key=natural_key(
            version, *name, model=text(row.get("UsedModel")) or model, scenario=scenario
        ),
        workload=BenchmarkWorkload(
            benchmark=benchmark,
            scenario=scenario,
            model=text(row.get("UsedModel")) or model,
            round=version,
            division=name[0],
            category=",".join(
                sorted(text(get_field(row, "SystemType")).replace(" ", "").split(","))
            ),
        ),
        system=_system(row),
        software=SoftwareStack(
            framework=text(get_field(row, "framework")),
            precision=text(row.get("weight_data_types")),
        ),
        metric=scenario_rules.result.meaning if scenario_rules else "",
        value=value,
        unit=unit,
        direction=LOWER if unit == "ms" else HIGHER,
        organization=shared.organization_of(name[1]),
        validity="VALID" if value is not None else "",
        accuracy=_accuracy(row.get("Accuracy")),
        metrics=(*_speed(value, unit, scenario_rules), *energy),
        inferred=text(row.get("inferred")) == "1",
        availability=text(row.get("Availability")),
        tier=OFFICIAL if link.startswith(_PUBLISHER) else LOCAL,
        figures_from=SUMMARY,
        link=link,
        notes=text(get_field(row, "notes")),
    )
    # In the unit that counts: the energy of a token is none of a sample.
    return replace(read_result, metrics=tuple(_per_sample(read_result)))


def natural_key(
    version: str, division: str, organization: str, system: str, *, model: str, scenario: str
) -> str:
    """Return the key of a result in a round; a tree and a summary of it give the same one."""
    words = (version, division, organization, system, model, scenario)
    return "/".join(word.lower() for word in words)


def merged(results: Iterable[BenchmarkResult]) -> Iterator[BenchmarkResult]:
    """Merge results by key: a row with the speed and one with the power are the same result."""
    by_key: dict[str, BenchmarkResult] = {}
    for item in results:
        earlier = by_key.get(item.key)
        by_key[item.key] = item if earlier is None else _both(earlier, item)
    yield from by_key.values()


def _both(one: BenchmarkResult, other: BenchmarkResult) -> BenchmarkResult:
    first, second = (one, other) if one.value is not None else (other, one)
    names = {metric.name for metric in first.metrics}
    more = tuple(metric for metric in second.metrics if metric.name not in names)
    categories = {*first.workload.category.split(","), *second.workload.category.split(",")}
    work = replace(first.workload, category=",".join(sorted(categories)))
    accuracy = first.accuracy if first.accuracy is not None else second.accuracy
    together = replace(first, metrics=first.metrics + more, workload=work, accuracy=accuracy)
    return replace(together, metrics=tuple(_per_sample(together)))


def _figures(row: Row, scenario: Any) -> tuple[float | None, str, tuple[ResultMetric, ...]]:
    """Return the figure in its unit, and the power; a row may have power alone."""
    value, unit = number(get_field(row, "Result")), text(get_field(row, "Units"))
    power, power_unit = number(get_field(row, "power")), text(get_field(row, "power_unit"))
    if unit.lower() in ("watts", "millijoules"):
        # A row of power: its result is the power, if the speed has another row.
        power, power_unit = power if power is not None else value, unit
        value, unit = None, ""
    unit = _UNITS.get(unit.lower(), "ms" if "ms" in unit else unit)
    unit = unit or (scenario.result.unit if scenario else "samples/s")
    energy = () if power is None else tuple(_energy(power, power_unit.lower(), scenario))
    return value, unit, energy


def _energy(power: float, unit: str, scenario: Any) -> Iterator[ResultMetric]:
    if unit == "watts":
        yield ResultMetric(POWER, power, "W", LOWER, CERTIFIED)
    elif unit == "millijoules":
        samples = scenario.samples_per_query if scenario else 1
        yield ResultMetric(ENERGY, power / 1000 / samples, "J", LOWER, CERTIFIED)


def _per_sample(source: BenchmarkResult) -> Iterator[ResultMetric]:
    """Its metrics, with the energy of a sample where power and throughput are known."""
    yield from source.metrics
    power, rate = source.figure(POWER), source.figure(THROUGHPUT)
    if source.figure(ENERGY) is None and power and rate and rate.unit == "samples/s" and rate.value:
        yield ResultMetric(ENERGY, power.value / rate.value, "J", LOWER, power.tier)


def _speed(value: float | None, unit: str, scenario: Any) -> Iterator[ResultMetric]:
    if value is None:
        return
    if unit != "ms":
        yield ResultMetric(THROUGHPUT, value, unit, HIGHER)
    elif scenario and scenario.stream:
        yield ResultMetric(f"latency_p{100 * scenario.percentile:.0f}", value, "ms", LOWER)


def _accuracy(value: object) -> float | None:
    """Return the first figure of a number or a text such as ``ROUGE1: 44.5  ROUGE2: 22``."""
    parsed = number(value)
    if parsed is None and isinstance(value, str):
        before, colon, after = value.partition(":")
        match = _FIGURE.search(after if colon else before)
        parsed = number(match.group()) if match else None
    return parsed


def _system(row: Row) -> SystemDescription:
    accelerators = count(get_field(row, "accelerators"))
    return SystemDescription(
        name=text(get_field(row, "SystemName")) or text(row.get("Platform")),
        cpu=text(get_field(row, "cpu")),
        sockets=count(get_field(row, "sockets")),
        cores=count(get_field(row, "cores")),
        accelerator=text(get_field(row, "accelerator")) if accelerators else "",
        accelerators=accelerators,
        nodes=count(get_field(row, "nodes")) or 1,
        os=text(row.get("operating_system")),
    )
