"""report.html: what ``page.html`` says of a submission, at a glance."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mlperf.harness.wording import figures
from mlperf.pages import charts
from mlperf.pages.render import render as render_page

from .checks.base import Finding
from .official import CheckerOutcome
from .summary import HEADING, SummaryRow, cells_of
from .system import SystemDescription
from .verdict import TreeVerdict

TEMPLATE = Path(__file__).with_name("page.html")
LATENCY = "ms"
CHECK = "cm run script --tags=run,mlperf,inference,submission,checker --submission_dir="
SUMMARIZE = "cm run script --tags=summarize,mlperf,inference,submission --submission_dir="
MOST_COMPARED = 4


@dataclass(frozen=True, slots=True)
class PageContents:
    """The contents of the page; ``others`` are the rows of another tree to compare with."""

    round: str
    tree: str
    rows: Sequence[SummaryRow]
    verdict: TreeVerdict
    systems: Mapping[str, SystemDescription]
    outcomes: Sequence[CheckerOutcome] = ()
    others: Sequence[SummaryRow] = ()
    others_from: str = ""


@dataclass(frozen=True, slots=True)
class SystemSection:
    """The results of one system; charts have a title and a note."""

    rows: Sequence[SummaryRow]
    charts: Sequence[tuple[str, str, charts.Chart]]
    described: SystemDescription | None


def render(contents: PageContents) -> str:
    """The whole page."""
    groups = groupby(contents.rows, lambda row: (row.division, row.submitter, row.system))
    systems = [list(group) for _, group in groups]
    verdict = contents.verdict
    findings = {
        "Broken rules": _by_rule(verdict.faults),
        "Why these results cannot be submitted": _by_rule(verdict.nature),
        "Warnings": _by_rule(verdict.warnings),
        "To look at": _by_rule(verdict.notices),
    }
    quoted = shlex.quote(contents.tree)
    compared = f" --compare={shlex.quote(contents.others_from)}" if contents.others_from else ""
    return render_page(
        TEMPLATE,
        title=f"MLPerf inference v{contents.round}: submission",
        contents=contents,
        systems=[
            SystemSection(rows, list(_charts(rows, contents)), contents.systems.get(rows[0].system))
            for rows in systems
        ],
        findings={title: groups_ for title, groups_ in findings.items() if groups_},
        commands=[CHECK + quoted, SUMMARIZE + quoted + compared],
        heading=HEADING,
        cells_of=cells_of,
    )


def _by_rule(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return the findings grouped by rule."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.rule, []).append(finding)
    return list(groups.values())


def _charts(
    rows: Sequence[SummaryRow], contents: PageContents
) -> Iterator[tuple[str, str, charts.Chart]]:
    """Yield the charts of all benchmarks: speed by scenario, and accuracy with its target."""
    for benchmark, group in groupby(rows, lambda row: row.benchmark):
        benchmark_rows = list(group)
        for row in benchmark_rows:
            if row.value is not None:
                yield _speed(row, row.value, contents.others)
        judged = [row for row in benchmark_rows if row.accuracy is not None]
        if judged:
            yield _accuracy(benchmark, judged)


def _speed(
    row: SummaryRow, value: float, known: Sequence[SummaryRow]
) -> tuple[str, str, charts.Chart]:
    bars = [charts.Bar("result", value, f"{row.scenario}: {value} {row.unit}")]
    bars += [
        charts.Bar(f"{name} ms", at, f"{name}: {at:.4g} ms")
        for name, at in (("p50", row.p50_ms), ("p99", row.p99_ms))
        if at is not None and row.unit == LATENCY
    ]
    same = (row.benchmark, row.scenario.lower(), row.unit)
    others = [
        (other, other.value)
        for other in known
        if (other.benchmark, other.scenario.lower(), other.unit) == same and other.value is not None
    ]
    for other, at in others[:MOST_COMPARED]:
        label = f"{other.submitter} {other.system}: {figures(at)} {other.unit}"
        bars.append(charts.Bar(other.submitter[:10], at, label, other=True))
    note = f"{row.metric}, {'lower' if row.unit == LATENCY else 'higher'} is better"
    if others and value and others[0][1]:
        ratio = value / others[0][1]
        speed = 1 / ratio if row.unit == LATENCY else ratio
        note += f"; {speed:.2f} times as fast as {others[0][0].submitter}"
    return f"{row.benchmark} {row.scenario}", note, charts.bars(bars, row.unit)


def _accuracy(benchmark: str, rows: Sequence[SummaryRow]) -> tuple[str, str, charts.Chart]:
    first = rows[0]
    unit = "" if first.accuracy_metric.startswith(("mean", "ROUGE")) else "%"
    target = first.accuracy_target
    bars = [
        charts.Bar(row.scenario, row.accuracy or 0.0, f"{row.scenario}: {row.accuracy} {unit}")
        for row in rows
    ]
    marker = charts.Marker("target", target) if target is not None else None
    note = f"{first.accuracy_metric}, the line is the target"
    return f"{benchmark} accuracy", note, charts.bars(bars, unit, marker)
