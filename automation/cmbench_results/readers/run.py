"""Results of our own harness: results.json next to the logs of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cmbench_results import shared
from cmbench_results.readers import ReadFault, ReadItems, files, text_of, unread
from cmbench_results.values import (
    ENERGY,
    HIGHER,
    LOGS,
    LOWER,
    OWN_RECORD,
    POWER,
    REQUESTED,
    TELEMETRY,
    THROUGHPUT,
    BenchmarkResult,
    BenchmarkWorkload,
    ResultMetric,
    SoftwareStack,
    SystemDescription,
    digest,
    number,
    text,
)

_LATENCIES = {"mean": "latency_mean", "50.00": "latency_p50", "90.00": "latency_p90"}
_LATENCIES |= {"95.00": "latency_p95", "99.00": "latency_p99", "99.90": "latency_p99.9"}
_DETAIL = "mlperf_log_detail.txt"
_DIGESTS, _DIGITS = {"model": "model_sha256", "data": "data_sha256"}, 16
_PARTS = ("core", "psys")
"""Endings of counters of energy that others have in them, or that have others in them."""
_SEEN_ELSEWHERE = ("min_duration",)
"""Inputs that the targets of a run show, by whoever chose them."""


def read(root: Path, benchmark_round: str = "") -> ReadItems:
    """Return the results of every results.json in ``root``, which may be one itself."""
    for path in files(root, ("results.json",)):
        yield from _of_file(path)


def _of_file(path: Path) -> list[BenchmarkResult | ReadFault]:
    try:
        return list(of_document(json.loads(text_of(path)), path.parent))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        return [unread(path, problem)]


def of_document(document: Mapping[str, Any], folder: Path) -> Iterator[BenchmarkResult]:
    """Yield the scenarios that were run, out of what results.json says.

    Raises ``KeyError``, ``TypeError``, ``AttributeError`` or ``ValueError`` for another file.
    """
    if not isinstance(document, Mapping) or "benchmark" not in document or "sut" not in document:
        raise ValueError("it is not a results.json of a run")
    for entry in document["results"]:
        if entry.get("performance_run") or entry.get("accuracy_run"):
            yield _result(document, entry, folder)


def _result(document: Mapping[str, Any], entry: Mapping[str, Any], folder: Path) -> BenchmarkResult:
    run, judged = entry.get("performance_run") or {}, entry.get("accuracy_run") or {}
    around = run.get("circumstances") or judged["circumstances"]
    scenario = text(entry["scenario"])
    logged = _logged(folder / scenario.lower() / "performance" / "run_1", scenario, document)
    value = number(logged.get("value", entry.get("value")))
    unit = text(entry.get("unit"))
    return BenchmarkResult(
        key=_key(document, entry, around),
        workload=_workload(document, scenario),
        system=_system(document),
        software=_software(document, around),
        metric=text(run.get("meaning")) or "accuracy only",
        value=value,
        unit=unit,
        direction=LOWER if unit == "ms" else HIGHER,
        validity=text(logged.get("validity", entry.get("validity"))),
        reasons=tuple(text(reason) for reason in entry.get("reasons") or ()),
        accuracy=number(entry.get("accuracy")),
        accuracy_unit=text(entry.get("accuracy_unit")),
        accuracy_target=number(entry.get("accuracy_target")),
        metrics=tuple(_metrics(run, value, unit, logged)),
        settings=_settings(document, run, around),
        command=text(around.get("command")),
        measured_at=text(around.get("measured_at")),
        duration_s=number(run.get("duration_s")),
        figures_from=LOGS if logged else OWN_RECORD,
        notes="; ".join(map(text, document.get("notes") or ())),
        folder=str(folder),
    )


def _key(document: Mapping[str, Any], entry: Mapping[str, Any], around: Mapping[str, Any]) -> str:
    run, judged = entry.get("performance_run") or {}, entry.get("accuracy_run") or {}
    prints = [side.get("fingerprint", "") for side in (run, judged)]
    what = [document[name] for name in ("benchmark", "form", "backend", "sut", "style")]
    when = around["measured_at"]
    return f"run:{digest([what, entry['scenario'], run.get('value'), prints, when])[:24]}"


def _workload(document: Mapping[str, Any], scenario: str) -> BenchmarkWorkload:
    form, style = text(document["form"]), text(document["style"])
    return BenchmarkWorkload(
        benchmark=shared.benchmark_of(text(document["benchmark"])),
        scenario=scenario,
        model=text(document["model"].get("name")),
        form=", ".join(filter(None, (form, "" if style == "valid" else f"{style} run"))),
        round=text(document["round"]),
        division=text(document["division"]),
        category=text(document.get("category")),
        dataset=text(document["dataset"].get("name")),
    )


def _system(document: Mapping[str, Any]) -> SystemDescription:
    host, facts = document["host"], document.get("device_facts") or {}
    accelerator = text(facts.get("name") or facts.get("gpu"))
    return SystemDescription(
        name=text(document["sut"]).partition("-cmbench-")[0],
        cpu=text(host["cpu_model"]),
        cores=int(number(host["cores_usable"]) or 0),
        memory_gb=round((number(host["memory_bytes"]) or 0) / 1e9, 1),
        accelerator=accelerator,
        accelerators=int(number(facts.get("count")) or 1) if accelerator else 0,
        os=text(host["system"]),
    )


def _software(document: Mapping[str, Any], around: Mapping[str, Any]) -> SoftwareStack:
    versions = {
        text(k): text(v) for k, v in (around.get("versions") or document["versions"]).items()
    }
    backend = text(document["backend"])
    return SoftwareStack(
        framework=f"{backend} {versions.get(backend, '')}".strip(),
        backend=backend,
        device=text(document["device"]),
        precision=text(document.get("precision")),
        versions=versions,
    )


def _settings(
    document: Mapping[str, Any], run: Mapping[str, Any], around: Mapping[str, Any]
) -> dict[str, str]:
    """Return what was set, and what was discovered about files and devices, by name."""
    shape, targets = run.get("shape") or {}, run.get("targets") or {}
    overrides = {
        REQUESTED.get(name, name): f"{value:g}" if name in REQUESTED else value
        for name, value in (around.get("overrides") or {}).items()
        if name not in _SEEN_ELSEWHERE and "target_" not in name
    }
    chosen = {**shape, **overrides, **(document.get("backend_options") or {})}
    settings = {text(k): text(v) for k, v in chosen.items() if v is not None}
    settings |= {f"target_{text(k)}": text(v) for k, v in targets.items() if v is not None}
    return settings | _discovered(document, around)


def _discovered(document: Mapping[str, Any], around: Mapping[str, Any]) -> dict[str, str]:
    """Return digests of the files, facts of the device and of plugins; not what fields have."""
    facts = {"model": text(document["model"].get("sha256"))}
    facts |= {text(k): text(v) for k, v in (around.get("configuration") or {}).items()}
    digests = {name: facts.pop(key, "")[:_DIGITS] for key, name in _DIGESTS.items()}
    known = {"precision", "round", *(around.get("versions") or document["versions"])}
    others = {k: v for k, v in facts.items() if k not in known and not k.startswith("option ")}
    stand_in = {"stand_in": text(document.get("stand_in"))}
    return {k: v for k, v in (digests | others | stand_in).items() if v}


def _logged(folder: Path, scenario: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of LoadGen's log, if it still exists; it overrides our own record."""
    from mlperf import catalog
    from mlperf.harness.measuring import detail_log

    if not (folder / _DETAIL).is_file():
        return {}
    log = detail_log.read(folder / _DETAIL)
    spec = catalog.benchmarks("").get(text(document["benchmark"]))
    measured = catalog.Scenario(scenario)
    value = log.figure(spec.result(measured) if spec else measured.result)
    if value is None:
        return {}
    samples = log.number("result_query_count") or 0
    per = log.number("effective_samples_per_query") or 1
    return {"value": value, "validity": log.validity, "samples": samples * per}


def _metrics(
    run: Mapping[str, Any], value: float | None, unit: str, logged: Mapping[str, Any]
) -> Iterator[ResultMetric]:
    if value is not None and unit != "ms":
        yield ResultMetric(THROUGHPUT, value, unit, HIGHER)
    for name, metric in _LATENCIES.items():
        latency = number((run.get("latencies_ms") or {}).get(name))
        if latency is not None:
            yield ResultMetric(metric, latency, "ms", LOWER)
    yield from _energy(run, logged)


def _energy(run: Mapping[str, Any], logged: Mapping[str, Any]) -> Iterator[ResultMetric]:
    """Yield power and energy per sample, as far as the counters of CPU and GPUs were read.

    Older results have only the joules of a whole run, which are set beside LoadGen's count.
    """
    telemetry = (run.get("circumstances") or {}).get("telemetry") or {}
    energy = (run.get("spent") or {}).get("energy") or {}
    joules = number(energy.get("per_sample_j"))
    if joules and (watts := number(energy.get("mean_w"))):
        yield ResultMetric(POWER, watts, "W", LOWER, TELEMETRY)
    elif logged.get("samples"):
        counters = (telemetry.get("energy_j") or {}).items()
        # A package has its cores in it.
        whole = [number(value) or 0 for name, value in counters if not name.endswith(_PARTS)]
        joules = sum(whole) / logged["samples"]
    if joules:
        yield ResultMetric(ENERGY, joules, "J", LOWER, TELEMETRY)
