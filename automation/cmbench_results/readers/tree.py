"""Submission trees and results repositories: figures are computed from logs of runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench_results import shared
from cmbench_results.readers import ReadFault, ReadItems
from cmbench_results.readers.published import natural_key
from cmbench_results.values import (
    CERTIFIED,
    ENERGY,
    HIGHER,
    LOCAL,
    LOG_SUMMARY,
    LOGS,
    LOWER,
    OFFICIAL,
    POWER,
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

_PUBLISHED = re.compile(r"github\.com[/:]mlcommons/(inference_results_v?\d+\.\d+)")
_IN_NAME = re.compile(r"v?(\d+\.\d+)")
_PERCENTILES = {"50.00": "latency_p50", "90.00": "latency_p90", "99.00": "latency_p99"}


def read(path: Path, benchmark_round: str = "") -> ReadItems:
    """Return the results of a tree; its round is that of the seeds, else of the folder's name.

    Raises ``needs-input`` where neither does.
    """
    from mlperf.submission import layouts
    from mlperf.submission.checks.base import SubmitterSite

    version = benchmark_round or _round(path)
    if not version:
        raise Error(
            "needs-input",
            f"{path} does not name the round of its results",
            hint="add the round, for example --round=5.1",
        )
    tree = layouts.SubmissionTree(path, layouts.of_round(version))
    origin = _origin(path)
    for division, submitter, root in tree.submitters():
        site = SubmitterSite(tree, division, submitter, root)
        for cell in site.cells:
            yield (_client_cell if cell.by_client else _cell)(site, cell, origin)


def _round(path: Path) -> str:
    """Return the round whose seeds most of the first logs have, else that of the folder's name."""
    from mlperf import catalog

    by_seed = {
        catalog.rounds.seeds(version).get(kind): version
        for version in catalog.rounds.ROUNDS
        for kind in ("qsl", "sample_index")
    }
    seen = Counter(by_seed[seed] for seed in _seeds(path) if seed in by_seed)
    if seen:
        return seen.most_common(1)[0][0]
    match = _IN_NAME.search(path.resolve().name)
    return match.group(1) if match and match.group(1) in catalog.rounds.ROUNDS else ""


def _seeds(root: Path) -> Iterator[object]:
    from mlperf.harness.measuring import detail_log

    for path in _logs(root, 9):
        values = detail_log.read(path).values
        yield values.get("requested_qsl_rng_seed") or values.get("qsl_rng_seed") or "none"
    yield from _client_seeds(root, 9)


def _client_seeds(root: Path, most: int) -> Iterator[object]:
    """Yield seeds of the order of samples of the client of MLPerf Endpoints."""
    configs = root.glob("*/*/results/*/*/*/config.yaml")
    for _, path in zip(range(most), configs, strict=False):
        yield _client_seed(path.parent)


def _client_seed(folder: Path) -> object:
    from common.problems import Problem
    from mlperf import client_run as runs

    try:
        return runs.read_config(folder).seed("sample_index_rng_seed")
    except Problem:
        return "none"


def _logs(root: Path, most: int) -> Iterator[Path]:
    logs = root.glob("*/*/results/*/*/*/performance/run_1/mlperf_log_detail.txt")
    for _, path in zip(range(most), logs, strict=False):
        yield path


def _origin(path: Path) -> str:
    """Return the address of the repository of MLCommons that the folder was cloned from, or empty.

    It is what the checkout says of itself.
    """
    try:
        config = (path / ".git" / "config").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = _PUBLISHED.search(config)
    return f"https://github.com/mlcommons/{match.group(1)}" if match else ""


def _cell(site: Any, cell: Any, origin: str) -> BenchmarkResult | ReadFault:
    from mlperf.submission.checks.base import read_detail_log
    from mlperf.submission.counted import counted, key_of

    run = read_detail_log(cell.run)
    spec, scenario = site.rules(cell.benchmark), _scenario(cell)
    if scenario is None:
        return ReadFault(str(cell.results), f"{cell.scenario} is not a scenario")
    measured = counted(run, spec, scenario, site.layout.round)
    value, validity, source = measured.value, text(run.validity), LOGS
    if not run.values:
        value, validity = _summarized(cell, key_of(spec, scenario, site.layout.round))
        source = LOG_SUMMARY
    if value is None and not run.values:
        return ReadFault(str(cell.run), "neither mlperf_log_detail.txt nor its summary can be read")
    metrics = (*_metrics(run, value, measured.unit), *_energy(cell, run, scenario, measured))
    return BenchmarkResult(
        **_of_cell(site, cell, origin),
        metric=measured.metric,
        value=value,
        unit=measured.unit,
        direction=HIGHER if measured.higher_is_better else LOWER,
        validity=validity,
        reasons=tuple(text(error) for error in run.errors[:5]),
        **_accuracy(cell, spec),
        metrics=metrics,
        measured_at=_started(run),
        duration_s=_seconds(run),
        inferred=measured.measured is not scenario,
        figures_from=source,
    )


def _client_cell(site: Any, cell: Any, origin: str) -> BenchmarkResult | ReadFault:
    """Return what the client of MLPerf Endpoints has measured for a scenario."""
    from common.problems import Problem
    from mlperf.submission import client_results as client

    spec, scenario = site.rules(cell.benchmark), _scenario(cell)
    if scenario is None:
        return ReadFault(str(cell.results), f"{cell.scenario} is not a scenario")
    try:
        run = client.read_client_run(cell)
    except Problem as problem:
        return ReadFault(str(cell.results), problem.message)
    counted = client.client_result(run, spec, scenario, site.layout.round)
    return BenchmarkResult(
        **_of_cell(site, cell, origin),
        metric=counted.metric,
        value=counted.value,
        unit=counted.unit,
        direction=HIGHER if counted.higher_is_better else LOWER,
        **_client_accuracy(run, spec, scenario),
        metrics=tuple(_client_metrics(run, counted)),
        duration_s=run.seconds,
        figures_from=LOGS,
    )


def _of_cell(site: Any, cell: Any, origin: str) -> dict[str, Any]:
    """Return the fields of a result that do not depend on what measured it."""
    described = site.systems.get(cell.system, {})
    spec, scenario = site.rules(cell.benchmark), _scenario(cell).value
    return {
        "key": natural_key(
            site.layout.round,
            site.division,
            site.submitter,
            cell.system,
            model=cell.benchmark,
            scenario=scenario,
        ),
        "workload": BenchmarkWorkload(
            benchmark=spec.name if spec else cell.benchmark,
            scenario=scenario,
            model=cell.benchmark,
            form=_form(cell),
            round=site.layout.round,
            division=site.division,
            category=",".join(sorted(site.category(cell.system).split(","))),
        ),
        "system": _system(described, cell.system),
        "software": _software(described, site, cell),
        "organization": shared.organization_of(text(site.submitter)),
        "availability": text(described.get("status")),
        "tier": OFFICIAL if origin else LOCAL,
        "link": f"{origin}/tree/main/{site.where(cell.results)}" if origin else "",
        "notes": text(described.get("system_type_detail") or described.get("sw_notes")),
        "folder": str(cell.results),
    }


def _client_accuracy(run: Any, spec: Any, scenario: Any) -> dict[str, Any]:
    from mlperf.submission.client_results import judged_accuracy

    if spec is None:
        return {}
    judged = spec.of(scenario).accuracy[0]
    return {
        "accuracy": number(judged_accuracy(run, judged)),
        "accuracy_unit": text(judged.unit),
        "accuracy_target": number(judged.target),
    }


def _client_metrics(run: Any, counted: Any) -> Iterator[ResultMetric]:
    if counted.value is not None and counted.unit.endswith("/s"):
        yield ResultMetric(THROUGHPUT, counted.value, counted.unit, HIGHER)
    for percentile, metric in _PERCENTILES.items():
        value = run.milliseconds("latency", float(percentile))
        if value is not None:
            yield ResultMetric(metric, value, "ms", LOWER)


def _summarized(cell: Any, key: Any) -> tuple[float | None, str]:
    """Figure and validity out of mlperf_log_summary.txt, for a run whose long log is not there."""
    from mlperf.catalog.scenario import SUMMARY_VERDICT
    from mlperf.submission.files import text as text_of

    summary = text_of(cell.run / "mlperf_log_summary.txt")
    figure = re.search(key.summary, summary, re.MULTILINE) if key.summary else None
    verdict = SUMMARY_VERDICT.search(summary)
    value = number(figure[1]) if figure else None
    return None if value is None else value / key.divisor, verdict[1] if verdict else ""


def _scenario(cell: Any) -> Any:
    from mlperf import catalog

    return catalog.Scenario.of_folder(cell.scenario)


def _form(cell: Any) -> str:
    from mlperf.submission.checks.benchmarks import form

    return text(form(cell))


def _system(described: Mapping[str, Any], folder: str) -> SystemDescription:
    accelerators = count(described.get("accelerators_per_node"))
    memory = re.match(r"\s*([\d.]+)\s*([GT])i?B", str(described.get("host_memory_capacity", "")))
    scale = {"G": 1.0, "T": 1000.0}[memory[2]] if memory else 0.0
    return SystemDescription(
        name=text(described.get("system_name")) or folder,
        cpu=text(described.get("host_processor_model_name")),
        sockets=count(described.get("host_processors_per_node")),
        cores=count(described.get("host_processor_core_count")),
        memory_gb=(number(memory[1]) or 0.0) * scale if memory else 0.0,
        accelerator=text(described.get("accelerator_model_name")) if accelerators else "",
        accelerators=accelerators,
        nodes=count(described.get("number_of_nodes")) or 1,
        os=text(described.get("operating_system")),
    )


def _software(system: Mapping[str, Any], site: Any, cell: Any) -> SoftwareStack:
    from mlperf.submission.checks.base import read_object

    described = next(
        (
            content
            for path in sorted(cell.measurements.glob("*.json"))
            if (content := read_object(path)) and "weight_data_types" in content
        ),
        {},
    )
    return SoftwareStack(
        framework=text(system.get("framework")),
        precision=text(described.get("weight_data_types")),
    )


def _accuracy(cell: Any, spec: Any) -> dict[str, Any]:
    from mlperf.submission.checks.accuracy import figure

    if spec is None or not spec.accuracy:
        return {}
    judged = spec.accuracy[0]
    return {
        "accuracy": number(figure(cell.accuracy, judged)),
        "accuracy_unit": text(judged.unit),
        "accuracy_target": number(judged.target),
    }


def _metrics(run: Any, value: float | None, unit: str) -> Iterator[ResultMetric]:
    if value is not None and unit.endswith("/s"):
        yield ResultMetric(THROUGHPUT, value, unit, HIGHER)
    latencies = run.latencies()
    for name, metric in _PERCENTILES.items():
        if name in latencies:
            yield ResultMetric(metric, latencies[name], "ms", LOWER)


def _energy(cell: Any, run: Any, scenario: Any, result: Any) -> Iterator[ResultMetric]:
    from mlperf.submission.counted import power

    used = power(cell.run, run)
    if used is not None:
        yield ResultMetric(POWER, used.watts, "W", LOWER, CERTIFIED)
        joules = used.per_sample(run, scenario, result)
        if joules is not None:
            yield ResultMetric(ENERGY, joules, "J", LOWER, CERTIFIED)


def _started(run: Any) -> str:
    """Return the local time of the run; the log does not name its zone."""
    begin = text(run.values.get("power_begin"))
    match = re.fullmatch(r"(\d\d)-(\d\d)-(\d{4}) (\d\d:\d\d:\d\d)\.\d+", begin)
    return f"{match[3]}-{match[1]}-{match[2]}T{match[4]}" if match else ""


def _seconds(run: Any) -> float | None:
    milliseconds = run.milliseconds("result_duration_ns")
    return None if milliseconds is None else milliseconds / 1000
