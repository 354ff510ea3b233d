"""The results in a tree as rows, and the rows as CSV, JSON and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from mlperf.catalog import Scenario
from mlperf.catalog.scenario import of_log
from mlperf.harness.measuring.detail_log import DetailLog
from mlperf.harness.wording import figures

from . import client_results
from .checks.accuracy import figure
from .checks.base import ERROR, NATURE, SubmitterSite, read_detail_log, read_object
from .checks.benchmarks import form
from .checks.compliance import verdicts
from .counted import counted, power
from .layouts import ScenarioCell, SubmissionTree


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One scenario of one benchmark on one system; ``value`` is in ``unit``."""

    division: str
    submitter: str
    system: str
    system_name: str
    category: str
    accelerator: str
    framework: str
    benchmark: str
    form: str
    scenario: str
    inferred_from: str
    metric: str
    value: float | None
    unit: str
    power_w: float | None
    joules_per_sample: float | None
    validity: str
    accuracy_metric: str
    accuracy: float | None
    accuracy_target: float | None
    weights: str
    tests_passed: str
    tests_failed: str
    tests_too_short: str
    p50_ms: float | None
    p99_ms: float | None


def rows(tree: SubmissionTree) -> list[SummaryRow]:
    """Return every result in the tree, in a fixed order."""
    result_rows = []
    for division, submitter, root in tree.submitters():
        site = SubmitterSite(tree, division, submitter, root)
        result_rows += [_row(site, cell) for cell in site.cells]
    return result_rows


def _row(site: SubmitterSite, cell: ScenarioCell) -> SummaryRow:
    return _client_row(site, cell) if cell.by_client else _logged_row(site, cell)


def _client_row(site: SubmitterSite, cell: ScenarioCell) -> SummaryRow:
    """Return a result of the client of MLPerf Endpoints; without figures where it has none."""
    return SummaryRow(
        **_of_cell(site, cell),
        inferred_from="",
        **_client_figures(site, cell),
        power_w=None,
        joules_per_sample=None,
        validity="",
    )


def _client_figures(site: SubmitterSite, cell: ScenarioCell) -> dict[str, Any]:
    known, scenario = site.rules(cell.benchmark), Scenario.of_folder(cell.scenario)
    run = client_results.readable_run(cell)
    if run is None or scenario is None:
        absent = ("value", "accuracy", "accuracy_target", "p50_ms", "p99_ms")
        return dict.fromkeys(absent) | dict.fromkeys(("metric", "unit", "accuracy_metric"), "")
    result = client_results.client_result(run, known, scenario, site.layout.round)
    target = known.of(scenario).accuracy[0] if known else None
    return {
        "metric": result.metric,
        "value": result.value,
        "unit": result.unit,
        "accuracy_metric": target.metric.name if target else "",
        "accuracy": client_results.judged_accuracy(run, target) if target else None,
        "accuracy_target": target.target if target else None,
        "p50_ms": run.milliseconds("latency", 50),
        "p99_ms": run.milliseconds("latency", 99),
    }


def _logged_row(site: SubmitterSite, cell: ScenarioCell) -> SummaryRow:
    run = read_detail_log(cell.run)
    scenario = of_log(run.values.get("effective_scenario"))
    return SummaryRow(
        **_of_cell(site, cell),
        inferred_from=_source(cell, str(scenario or "")),
        **_result(site, cell, run),
        validity=run.validity,
        **_accuracy(site, cell),
        p50_ms=run.milliseconds("result_50.00_percentile_latency_ns"),
        p99_ms=run.milliseconds("result_99.00_percentile_latency_ns"),
    )


def _of_cell(site: SubmitterSite, cell: ScenarioCell) -> dict[str, Any]:
    """Return the fields that every result has, whatever measured it."""
    tests = _tests(site, cell)
    return {
        "division": site.division,
        "submitter": site.submitter,
        "system": cell.system,
        "category": site.category(cell.system),
        **_system(site.systems.get(cell.system, {})),
        "benchmark": cell.benchmark,
        "form": form(cell),
        "scenario": cell.scenario,
        "weights": str(_described(cell).get("weight_data_types", "")),
        "tests_passed": " ".join(tests.get("", ())),
        "tests_failed": " ".join(tests.get(ERROR, ())),
        "tests_too_short": " ".join(tests.get(NATURE, ())),
    }


def _system(description: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "system_name": str(description.get("system_name", "")),
        "accelerator": _accelerator(description),
        "framework": str(description.get("framework", "")),
    }


def _source(cell: ScenarioCell, measured: str) -> str:
    """The scenario that the result was really measured in, where that is another one."""
    wanted = Scenario.of_folder(cell.scenario)
    return "" if wanted is not None and wanted.loadgen == measured else measured


def _result(site: SubmitterSite, cell: ScenarioCell, run: DetailLog) -> dict[str, Any]:
    scenario = Scenario.of_folder(cell.scenario)
    if scenario is None or not run.values:
        return {"metric": "", "value": None, "unit": "", "power_w": None, "joules_per_sample": None}
    result = counted(run, site.rules(cell.benchmark), scenario, site.layout.round)
    used = power(cell.run, run)
    return {
        "metric": result.metric,
        "value": result.value,
        "unit": result.unit,
        "power_w": used.watts if used else None,
        "joules_per_sample": used.per_sample(run, scenario, result) if used else None,
    }


def _accuracy(site: SubmitterSite, cell: ScenarioCell) -> dict[str, Any]:
    known = site.rules(cell.benchmark)
    if known is None:
        return {"accuracy_metric": "", "accuracy": None, "accuracy_target": None}
    judged = known.accuracy[0]
    return {
        "accuracy_metric": judged.metric.name,
        "accuracy": figure(cell.accuracy, judged),
        "accuracy_target": judged.target,
    }


def _described(cell: ScenarioCell) -> Mapping[str, Any]:
    name = cell.layout.measurement_file(cell.system, cell.scenario)
    return read_object(cell.measurements / name) or {}


def _accelerator(description: Mapping[str, Any]) -> str:
    count = str(description.get("accelerators_per_node", "0"))
    return (
        "" if count in ("", "0") else f"{count} x {description.get('accelerator_model_name', '')}"
    )


def _tests(site: SubmitterSite, cell: ScenarioCell) -> dict[str, list[str]]:
    """Return the tests of a scenario, by the severest finding of their verification."""
    tests_by_severity: dict[str, list[str]] = {}
    known = site.rules(cell.benchmark)
    for test in site.layout.tests(known.tests(site.layout.round)) if known else ():
        folder = cell.compliance(test)
        if known and folder.is_dir():
            said = {finding.severity for finding in verdicts(site, cell, test, known)}
            bad = ERROR in said or not any(folder.glob("verify_*.txt"))
            tests_by_severity.setdefault(
                ERROR if bad else NATURE if NATURE in said else "", []
            ).append(test)
    return tests_by_severity


def as_csv(result_rows: Sequence[SummaryRow]) -> str:
    """Return a table for spreadsheets."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(SummaryRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in result_rows)
    return out.getvalue()


def as_json(result_rows: Sequence[SummaryRow]) -> str:
    """Return the same for programs."""
    return json.dumps([asdict(row) for row in result_rows], indent=2, ensure_ascii=False) + "\n"


HEADING = ("benchmark", "scenario", "result", "validity", "accuracy", "target", "compliance")


def cells_of(row: SummaryRow) -> tuple[str, ...]:
    """What people read of a row, in the order of ``HEADING``."""
    value = "-" if row.value is None else f"{figures(row.value)} {row.unit} ({row.metric})"
    if row.power_w is not None:
        value += f", {figures(row.power_w)} W"
    if row.inferred_from:
        value = f"inferred from {row.inferred_from}: {value}"
    tests = [*(f"{name} passed" for name in row.tests_passed.split())]
    tests += [f"{name} FAILED" for name in row.tests_failed.split()]
    tests += [f"{name} too short to compare" for name in row.tests_too_short.split()]
    benchmark = f"{row.benchmark} ({row.form} form)" if row.form else row.benchmark
    verdict = row.validity or "unfinished"
    return (benchmark, row.scenario, value, verdict, *_judged(row), ", ".join(tests) or "-")


def _judged(row: SummaryRow) -> tuple[str, str]:
    unit = "" if row.accuracy_metric.startswith(("mean", "ROUGE")) else " %"
    accuracy = "-" if row.accuracy is None else f"{row.accuracy:g}{unit} {row.accuracy_metric}"
    target = "-" if row.accuracy_target is None else f"{row.accuracy_target:g}{unit}"
    return accuracy, target


def readmes(tree: SubmissionTree) -> Iterator[tuple[Path, str]]:
    """Yield README.md of every submitter and of every system: path and text."""
    for key, group in groupby(rows(tree), lambda row: (row.division, row.submitter)):
        division, submitter = key
        submitter_rows = list(group)
        root = tree.root / division / submitter
        lines = [f"# {submitter}: MLPerf inference v{tree.layout.round}, {division} division", ""]
        for system, of_system in groupby(submitter_rows, lambda row: row.system):
            part = list(of_system)
            introduction = _system_lines(part[0])
            table = _markdown(HEADING, [cells_of(row) for row in part])
            yield (
                root / "results" / system / "README.md",
                "\n".join([f"# {system}", "", *introduction, *table, ""]),
            )
            lines += [f"## {system}", "", *introduction, *table, ""]
        yield root / "README.md", "\n".join(lines).rstrip("\n") + "\n"


def _system_lines(row: SummaryRow) -> list[str]:
    words = [row.system_name, row.category, row.accelerator or "no accelerator", row.framework]
    lines = [", ".join(word for word in words if word) + ".", ""]
    if row.form:
        what = f"These are runs of a {row.form} form: no result of the real benchmark"
        lines += [f"{what}, and cannot be submitted.", ""]
    return lines


def _markdown(heading: Sequence[str], table: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(heading) + " |",
        "| " + " | ".join("---" for _ in heading) + " |",
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table),
    ]
