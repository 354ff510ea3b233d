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

from .checks.accuracy import figure
from .checks.base import ERROR, NATURE, Site, log, read_object
from .checks.benchmarks import form
from .checks.compliance import verdicts
from .counted import counted, power
from .layouts import Cell, Tree


@dataclass(frozen=True, slots=True)
class Row:
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


def rows(tree: Tree) -> list[Row]:
    """Every result in the tree, in a fixed order."""
    found = []
    for division, submitter, root in tree.submitters():
        site = Site(tree, division, submitter, root)
        found += [_row(site, cell) for cell in site.cells]
    return found


def _row(site: Site, cell: Cell) -> Row:
    run = log(cell.run)
    scenario = of_log(run.values.get("effective_scenario"))
    tests = _tests(site, cell)
    return Row(
        division=site.division,
        submitter=site.submitter,
        system=cell.system,
        category=site.category(cell.system),
        **_system(site.systems.get(cell.system, {})),
        benchmark=cell.benchmark,
        form=form(cell),
        scenario=cell.scenario,
        inferred_from=_source(cell, str(scenario or "")),
        **_result(site, cell, run),
        validity=run.validity,
        **_accuracy(site, cell),
        weights=str(_described(cell).get("weight_data_types", "")),
        tests_passed=" ".join(tests.get("", ())),
        tests_failed=" ".join(tests.get(ERROR, ())),
        tests_too_short=" ".join(tests.get(NATURE, ())),
        p50_ms=run.milliseconds("result_50.00_percentile_latency_ns"),
        p99_ms=run.milliseconds("result_99.00_percentile_latency_ns"),
    )


def _system(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "system_name": str(told.get("system_name", "")),
        "accelerator": _accelerator(told),
        "framework": str(told.get("framework", "")),
    }


def _source(cell: Cell, measured: str) -> str:
    """The scenario that the result was really measured in, where that is another one."""
    wanted = Scenario.of_folder(cell.scenario)
    return "" if wanted is not None and wanted.loadgen == measured else measured


def _result(site: Site, cell: Cell, run: DetailLog) -> dict[str, Any]:
    scenario = Scenario.of_folder(cell.scenario)
    if scenario is None or not run.values:
        return {"metric": "", "value": None, "unit": "", "power_w": None, "joules_per_sample": None}
    found = counted(run, site.rules(cell.benchmark), scenario, site.layout.round)
    used = power(cell.run, run)
    return {
        "metric": found.metric,
        "value": found.value,
        "unit": found.unit,
        "power_w": used.watts if used else None,
        "joules_per_sample": used.per_sample(run, scenario, found) if used else None,
    }


def _accuracy(site: Site, cell: Cell) -> dict[str, Any]:
    known = site.rules(cell.benchmark)
    if known is None:
        return {"accuracy_metric": "", "accuracy": None, "accuracy_target": None}
    judged = known.accuracy[0]
    return {
        "accuracy_metric": judged.metric.name,
        "accuracy": figure(cell.accuracy, judged),
        "accuracy_target": judged.target,
    }


def _described(cell: Cell) -> Mapping[str, Any]:
    name = cell.layout.measurement_file(cell.system, cell.scenario)
    return read_object(cell.measurements / name) or {}


def _accelerator(told: Mapping[str, Any]) -> str:
    count = str(told.get("accelerators_per_node", "0"))
    return "" if count in ("", "0") else f"{count} x {told.get('accelerator_model_name', '')}"


def _tests(site: Site, cell: Cell) -> dict[str, list[str]]:
    """The tests that are there, by the severest thing that their verifications say."""
    found: dict[str, list[str]] = {}
    known = site.rules(cell.benchmark)
    for test in site.layout.tests(known.tests(site.layout.round)) if known else ():
        folder = cell.compliance(test)
        if known and folder.is_dir():
            said = {each.severity for each in verdicts(site, cell, test, known)}
            bad = ERROR in said or not any(folder.glob("verify_*.txt"))
            found.setdefault(ERROR if bad else NATURE if NATURE in said else "", []).append(test)
    return found


def as_csv(found: Sequence[Row]) -> str:
    """A table for spreadsheets."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in found)
    return out.getvalue()


def as_json(found: Sequence[Row]) -> str:
    """The same for programs."""
    return json.dumps([asdict(row) for row in found], indent=2, ensure_ascii=False) + "\n"


HEADING = ("benchmark", "scenario", "result", "validity", "accuracy", "target", "compliance")


def cells_of(row: Row) -> tuple[str, ...]:
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


def _judged(row: Row) -> tuple[str, str]:
    unit = "" if row.accuracy_metric.startswith(("mean", "ROUGE")) else " %"
    accuracy = "-" if row.accuracy is None else f"{row.accuracy:g}{unit} {row.accuracy_metric}"
    target = "-" if row.accuracy_target is None else f"{row.accuracy_target:g}{unit}"
    return accuracy, target


def readmes(tree: Tree) -> Iterator[tuple[Path, str]]:
    """README.md of every submitter and of every system: path and text."""
    for key, group in groupby(rows(tree), lambda row: (row.division, row.submitter)):
        division, submitter = key
        found = list(group)
        root = tree.root / division / submitter
        lines = [f"# {submitter}: MLPerf inference v{tree.layout.round}, {division} division", ""]
        for system, of_system in groupby(found, lambda row: row.system):
            part = list(of_system)
            told = _system_lines(part[0])
            table = _markdown(HEADING, [cells_of(row) for row in part])
            yield (
                root / "results" / system / "README.md",
                "\n".join([f"# {system}", "", *told, *table, ""]),
            )
            lines += [f"## {system}", "", *told, *table, ""]
        yield root / "README.md", "\n".join(lines).rstrip("\n") + "\n"


def _system_lines(row: Row) -> list[str]:
    told = [row.system_name, row.category, row.accelerator or "no accelerator", row.framework]
    lines = [", ".join(word for word in told if word) + ".", ""]
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
