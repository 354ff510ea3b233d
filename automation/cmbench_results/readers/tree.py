"""Submission trees and results repositories: each figure is computed from logs of LoadGen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench_results import shared
from cmbench_results.readers import Found, Unread
from cmbench_results.readers.published import natural_key
from cmbench_results.values import (
    HIGHER,
    LOCAL,
    LOG_SUMMARY,
    LOGS,
    LOWER,
    OFFICIAL,
    THROUGHPUT,
    Metric,
    Result,
    Software,
    System,
    Workload,
    count,
    number,
    text,
)

_PUBLISHED = re.compile(r"github\.com[/:]mlcommons/(inference_results_v?\d+\.\d+)")
_IN_NAME = re.compile(r"v?(\d+\.\d+)")
_TOKENS = "requested_use_token_latencies"
_PERCENTILES = {"50.00": "latency_p50", "90.00": "latency_p90", "99.00": "latency_p99"}


def read(place: Path, benchmark_round: str = "") -> Found:
    """The results of a tree, whose round its logs tell by their seeds, else the folder's name.

    Raises ``needs-input`` where neither does.
    """
    shared.importable()
    from mlperf_submission import layouts
    from mlperf_submission.checks.base import Site

    found = benchmark_round or _round(place)
    if not found:
        raise Error(
            "needs-input",
            f"nothing in {place} tells of which round its results are",
            hint="add the round, for example --round=5.1",
        )
    tree = layouts.Tree(place, layouts.of_round(found))
    origin = _origin(place)
    for division, submitter, root in tree.submitters():
        site = Site(tree, division, submitter, root)
        for cell in site.cells:
            yield _cell(site, cell, origin)


def _round(place: Path) -> str:
    """The round whose seeds most of the first logs have, else one in the name of the folder."""
    import mlperf_catalog as catalog

    by_seed = {catalog.rounds.seeds(each).get("qsl"): each for each in catalog.rounds.ROUNDS}
    seen = Counter(by_seed[seed] for seed in _seeds(place) if seed in by_seed)
    if seen:
        return seen.most_common(1)[0][0]
    match = _IN_NAME.search(place.resolve().name)
    return match.group(1) if match and match.group(1) in catalog.rounds.ROUNDS else ""


def _seeds(place: Path) -> Iterator[object]:
    from mlperf_harness.measuring import detail_log

    for path in _logs(place, 9):
        told = detail_log.read(path).values
        yield told.get("requested_qsl_rng_seed") or told.get("qsl_rng_seed") or "none"


def _logs(place: Path, most: int) -> Iterator[Path]:
    found = place.glob("*/*/results/*/*/*/performance/run_1/mlperf_log_detail.txt")
    for _, path in zip(range(most), found, strict=False):
        yield path


def _origin(place: Path) -> str:
    """The address of the repository of MLCommons that the folder was cloned from, or empty.

    It is what the checkout says of itself.
    """
    try:
        told = (place / ".git" / "config").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = _PUBLISHED.search(told)
    return f"https://github.com/mlcommons/{match.group(1)}" if match else ""


def _cell(site: Any, cell: Any, origin: str) -> Result | Unread:
    from mlperf_submission.checks.base import log

    run = log(cell.run)
    spec, scenario = site.rules(cell.benchmark), _scenario(cell)
    if scenario is None:
        return Unread(str(cell.results), f"{cell.scenario} is no scenario")
    measured = _measured(run) or scenario
    key = spec.result(scenario) if spec else scenario.result
    value, unit = _figure(run, key, scenario, measured)
    validity, source = text(run.validity), LOGS
    if not run.values:
        value, validity = _summarized(cell, key)
        source = LOG_SUMMARY
    if value is None and not run.values:
        return Unread(str(cell.run), "neither mlperf_log_detail.txt nor its summary can be read")
    told = site.systems.get(cell.system, {})
    place = site.where(cell.results)
    metrics = _metrics(run, value, unit)
    return Result(
        key=natural_key(
            site.layout.round,
            site.division,
            site.submitter,
            cell.system,
            model=cell.benchmark,
            scenario=scenario.value,
        ),
        workload=Workload(
            benchmark=spec.name if spec else cell.benchmark,
            scenario=scenario.value,
            model=cell.benchmark,
            form=_form(cell),
            round=site.layout.round,
            division=site.division,
            category=",".join(sorted(site.category(cell.system).split(","))),
        ),
        system=_system(told, cell.system),
        software=_software(told, site, cell),
        metric=key.meaning,
        value=value,
        unit=unit,
        direction=LOWER if unit == "ms" else HIGHER,
        organization=text(site.submitter),
        validity=validity,
        reasons=tuple(text(each) for each in run.errors[:5]),
        **_accuracy(cell, spec),
        metrics=tuple(metrics),
        measured_at=_started(run),
        duration_s=_seconds(run),
        inferred=measured is not scenario,
        availability=text(told.get("status")),
        tier=OFFICIAL if origin else LOCAL,
        figures_from=source,
        link=f"{origin}/tree/main/{place}" if origin else "",
        notes=text(told.get("system_type_detail") or told.get("sw_notes")),
        folder=str(cell.results),
    )


def _summarized(cell: Any, key: Any) -> tuple[float | None, str]:
    """Figure and validity out of mlperf_log_summary.txt, for a run whose long log is not there."""
    from mlperf_catalog.scenario import SUMMARY_VERDICT
    from mlperf_submission.checks.base import text as text_of

    told = text_of(cell.run / "mlperf_log_summary.txt")
    figure = re.search(key.summary, told, re.MULTILINE) if key.summary else None
    verdict = SUMMARY_VERDICT.search(told)
    value = number(figure[1]) if figure else None
    return None if value is None else value / key.divisor, verdict[1] if verdict else ""


def _scenario(cell: Any) -> Any:
    import mlperf_catalog as catalog

    return catalog.Scenario.of_folder(cell.scenario)


def _measured(run: Any) -> Any:
    """The scenario of the log; Interactive runs say Server, and are what their folder says."""
    from mlperf_catalog.scenario import SERVER, of_log

    found = of_log(run.values.get("effective_scenario"))
    return None if found is SERVER else found


def _figure(run: Any, key: Any, scenario: Any, measured: Any) -> tuple[float | None, str]:
    """The figure that counts, with its unit, as the official checkers compute it.

    Where a run of one scenario stands for another one, they take other keys of its log; of
    benchmarks with a fixed number of tokens for a sample, LoadGen logs the tokens in a second.
    """
    from mlperf_catalog.scenario import INFERRED_TOKENS

    for name in INFERRED_TOKENS.values():
        tokens = run.number(name)
        if tokens is not None:
            return tokens, "tokens/s"
    if measured is scenario and scenario.stream and run.values.get(_TOKENS):
        # LoadGen's own estimate is of first tokens then.
        return run.milliseconds(key.otherwise), key.unit
    if measured is scenario:
        return run.figure(key), key.unit
    return _inferred(run, scenario, measured), scenario.result.unit


def _inferred(run: Any, scenario: Any, measured: Any) -> float | None:
    """The figure of ``scenario`` out of a run of ``measured``.

    Source: ``get_inferred_result`` of the official submission checker.
    """
    per_query = 8
    if measured.samples_per_query == 1 and not scenario.batched:
        latency = run.milliseconds("early_stopping_latency_ms") or run.milliseconds(
            "result_99.00_percentile_latency_ns"
        )
        return None if latency is None else latency * per_query
    if measured.samples_per_query == 1:
        rate: float | None = run.number("result_qps_without_loadgen_overhead")
        return rate
    mean = run.milliseconds("result_mean_query_latency_ns")
    return per_query * 1000 / mean if mean else None


def _form(cell: Any) -> str:
    from mlperf_submission.checks.benchmarks import form

    return text(form(cell))


def _system(told: Mapping[str, Any], folder: str) -> System:
    accelerators = count(told.get("accelerators_per_node"))
    memory = re.match(r"\s*([\d.]+)\s*([GT])i?B", str(told.get("host_memory_capacity", "")))
    scale = {"G": 1.0, "T": 1000.0}[memory[2]] if memory else 0.0
    return System(
        name=text(told.get("system_name")) or folder,
        cpu=text(told.get("host_processor_model_name")),
        sockets=count(told.get("host_processors_per_node")),
        cores=count(told.get("host_processor_core_count")),
        memory_gb=(number(memory[1]) or 0.0) * scale if memory else 0.0,
        accelerator=text(told.get("accelerator_model_name")) if accelerators else "",
        accelerators=accelerators,
        nodes=count(told.get("number_of_nodes")) or 1,
        os=text(told.get("operating_system")),
    )


def _software(told: Mapping[str, Any], site: Any, cell: Any) -> Software:
    from mlperf_submission.checks.base import read_object

    described = next(
        (
            found
            for path in sorted(cell.measurements.glob("*.json"))
            if (found := read_object(path)) and "weight_data_types" in found
        ),
        {},
    )
    return Software(
        framework=text(told.get("framework")),
        precision=text(described.get("weight_data_types")),
    )


def _accuracy(cell: Any, spec: Any) -> dict[str, Any]:
    from mlperf_submission.checks.accuracy import figure

    if spec is None or not spec.accuracy:
        return {}
    judged = spec.accuracy[0]
    return {
        "accuracy": number(figure(cell.accuracy, judged)),
        "accuracy_unit": text(judged.unit),
        "accuracy_target": number(judged.target),
    }


def _metrics(run: Any, value: float | None, unit: str) -> Iterator[Metric]:
    if value is not None and unit != "ms":
        yield Metric(THROUGHPUT, value, unit, HIGHER)
    known = run.latencies()
    for name, metric in _PERCENTILES.items():
        if name in known:
            yield Metric(metric, known[name], "ms", LOWER)


def _started(run: Any) -> str:
    """The local time of the run, which the log does not place in a zone."""
    told = text(run.values.get("power_begin"))
    match = re.fullmatch(r"(\d\d)-(\d\d)-(\d{4}) (\d\d:\d\d:\d\d)\.\d+", told)
    return f"{match[3]}-{match[1]}-{match[2]}T{match[4]}" if match else ""


def _seconds(run: Any) -> float | None:
    milliseconds = run.milliseconds("result_duration_ns")
    return None if milliseconds is None else milliseconds / 1000
