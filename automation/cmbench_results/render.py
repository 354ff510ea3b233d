"""Results as text for a terminal of 80 columns."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cmbench_results.compare import ResultComparison, Spread
from cmbench_results.cost import CostModel
from cmbench_results.distinguish import differing_facts, identity, in_words, short
from cmbench_results.regression import VersionRuns
from cmbench_results.result_sources import ResultSource
from cmbench_results.values import (
    OFFICIAL,
    PER_ACCELERATOR,
    PER_CORE,
    PER_WATT,
    VOLUNTEERS,
    BenchmarkResult,
)
from common.text import wrapped

WIDTH = 80
NOT_OFFICIAL = "local results are not verified by MLCommons"
_UID = 8
_INDENT = " " * (_UID + 4)
_CLAIMED = ("model", "cpu", "accelerator", "memory", "nodes", "software", "os", "settings")
"""What nothing proves of a volunteer's result; its accuracy has a mark of its own."""

Row = Mapping[str, Any]


def count(number: int, noun: str) -> str:
    """``1 result``, ``2 results``."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def figure(value: float | None, unit: str = "") -> str:
    """Return a figure with four digits or more; ``-`` if there is none."""
    if value is None:
        return "-"
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{digits} {unit}".rstrip()


def added(source: ResultSource, taken: int) -> str:
    """Return the numbers of results and faults of a source."""
    lines = [f"{count(taken, 'result')} from {source.path}"]
    if source.unread:
        lines.append(f"{count(source.unread, 'row')} could not be read:")
        by_why: dict[str, list[str]] = {}
        for fault in source.examples:
            by_why.setdefault(fault.why, []).append(fault.place)
        for why, where in list(by_why.items())[:5]:
            first = f"{where[0]}" + (f" and {len(where) - 1} more" if len(where) > 1 else "")
            lines += wrapped(f"{why}: {first}", "  ", "    ")
    return "\n".join(lines)


def table(
    rows: Sequence[Row],
    total: int,
    costs: CostModel | None = None,
    own: Mapping[str, BenchmarkResult] | None = None,
) -> str:
    """Return results as a table: a line with the figure, one with the system.

    Those of ``own`` have model, backend, time, and all facts in which they differ.
    """
    facts = differing_facts(own or {})
    if not rows:
        return "no result matches"
    lines: list[str] = []
    heading = None
    for row in rows:
        title = _title(row)
        if title != heading:
            lines += ["", title] if lines else [title]
            heading = title
        lines += list(_lines(row, costs))
        lines += _own_lines(row, (own or {}).get(row["uid"]), facts)
    more = " (more: --limit=N)" if len(rows) < total else ""
    lines += ["", f"{len(rows)} of {count(total, 'result')}{more}"]
    if any(row["tier"] != OFFICIAL for row in rows):
        lines.append(NOT_OFFICIAL)
    return "\n".join(lines)


def _lines(row: Row, costs: CostModel | None) -> Iterator[str]:
    extra = [
        f"{row['accuracy']:.4g} accuracy{reported(row['tier'])}"
        if row["accuracy"] is not None
        else "",
        row["validity"] if row["validity"] != "VALID" else "",
        "inferred" if row["inferred"] else "",
        _power(row),
        _cost(row, costs),
        *per_part(row),
    ]
    value = figure(row["value"], row["unit"])
    first = f"  {row['uid'][:_UID]}  {value:>20}  "
    lines = wrapped(", ".join(filter(None, extra)), first, " " * len(first))
    yield from lines or [first.rstrip()]
    if row["tier"] == OFFICIAL:
        where = ", ".join(filter(None, (row["organization"], row["system"], row["precision"])))
        yield f"  {' ' * _UID}  v{row['round']} {row['division']}: {where}"[:WIDTH]


def _title(row: Row) -> str:
    form = f" ({row['form']})" if row["form"] else ""
    return f"{row['benchmark']} {row['scenario']}{form}"


def _own_lines(
    row: Row, result: BenchmarkResult | None, facts: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Return what a result of one's own is recognized by, then all in which it differs."""
    if row["tier"] == OFFICIAL:
        return []
    mark = reported(row["tier"])
    where = [row["organization"], row["system"], identity(result) if result else row["precision"]]
    text = f"{row['tier']}: {', '.join(filter(None, where))}{mark and f',{mark}'}"
    varying = in_words(facts.get(row["uid"], {}))
    varying += varying and mark
    return [line for part in (text, varying) if part for line in wrapped(part, _INDENT, _INDENT)]


def per_part(row: Row) -> list[str]:
    """Return the throughput per accelerator, watt and core of a row, in words."""
    known = [name for name in (PER_ACCELERATOR, PER_WATT, PER_CORE) if row.get(name) is not None]
    mark = reported(row["tier"])
    return [f"{figure(row[name])} per {name.rpartition('_')[2]}{mark}" for name in known]


def _power(row: Row) -> str:
    if row["power"] is not None:
        return f"{figure(row['power'], 'W')} ({row['energy_tier']})"
    if row["energy_per_sample"] is not None:
        return f"{figure(row['energy_per_sample'], 'J/sample')} ({row['energy_tier']})"
    return ""


def _cost(row: Row, costs: CostModel | None) -> str:
    price = costs.per_million(row) if costs else None
    noun = "tokens" if row["unit"] == "tokens/s" else "samples"
    return f"${price:.4g} a million {noun}" if price is not None else ""


def facets(counts: Mapping[str, Sequence[tuple[str, int]]], most: int = 8) -> str:
    """Counts by facet."""
    lines = []
    for name, values in counts.items():
        shown = ", ".join(f"{value} ({number:,})" for value, number in values[:most])
        more = f", {len(values) - most} more" if len(values) > most else ""
        lines += wrapped(f"{name}: {shown or '-'}{more}", rest="  ")
    return "\n".join(lines)


def frontier(rows: Sequence[Row], x: str, y: str, total: int) -> str:
    """Return the results that no other one beats in both figures."""
    if not rows:
        return f"no result has both {x} and {y}"
    lines = [f"{'id':<10}{x:>18}{y:>18}  system"]
    for row in rows:
        figures = f"{figure(row[x]):>18}{figure(row[y]):>18}"
        lines.append(f"{row['uid'][:_UID]:<10}{figures}  {row['system']}"[:WIDTH])
    return "\n".join([*lines, f"{len(rows)} of {count(total, 'result')} are not beaten by another"])


def result_text(result: BenchmarkResult, spread: Spread, costs: CostModel) -> str:
    """Return all that is known of a result."""
    work, system, software = result.workload, result.system, result.software
    row: dict[str, Any]
    row = {"system": system.name, "power": None, "throughput": None, "unit": result.unit}
    row |= {metric.name: metric.value for metric in result.metrics}
    price = costs.price(row)
    lines = [f"{result.uid}  {work.benchmark} {work.scenario}", ""]
    mark = reported(result.tier)
    pairs = [
        ("result", f"{figure(result.value, result.unit)}, {result.metric}"),
        ("validity", ", ".join(filter(None, (result.validity, *result.reasons[:3])))),
        ("accuracy", _accuracy(result)),
        ("runs", _runs(spread)),
        ("figures from", result.figures_from),
        ("trust", _trust(result)),
        ("round", f"{work.round and 'v'}{work.round} {work.division} {work.category}".strip()),
        ("form", work.form),
        ("model", work.model),
        ("organization", result.organization),
        ("system", system.name),
        (
            "cpu",
            _times(system.sockets, system.cpu)
            + (f", {system.cores} cores" if system.cores else ""),
        ),
        ("accelerator", _times(system.accelerators, system.accelerator)),
        ("memory", f"{system.memory_gb:g} GB" if system.memory_gb else ""),
        ("nodes", str(system.nodes) if system.nodes != 1 else ""),
        ("software", ", ".join(filter(None, (software.framework, software.precision)))),
        ("os", system.os),
        ("settings", ", ".join(f"{k} {short(v)}" for k, v in result.settings.items())),
        ("inferred", "from a run of another scenario" if result.inferred else ""),
        ("measured", result.measured_at),
        ("price", price.text() if price else ""),
        ("cost", _cost({**row, "unit": result.unit}, costs)),
        ("notes", result.notes),
        ("link", result.link),
        ("folder", result.folder),
        ("report", _report_page(result.folder)),
    ]
    for name, value in pairs:
        if value:
            words = value + (mark if name in _CLAIMED else "")
            lines += wrapped(words, f"  {name:<13} ", " " * 16)
    lines += [
        "",
        *(
            f"  {metric.name:<20} {figure(metric.value, metric.unit)} {metric.tier}".rstrip()
            for metric in result.metrics
        ),
    ]
    if result.command:
        lines += ["", "again:", f"  {result.command}"]
    return "\n".join(lines)


def _report_page(folder: str) -> str:
    """Return the path of the page that a benchmark wrote beside its results, if it is there."""
    path = Path(folder, "report.html")
    return str(path) if folder and path.is_file() else ""


def history_text(result: BenchmarkResult, lines: Sequence[VersionRuns]) -> str:
    """Return the runs of one configuration by their versions, and what has become faster."""
    work = result.workload
    text = [f"{work.benchmark} {work.scenario}, one configuration over time", ""]
    for line in lines:
        middle = figure(statistics.median(line.values), result.unit)
        day = line.runs[0].measured_at[:10]
        text += [f"  {day:<10}  {middle:>18}  {count(len(line.runs), 'run'):<8} {line.versions}"]
        text += wrapped(line.verdict, " " * 34, " " * 34) if line.verdict else []
    return "\n".join(text if lines else [*text, "  no valid run of it is known"])


def _times(number: int, name: str) -> str:
    return f"{number} x {name}" if number and name else name


def _accuracy(result: BenchmarkResult) -> str:
    if result.accuracy is None:
        return ""
    target = f", target {result.accuracy_target:.6g}" if result.accuracy_target is not None else ""
    unit = result.accuracy_unit
    return f"{result.accuracy:.6g} {unit}".rstrip() + reported(result.tier) + target


def reported(tier: str) -> str:
    """Return the mark of what only its contributor says; empty where that is not so."""
    return " as reported" if tier in VOLUNTEERS else ""


def _runs(spread: Spread) -> str:
    if spread.runs < 2 or spread.relative is None:
        return "single run"
    return f"{spread.runs}, median {figure(spread.median)}, spread {spread.relative:.1%}"


def _trust(result: BenchmarkResult) -> str:
    return "published by MLCommons" if result.tier == OFFICIAL else NOT_OFFICIAL


def comparison(compared: ResultComparison) -> str:
    """Results side by side: which is faster, figures with their ratios, only what differs."""
    lines = [line for verdict in compared.verdicts for line in wrapped(verdict, "", "  ")]
    lines += [""] if lines else []
    for position, result in enumerate(compared.results):
        work = f"{result.workload.benchmark} {result.workload.scenario}"
        lines.append(
            f"{chr(65 + position)}  {result.uid[:_UID]}  {work}, {result.system.name}"[:WIDTH]
        )
        lines.append(f"   {_runs(compared.spreads[position])}")
    lines += ["", f"{'':<20}" + "".join(f"{chr(65 + n):>20}" for n in range(len(compared.results)))]
    for row in compared.figures:
        cells = zip(row.values, row.ratios, strict=True)
        texts = (f"{figure(v)}" + (f" x{r:.3g}" if r is not None else "") for v, r in cells)
        lines.append(
            f"{f'{row.name}, {row.unit}'.rstrip(', '):<20}" + "".join(f"{t:>20}" for t in texts)
        )
    lines += ["", "what differs:"] if compared.differences else ["", "nothing else differs"]
    for difference in compared.differences:
        lines.append(f"  {difference.what}")
        for position, value in enumerate(difference.values):
            lines += wrapped(short(value) or "-", f"    {chr(65 + position)}  ", " " * 7)
    lines.append(f"{compared.same} things are the same")
    return "\n".join(lines)
