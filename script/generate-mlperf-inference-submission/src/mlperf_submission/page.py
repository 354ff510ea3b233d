"""report.html: a submission at a glance, in one file that needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from mlperf_harness.reporting import page as harness_page
from mlperf_harness.reporting import svg
from mlperf_harness.wording import figures

from .checks.base import Finding
from .official import Outcome
from .summary import HEADING, Row, cells_of
from .system import Description
from .verdict import Verdict

HIGHER = "samples/s"


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that the page tells; ``others`` are the rows of another tree to compare with."""

    round: str
    tree: str
    rows: Sequence[Row]
    verdict: Verdict
    systems: Mapping[str, Description]
    outcomes: Sequence[Outcome] = ()
    others: Sequence[Row] = ()
    others_from: str = ""


def render(contents: Contents) -> str:
    """The whole page."""
    title = f"MLPerf inference v{contents.round}: submission"
    groups = groupby(contents.rows, lambda row: (row.division, row.submitter, row.system))
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(contents.tree)}</p>',
        _verdict(contents),
        *(_system(key, list(group), contents) for key, group in groups),
        _findings("Broken rules", contents.verdict.faults),
        _findings("Why these results cannot be handed in", contents.verdict.nature),
        _findings("To look at", contents.verdict.notices),
        _official(contents.outcomes),
    ]
    style = harness_page.STYLE.read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _verdict(contents: Contents) -> str:
    verdict = contents.verdict
    kind = "good" if verdict.submittable else "bad"
    word = "submittable" if verdict.submittable else "not submittable"
    return (
        f'<section><h2>Verdict <span class="badge {kind}">{word}</span></h2>'
        f"<p>{escape(verdict.line)}</p></section>"
    )


def _system(key: tuple[str, str, str], rows: list[Row], contents: Contents) -> str:
    division, submitter, system = key
    table = harness_page.table(HEADING, [_cells(row) for row in rows], "figures")
    charts = "".join(_charts(rows, contents))
    described = contents.systems.get(system)
    facts = _facts(described) if described else ""
    return (
        f"<section><h2>{escape(system)}</h2>"
        f'<p class="lead">{escape(submitter)}, {escape(division)} division, '
        f"{escape(rows[0].category)}, {escape(rows[0].framework)}</p>"
        f'{table}<div class="cards">{charts}</div>{facts}</section>'
    )


def _cells(row: Row) -> list[str]:
    cells = [escape(cell) for cell in cells_of(row)]
    kind = "good" if row.validity == "VALID" else "bad"
    cells[3] = f'<span class="badge {kind}">{cells[3]}</span>'
    return cells


def _charts(rows: Sequence[Row], contents: Contents) -> Iterator[str]:
    """Speed by scenario and accuracy against its target, for each benchmark."""
    for benchmark, group in groupby(rows, lambda row: row.benchmark):
        found = list(group)
        for row in found:
            if row.value is not None:
                yield _speed(row, contents)
        judged = [row for row in found if row.accuracy is not None]
        if judged:
            yield _accuracy(benchmark, judged)


def _speed(row: Row, contents: Contents) -> str:
    bars = [svg.Bar("result", row.value or 0.0, f"{row.scenario}: {row.value} {row.unit}")]
    bars += [
        svg.Bar(f"{name} ms", value, f"{name}: {value:.4g} ms")
        for name, value in (("p50", row.p50_ms), ("p99", row.p99_ms))
        if value is not None and row.unit == "ms"
    ]
    others = [
        other
        for other in contents.others
        if (other.benchmark, other.scenario.lower()) == (row.benchmark, row.scenario.lower())
        and other.value is not None
        and other.unit == row.unit
    ]
    for other in others[:4]:
        label = f"{other.submitter} {other.system}: {figures(other.value or 0.0)} {other.unit}"
        bars.append(svg.Bar(other.submitter[:10], other.value or 0.0, label, other=True))
    better = "higher is better" if row.unit == HIGHER else "lower is better"
    note = f"{row.benchmark} {row.scenario}"
    ratio = _ratio(row, others)
    return (
        f"<figure><figcaption>{escape(note)} <small>{escape(row.metric)}, {better}{ratio}</small>"
        f"</figcaption>{svg.bars(bars, row.unit)}</figure>"
    )


def _ratio(row: Row, others: Sequence[Row]) -> str:
    if not others or not row.value or not others[0].value:
        return ""
    ratio = row.value / others[0].value
    speed = ratio if row.unit == HIGHER else 1 / ratio
    return f"; {speed:.2f} times as fast as {escape(others[0].submitter)}"


def _accuracy(benchmark: str, rows: Sequence[Row]) -> str:
    unit = "" if rows[0].accuracy_metric.startswith(("mean", "ROUGE")) else "%"
    target = rows[0].accuracy_target
    bars = [
        svg.Bar(row.scenario, row.accuracy or 0.0, f"{row.scenario}: {row.accuracy} {unit}")
        for row in rows
    ]
    marker = svg.Marker("target", target) if target is not None else None
    return (
        f"<figure><figcaption>{escape(benchmark)} accuracy "
        f"<small>{escape(rows[0].accuracy_metric)}, the line is the target</small></figcaption>"
        f"{svg.bars(bars, unit, marker)}</figure>"
    )


def _facts(described: Description) -> str:
    rows = [
        [
            escape(name),
            escape(value.text) or '<span class="none">empty</span>',
            escape(value.origin),
        ]
        for name, value in described.values.items()
    ]
    table = harness_page.table(("field", "value", "from"), rows)
    return f"<details><summary>Description of the system</summary>{table}</details>"


def _findings(title: str, findings: Sequence[Finding]) -> str:
    """Each rule once, with its places; a list, as paths are too long for the cells of a table."""
    if not findings:
        return ""
    items = []
    for rule in dict.fromkeys(each.rule for each in findings):
        found = [each for each in findings if each.rule == rule]
        texts = dict.fromkeys(each.found for each in found)
        places = "".join(f"<li>{escape(each.where)}</li>" for each in found)
        items.append(
            f"<p><b>{escape(rule)}</b>: {escape('; '.join(texts))}</p>"
            f'<p class="lead">to mend: {escape(found[0].mend)} (source: {escape(found[0].source)})'
            f"</p><details><summary>{len(found)} {_places(found)}</summary>"
            f'<ul class="problems">{places}</ul></details>'
        )
    return f"<section><h2>{escape(title)}</h2>{''.join(items)}</section>"


def _places(found: Sequence[Finding]) -> str:
    return "place" if len(found) == 1 else "places"


def _official(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    rows = []
    for each in outcomes:
        kind, word = ("good", "accepted") if each.accepted else ("bad", "refused")
        said = "<br>".join(escape(complaint.text) for complaint in each.complaints[:20])
        badge = f'<span class="badge {kind}">{word}</span>'
        rows.append([escape(each.checker), badge, said or escape(each.last)])
    table = harness_page.table(("checker", "verdict", "what it says"), rows)
    return f"<section><h2>Official checker</h2>{table}</section>"
