"""Sweeps as text of 80 columns, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cmbench.errors import Error
from cmbench.lib.text_files import counted, size_text
from cmbench_sweep.driver import SweepForecast
from cmbench_sweep.points import command_of
from cmbench_sweep.references import Comparisons, FigureComparison
from cmbench_sweep.report import Effect, MeasuredPoint, Report, best, median_and_range
from cmbench_sweep.values import FAILED, MEASURED, OPEN, PointOutcome, SweepPoint, spread

_ROWS = 40


def foreseen(seen: SweepForecast) -> str:
    """Return what ``cm plan experiment`` prints."""
    sweep, points = seen.opened.sweep, seen.opened.points
    done, failed = seen.count(MEASURED), seen.count(FAILED)
    left = len(points) - done - failed
    lines = [f"{sweep.name}: {counted(len(points), 'point')}"]
    lines += [f"  {name:<24}{_values(values)}" for name, values in sweep.axes.items()]
    lines += ["", f"  measured already{done:>10,}", f"  failed before{failed:>13,}"]
    lines += [f"  still to do{left:>15,}"]
    if sweep.search.method == "optuna":
        lines += [f"  tried at most{sweep.search.points:>13,}"]
    lines += [seen.lacking()] if seen.lacking() else []
    lines += ["", *_prepared(seen), *_time(seen, left), "", *_points(points, seen.known)]
    return "\n".join(lines)


def submitted(jobs: Sequence[tuple[str, str]]) -> str:
    """Return the commands that would submit jobs, with their scripts; empty for none."""
    lines: list[str] = []
    for words, text in jobs:
        lines += ["", "would be submitted:", f"  {words}", "job.sh:"]
        lines += [f"  {line}" for line in text.splitlines()]
    return "\n".join(["", *lines]) if lines else ""


def _values(values: Sequence[Any]) -> str:
    text = ", ".join(map(str, values))
    return text if len(text) <= 54 else f"{values[0]} … {values[-1]} ({len(values)} values)"


def _prepared(seen: SweepForecast) -> Iterator[str]:
    steps = seen.preparation.steps
    if not steps:
        yield "prepared: everything that points share is in the cache"
        return
    sizes = {what: size for step in steps for what, size in step.downloads}
    disk = sum(step.disk or 0 for step in steps)
    unknown = sum(step.disk is None for step in steps) + sum(not s for s in sizes.values())
    yield f"prepared before, once ({counted(seen.preparation.looked_at, 'point')} looked at):"
    yield from (f"  {step.what}" for step in steps[:12])
    if len(steps) > 12:
        yield f"  and {len(steps) - 12} more"
    more = f"; {counted(unknown, 'size')} not known" if unknown else ""
    free = size_text(seen.preparation.free_bytes)
    yield f"  download {size_text(sum(sizes.values()))}, disk {size_text(disk)} of {free}{more}"


def _time(seen: SweepForecast, left: int) -> Iterator[str]:
    before = sum(step.seconds or 0 for step in seen.preparation.steps)
    start = f"time: {time_text(before)} to prepare, " if before else "time: "
    if seen.point_seconds is None:
        yield f"{start}points not known before the first one is measured"
    else:
        yield f"{start}{time_text(seen.point_seconds * left)} for {counted(left, 'point')}"
    if seen.opened.sweep.budget.seconds:
        yield f"  no run starts after {time_text(seen.opened.sweep.budget.seconds)}"


def _points(points: Sequence[SweepPoint], outcomes: Mapping[str, PointOutcome]) -> Iterator[str]:
    for point in points[:_ROWS]:
        status = outcomes[point.key].status
        suffix = "" if status == OPEN else f"  ({status})"
        yield f"{point.number:>6}  {values_text(point)}{suffix}"
    if len(points) > _ROWS:
        yield f"        and {len(points) - _ROWS:,} more: --json has all"


def values_text(point: SweepPoint, without: Sequence[str] = ()) -> str:
    """Return the values of a point, but for some axes: ``batch_size=8 threads=2``."""
    texts = [f"{name}={value}" for name, value in point.values.items() if name not in without]
    return " ".join(texts) or "the only one"


def measured_text(entry: MeasuredPoint, without: Sequence[str] = ()) -> str:
    """Return the same, with the batches that tuning has chosen where they are others."""
    used = f" (batch used: {entry.used_batches})" if entry.used_batches else ""
    return values_text(entry.point, without) + used


def time_text(seconds: float) -> str:
    """``42 s``, ``13 min``, ``5.2 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def shown(
    sweep_report: Report,
    points: Sequence[SweepPoint],
    outcomes: Mapping[str, PointOutcome],
    compared: Comparisons | None = None,
    reference: str = "",
) -> str:
    """Return what ``cm show experiment NAME`` prints: counts, the points, the best one.

    ``compared`` are their comparisons with the references of the file ``reference``.
    """
    counts = {s: sum(o.status == s for o in outcomes.values()) for s in (MEASURED, FAILED, OPEN)}
    summary = ", ".join(f"{many:,} {_WORDS[status]}" for status, many in counts.items() if many)
    lines = [f"{sweep_report.sweep.name}: {counted(len(points), 'point')}: {summary}", ""]
    if sweep_report.measured:
        lines += [*_result_lines(sweep_report, compared if reference else None)]
    if reference:
        lines += ["", *_reference_lines(points, compared or {}, reference)]
    failed = [point for point in points if outcomes[point.key].status == FAILED]
    if failed:
        lines += ["", "failed (again with --retry-failed):"]
        lines += [f"  {values_text(p)}: {outcomes[p.key].reason[:200]}" for p in failed[:_ROWS]]
    return "\n".join(lines).rstrip()


def _reference_lines(
    points: Sequence[SweepPoint], compared: Comparisons, reference: str
) -> Iterator[str]:
    """Yield how many figures are within their bounds, and those that are not."""
    every = [comparison for row in compared.values() for comparison in row]
    passed = sum(comparison.passed for comparison in every)
    yield f"{reference}: {passed} of {counted(len(every), 'figure')} within bounds"
    for point in points:
        for comparison in compared.get(point.key, ()):
            if not comparison.passed:
                yield f"  FAIL  {_comparison_text(comparison)}  {values_text(point)}"


def _comparison_text(comparison: FigureComparison) -> str:
    """``rate 90 samples/s (-25.0 %), reference 120 (-5 % … +10 %)``."""
    reference, deviation = comparison.reference, comparison.deviation
    value = "missing" if comparison.value is None else f"{_number(comparison.value)}"
    unit = f" {reference.unit}" if reference.unit and comparison.value is not None else ""
    apart = f" ({100 * deviation:+.1f} %)" if deviation is not None else ""
    figure = f"{comparison.figure} {value}{unit}{apart}"
    return f"{figure}, reference {_number(reference.value)} ({reference.bounds()})"


def _result_lines(sweep_report: Report, compared: Comparisons | None) -> list[str]:
    """Return the table and the best point, or the table and why there is no best one."""
    try:
        sweep_report.figure()
        return [*table(sweep_report, compared=compared), "", *_best(sweep_report)]
    except Error as error:
        bare = replace(sweep_report, sweep=replace(sweep_report.sweep, objectives={}))
        return [*table(bare, compared=compared), "", f"no best point: {error.summary()}"]


_WORDS = {MEASURED: "measured", FAILED: "failed", OPEN: "still to do"}


def table(
    sweep_report: Report,
    rows: Sequence[MeasuredPoint] | None = None,
    compared: Comparisons | None = None,
) -> Iterator[str]:
    """Yield the points with up to three figures, the best first, and what differs between them.

    With ``compared``, a column says whether a point is within the bounds of its references.
    """
    figure = sweep_report.figure()
    names = _columns(sweep_report, figure)
    same = [name for name, values in sweep_report.sweep.axes.items() if len(values) == 1]
    sign = -1 if sweep_report.direction(figure) == "max" else 1
    ordered = (
        rows
        if rows is not None
        else sorted(
            sweep_report.measured,
            key=lambda e: sign * e.figures.get(figure, float("inf") * sign),
        )
    )
    yield (
        "".join(f"{name[:15]:>16}" for name in names) + f"  runs  spread{_verdict(compared)}  point"
    )
    for e in ordered[:_ROWS]:
        apart = spread(e.outcome.all_of(figure))
        spread_text = f"{apart:7.1%}" if apart is not None else " " * 7
        cells = "".join(f"{_number(e.figures.get(name)):>16}" for name in names)
        apart_text = f"{spread_text}{_verdict(compared, e.point)}"
        yield f"{cells}{len(e.outcome.runs):>6} {apart_text}  {measured_text(e, same)}"
    if len(ordered) > _ROWS:
        yield f"and {len(ordered) - _ROWS:,} more: --json has all"


def _verdict(compared: Comparisons | None, point: SweepPoint | None = None) -> str:
    """Return the cell of a point in the column of the references, or its head."""
    if compared is None:
        return ""
    if point is None:
        return "  reference"
    row = compared.get(point.key, ())
    verdict = "pass" if all(comparison.passed for comparison in row) else "FAIL"
    return f"  {verdict if row else '-':>9}"


def _columns(summary: Report, figure: str) -> list[str]:
    """Three figures: that one, objectives and what constraints ask for, before all others."""
    constraints = " ".join(summary.sweep.constraints)
    names = [
        *summary.sweep.objectives,
        *(name for name in summary.figures if name in constraints),
    ]
    existing = [name for name in names if name in summary.figures]
    return list(dict.fromkeys([figure, *existing, *summary.figures]))[:3]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}"


def _best(sweep_report: Report) -> Iterator[str]:
    top = best(sweep_report)
    if top is None:
        yield f"no point satisfies {' and '.join(sweep_report.sweep.constraints)}"
        return
    figure = sweep_report.figure()
    yield f"best {figure}: {_number(top.figures[figure])}"
    yield command_of(top.point)


def effects(rows: Sequence[Effect], figure: str) -> str:
    """Return the effects of the axes: values, figure, ratio to the first value."""
    lines = [f"{figure}; ratios are of points that differ in this axis alone, to its first value"]
    axis = ""
    for row in rows:
        if row.axis != axis:
            axis = row.axis
            lines += ["", f"{axis:<20}{'points':>7}{'median':>12}{'ratio':>9}   smallest … largest"]
        middle, ratio = median_and_range(row.values), median_and_range(row.ratios)
        median_text = f"{_number(middle[0]):>12}" if middle else f"{'-':>12}"
        span = f"{ratio[0]:>9.3f}   {ratio[1]:.3f} … {ratio[2]:.3f}" if ratio else ""
        lines.append(f"  {row.value!s:<18}{len(row.values):>7}{median_text}{span}")
    return "\n".join(lines)


def rows_of(entries: Sequence[tuple[SweepPoint, PointOutcome]]) -> list[dict[str, Any]]:
    """Return a row per point, all with the same columns: values, figures (medians), spreads."""
    axes = dict.fromkeys(name for point, _ in entries for name in point.values)
    figures = dict.fromkeys(name for _, outcome in entries for name in outcome.names)
    return [
        {"point": point.number, "status": outcome.status, "runs": len(outcome.runs)}
        | {f"values.{axis}": point.values.get(axis) for axis in axes}
        | {f"figures.{name}": outcome.figure(name) for name in figures}
        | {f"spreads.{name}": spread(outcome.all_of(name)) for name in figures}
        | {"reason": outcome.reason, "command": command_of(point)}
        for point, outcome in entries
    ]


def data_of(point: SweepPoint, outcome: PointOutcome) -> dict[str, Any]:
    """Return a point as JSON holds it."""
    return {
        "point": point.number,
        "key": point.key,
        "values": dict(point.values),
        "status": outcome.status,
        "figures": {name: outcome.figure(name) for name in outcome.names},
        "runs": [
            {"figures": dict(r.figures), "seconds": r.seconds, "record": r.record, "host": r.host}
            for r in outcome.runs
        ],
        "reason": outcome.reason,
        "code": outcome.code,
        "record": outcome.record,
        "command": command_of(point),
    }
