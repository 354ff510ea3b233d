"""Results of our own harness: results.json beside the logs of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cmbench_results import shared
from cmbench_results.readers import Found, Unread, files, text_of, unread
from cmbench_results.values import (
    ENERGY,
    HIGHER,
    LOGS,
    LOWER,
    OWN_RECORD,
    TELEMETRY,
    THROUGHPUT,
    Metric,
    Result,
    Software,
    System,
    Workload,
    digest,
    number,
    text,
)

_LATENCIES = {"mean": "latency_mean", "50.00": "latency_p50", "90.00": "latency_p90"}
_LATENCIES |= {"95.00": "latency_p95", "99.00": "latency_p99", "99.90": "latency_p99.9"}
_DETAIL = "mlperf_log_detail.txt"


def read(place: Path, benchmark_round: str = "") -> Found:
    """The results of every results.json in ``place``, which may be one itself."""
    for path in files(place, ("results.json",)):
        yield from _of_file(path)


def _of_file(path: Path) -> list[Result | Unread]:
    try:
        return list(of_document(json.loads(text_of(path)), path.parent))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        return [unread(path, problem)]


def of_document(told: Mapping[str, Any], folder: Path) -> Iterator[Result]:
    """The scenarios that were run, out of what results.json says.

    Raises ``KeyError``, ``TypeError``, ``AttributeError`` or ``ValueError`` for another file.
    """
    if not isinstance(told, Mapping) or "benchmark" not in told or "sut" not in told:
        raise ValueError("it is not a results.json of a run")
    for each in told["results"]:
        if each.get("performance_run") or each.get("accuracy_run"):
            yield _result(told, each, folder)


def _result(told: Mapping[str, Any], each: Mapping[str, Any], folder: Path) -> Result:
    run, judged = each.get("performance_run") or {}, each.get("accuracy_run") or {}
    around = run.get("circumstances") or judged["circumstances"]
    scenario = text(each["scenario"])
    logged = _logged(folder / scenario.lower() / "performance" / "run_1", scenario, told)
    value = number(logged.get("value", each.get("value")))
    unit = text(each.get("unit"))
    return Result(
        key=_key(told, each, around),
        workload=_workload(told, scenario),
        system=_system(told),
        software=_software(told, around),
        metric=text(run.get("meaning")) or "accuracy only",
        value=value,
        unit=unit,
        direction=LOWER if unit == "ms" else HIGHER,
        validity=text(logged.get("validity", each.get("validity"))),
        reasons=tuple(text(reason) for reason in each.get("reasons") or ()),
        accuracy=number(each.get("accuracy")),
        accuracy_unit=text(each.get("accuracy_unit")),
        accuracy_target=number(each.get("accuracy_target")),
        metrics=tuple(_metrics(run, value, unit, logged)),
        settings=_settings(told, run),
        command=text(around.get("command")),
        measured_at=text(around.get("measured_at")),
        duration_s=number(run.get("duration_s")),
        figures_from=LOGS if logged else OWN_RECORD,
        notes="; ".join(map(text, told.get("notes") or ())),
        folder=str(folder),
    )


def _key(told: Mapping[str, Any], each: Mapping[str, Any], around: Mapping[str, Any]) -> str:
    run, judged = each.get("performance_run") or {}, each.get("accuracy_run") or {}
    prints = [side.get("fingerprint", "") for side in (run, judged)]
    what = [told[name] for name in ("benchmark", "form", "backend", "sut", "style")]
    when = around["measured_at"]
    return f"run:{digest([what, each['scenario'], run.get('value'), prints, when])[:24]}"


def _workload(told: Mapping[str, Any], scenario: str) -> Workload:
    form, style = text(told["form"]), text(told["style"])
    return Workload(
        benchmark=shared.benchmark_of(text(told["benchmark"])),
        scenario=scenario,
        model=text(told["model"].get("name")),
        form=form if style == "valid" else f"{form}, {style} run",
        round=text(told["round"]),
        division=text(told["division"]),
        category=text(told.get("category")),
        dataset=text(told["dataset"].get("name")),
    )


def _system(told: Mapping[str, Any]) -> System:
    host, facts = told["host"], told.get("device_facts") or {}
    accelerator = text(facts.get("name"))
    return System(
        name=text(told["sut"]).partition("-cmbench-")[0],
        cpu=text(host["cpu_model"]),
        cores=int(number(host["cores_usable"]) or 0),
        memory_gb=round((number(host["memory_bytes"]) or 0) / 1e9, 1),
        accelerator=accelerator,
        accelerators=int(number(facts.get("count")) or 1) if accelerator else 0,
        os=text(host["system"]),
    )


def _software(told: Mapping[str, Any], around: Mapping[str, Any]) -> Software:
    versions = {text(k): text(v) for k, v in (around.get("versions") or told["versions"]).items()}
    backend = text(told["backend"])
    return Software(
        framework=f"{backend} {versions.get(backend, '')}".strip(),
        backend=backend,
        device=text(told["device"]),
        precision=text(told.get("precision")),
        versions=versions,
    )


def _settings(told: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, str]:
    shape, targets = run.get("shape") or {}, run.get("targets") or {}
    chosen = {**shape, **(told.get("backend_options") or {})}
    found = {text(k): text(v) for k, v in chosen.items()}
    found |= {f"target_{text(k)}": text(v) for k, v in targets.items() if v is not None}
    return found


def _logged(place: Path, scenario: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """What LoadGen's log says, where it still lies there; it goes before what we wrote of it."""
    from mlperf import catalog
    from mlperf.harness.measuring import detail_log

    if not (place / _DETAIL).is_file():
        return {}
    log = detail_log.read(place / _DETAIL)
    spec = catalog.benchmarks("").get(text(told["benchmark"]))
    wanted = catalog.Scenario(scenario)
    value = log.figure(spec.result(wanted) if spec else wanted.result)
    if value is None:
        return {}
    samples = log.number("result_query_count") or 0
    per = log.number("effective_samples_per_query") or 1
    return {"value": value, "validity": log.validity, "samples": samples * per}


def _metrics(
    run: Mapping[str, Any], value: float | None, unit: str, logged: Mapping[str, Any]
) -> Iterator[Metric]:
    if value is not None and unit != "ms":
        yield Metric(THROUGHPUT, value, unit, HIGHER)
    for name, metric in _LATENCIES.items():
        latency = number((run.get("latencies_ms") or {}).get(name))
        if latency is not None:
            yield Metric(metric, latency, "ms", LOWER)
    yield from _energy(run, logged)


def _energy(run: Mapping[str, Any], logged: Mapping[str, Any]) -> Iterator[Metric]:
    """The energy of a sample, where the CPU's counters were read and the log tells how many."""
    telemetry = (run.get("circumstances") or {}).get("telemetry") or {}
    joules = sum(number(each) or 0 for each in (telemetry.get("energy_j") or {}).values())
    if joules and logged.get("samples"):
        yield Metric(ENERGY, joules / logged["samples"], "J", LOWER, TELEMETRY)
