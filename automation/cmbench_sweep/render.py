"""Sweeps as text of 80 columns, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cmbench.errors import Error
from cmbench.lib.text_files import counted, size_text
from cmbench_sweep.driver import Foreseen
from cmbench_sweep.points import command_of
from cmbench_sweep.report import Effect, Measured, Report, best, middle_and_range
from cmbench_sweep.values import FAILED, MEASURED, OPEN, Outcome, Point, spread

_ROWS = 40


def foreseen(seen: Foreseen) -> str:
    """What ``cm plan experiment`` prints."""
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
    """The commands that would submit jobs, and the script of each; empty for none."""
    lines: list[str] = []
    for words, text in jobs:
        lines += ["", "submitted:", f"  {words}", "job.sh:"]
        lines += [f"  {line}" for line in text.splitlines()]
    return "\n".join(["", *lines]) if lines else ""


def _values(values: Sequence[Any]) -> str:
    told = ", ".join(map(str, values))
    return told if len(told) <= 54 else f"{values[0]} … {values[-1]} ({len(values)} values)"


def _prepared(seen: Foreseen) -> Iterator[str]:
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


def _time(seen: Foreseen, left: int) -> Iterator[str]:
    before = sum(step.seconds or 0 for step in seen.preparation.steps)
    told = f"time: {time_text(before)} to prepare, " if before else "time: "
    if seen.point_seconds is None:
        yield f"{told}points not known before the first one is measured"
    else:
        yield f"{told}{time_text(seen.point_seconds * left)} for {counted(left, 'point')}"
    if seen.opened.sweep.budget.seconds:
        yield f"  no run starts after {time_text(seen.opened.sweep.budget.seconds)}"


def _points(points: Sequence[Point], known: Mapping[str, Outcome]) -> Iterator[str]:
    for point in points[:_ROWS]:
        status = known[point.key].status
        told = "" if status == OPEN else f"  ({status})"
        yield f"{point.number:>6}  {values_text(point)}{told}"
    if len(points) > _ROWS:
        yield f"        and {len(points) - _ROWS:,} more: --json has all"


def values_text(point: Point, without: Sequence[str] = ()) -> str:
    """The values of a point, but for some axes: ``batch_size=8 threads=2``."""
    told = [f"{name}={value}" for name, value in point.values.items() if name not in without]
    return " ".join(told) or "the only one"


def time_text(seconds: float) -> str:
    """``42 s``, ``13 min``, ``5.2 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def shown(found: Report, points: Sequence[Point], known: Mapping[str, Outcome]) -> str:
    """What ``cm show experiment NAME`` prints: counts, the points, the best one."""
    counts = {s: sum(o.status == s for o in known.values()) for s in (MEASURED, FAILED, OPEN)}
    told = ", ".join(f"{many:,} {_WORDS[status]}" for status, many in counts.items() if many)
    lines = [f"{found.sweep.name}: {counted(len(points), 'point')}: {told}", ""]
    if found.measured:
        lines += [*_told(found)]
    failed = [point for point in points if known[point.key].status == FAILED]
    if failed:
        lines += ["", "failed (again with --retry-failed):"]
        lines += [f"  {values_text(p)}: {known[p.key].reason[:200]}" for p in failed[:_ROWS]]
    return "\n".join(lines).rstrip()


def _told(found: Report) -> list[str]:
    """The table and the best point; what was asked for and is nowhere takes neither away."""
    try:
        found.figure()
        return [*table(found), "", *_best(found)]
    except Error as error:
        bare = replace(found, sweep=replace(found.sweep, objectives={}))
        return [*table(bare), "", f"no best point: {error.message}; {error.hint}"]


_WORDS = {MEASURED: "measured", FAILED: "failed", OPEN: "still to do"}


def table(found: Report, rows: Sequence[Measured] | None = None) -> Iterator[str]:
    """The points with up to three figures, the best first, and what differs between them."""
    figure = found.figure()
    names = _columns(found, figure)
    same = [name for name, values in found.sweep.axes.items() if len(values) == 1]
    sign = -1 if found.way(figure) == "max" else 1
    ordered = (
        rows
        if rows is not None
        else sorted(
            found.measured, key=lambda each: sign * each.figures.get(figure, float("inf") * sign)
        )
    )
    yield "".join(f"{name[:15]:>16}" for name in names) + "  runs  spread  point"
    for each in ordered[:_ROWS]:
        apart = spread(each.outcome.all_of(figure))
        told = f"{apart:7.1%}" if apart is not None else " " * 7
        cells = "".join(f"{_number(each.figures.get(name)):>16}" for name in names)
        yield f"{cells}{len(each.outcome.runs):>6} {told}  {values_text(each.point, same)}"
    if len(ordered) > _ROWS:
        yield f"and {len(ordered) - _ROWS:,} more: --json has all"


def _columns(found: Report, figure: str) -> list[str]:
    """Three figures: that one, objectives and what constraints ask for, before all others."""
    asked = " ".join(found.sweep.constraints)
    wanted = [*found.sweep.objectives, *(name for name in found.figures if name in asked)]
    there = [name for name in wanted if name in found.figures]
    return list(dict.fromkeys([figure, *there, *found.figures]))[:3]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}"


def _best(found: Report) -> Iterator[str]:
    top = best(found)
    if top is None:
        yield f"no point satisfies {' and '.join(found.sweep.constraints)}"
        return
    figure = found.figure()
    yield f"best {figure}: {_number(top.figures[figure])}"
    yield command_of(top.point)


def effects(found: Sequence[Effect], figure: str) -> str:
    """The effect of each axis: its values, the figure, the ratio to the first value."""
    lines = [f"{figure}; ratios are of points that differ in this axis alone, to its first value"]
    axis = ""
    for each in found:
        if each.axis != axis:
            axis = each.axis
            lines += ["", f"{axis:<20}{'points':>7}{'median':>12}{'ratio':>9}   smallest … largest"]
        middle, ratio = middle_and_range(each.values), middle_and_range(each.ratios)
        told = f"{_number(middle[0]):>12}" if middle else f"{'-':>12}"
        span = f"{ratio[0]:>9.3f}   {ratio[1]:.3f} … {ratio[2]:.3f}" if ratio else ""
        lines.append(f"  {each.value!s:<18}{len(each.values):>7}{told}{span}")
    return "\n".join(lines)


def data_of(point: Point, outcome: Outcome) -> dict[str, Any]:
    """A point as JSON holds it."""
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
