"""A sweep as one picture: the frontier, the best point under the limits, the effect of every axis.

Charts are those of all pages, placed below each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cmbench.lib.text_files import counted
from cmbench_sweep.expressions import referenced_names
from cmbench_sweep.render import measured_text, values_text
from cmbench_sweep.report import (
    MeasuredPoint,
    Report,
    best,
    feasible_points,
    frontier,
    median_and_range,
)
from cmbench_sweep.values import LOWER
from mlperf.pages import charts, scatter

WIDTH, HEIGHT, MARGIN = 960.0, 480.0, 34.0
_PANEL_WIDTH, _PANEL_HEIGHT, _PER_ROW = 470.0, 240.0, 2
_AXES = 8
"""Axes that have a panel of their own."""


@dataclass(frozen=True, slots=True)
class PicturePanel:
    """A chart of a picture with its title and its place, in units of the picture."""

    title: str
    chart: charts.Chart
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class SweepPicture:
    """The panels of a sweep below a title and a line about the best point."""

    title: str
    best: str
    panels: tuple[PicturePanel, ...]
    height: float
    width: float = WIDTH


def picture_of(summary: Report) -> SweepPicture:
    """Return the picture of a sweep; raise ``no-results`` and ``bad-value``."""
    figure = summary.figure()
    top = best(summary)
    panels = [_main_panel(summary, figure, top)]
    below = panels[0].y + panels[0].height + 10
    axes = [name for name, values in summary.sweep.axes.items() if len(values) > 1][:_AXES]
    for number, axis in enumerate(axes):
        row, column = divmod(number, _PER_ROW)
        x, y = column * (_PANEL_WIDTH + 20), below + row * (_PANEL_HEIGHT + MARGIN) + MARGIN
        title = f"{figure} by {axis}: median and range"
        chart = _axis_chart(summary, figure, axis)
        panels.append(PicturePanel(title, chart, x, y, _PANEL_WIDTH, _PANEL_HEIGHT))
    last = panels[-1]
    return SweepPicture(
        f"{summary.sweep.name}: {counted(len(summary.measured), 'point')} measured",
        _best_text(summary, figure, top),
        tuple(panels),
        last.y + last.height + 10,
    )


def _best_text(summary: Report, figure: str, top: MeasuredPoint | None) -> str:
    limits = " and ".join(summary.sweep.constraints)
    if top is None:
        return f"no point satisfies {limits}"
    under = f" with {limits}" if limits else ""
    return f"best {figure}{under}: {top.figures[figure]:,.6g} ({measured_text(top)})"


def _main_panel(summary: Report, figure: str, top: MeasuredPoint | None) -> PicturePanel:
    """Return the frontier of two figures; of a single one, the points in their order."""
    other = _second_figure(summary, figure)
    if other:
        title = f"{figure} over {other}, with the Pareto frontier"
        chart = _frontier_chart(summary, other, figure, top)
    else:
        title, chart = f"{figure} of all points, best first", _ranked_chart(summary, figure, top)
    return PicturePanel(title, chart, 0.0, 3 * MARGIN, WIDTH, HEIGHT)


def _second_figure(summary: Report, figure: str) -> str:
    """Return the figure that the main one is traded for: an objective, or one with a limit."""
    limited = [name for text in summary.sweep.constraints for name in referenced_names(text)]
    names = [*summary.sweep.objectives, *limited]
    return next((n for n in names if n != figure and n in summary.figures), "")


def _frontier_chart(summary: Report, x: str, y: str, top: MeasuredPoint | None) -> charts.Chart:
    entries = [e for e in summary.measured if x in e.figures and y in e.figures]
    if not entries:
        return _ranked_chart(summary, y, top)
    unbeaten = frontier(summary, x, y)
    across, up = (_axis(summary, name, [e.figures[name] for e in entries]) for name in (x, y))
    marks = _marks(summary, [(e, e.figures[x], e.figures[y]) for e in entries], unbeaten)
    corners = [(entry.figures[x], entry.figures[y]) for entry in unbeaten]
    stairs = [(0, corners)] if len(corners) > 1 else []
    chart = scatter.plane(across, up, [], marks, stairs)
    _draw_limits(chart, across, _limits(summary, x))
    if top in entries:
        _point_out(chart, (across, up), (top.figures[x], top.figures[y]), values_text(top.point))
    return chart


def _marks(
    summary: Report,
    places: Sequence[tuple[MeasuredPoint, float, float]],
    highlighted: Sequence[MeasuredPoint],
) -> list[scatter.Mark]:
    """Return points with their places; those beyond the limits have no colour of their own."""
    fit = {entry.point.key for entry in feasible_points(summary)}
    return [
        scatter.Mark(
            x,
            y,
            0 if entry.point.key in fit else scatter.COLOURS,
            f"{y:,.6g}, {x:,.6g}; {measured_text(entry)}",
            best=entry in highlighted,
        )
        for entry, x, y in places
    ]


def _draw_limits(chart: charts.Chart, across: scatter.Axis, limits: Sequence[float]) -> None:
    frame = chart.frame
    low, high = across.bounds()
    for limit in limits:
        if low < limit < high:
            place = across.scale(frame.left, frame.end)(limit)
            line = [(place, frame.top), (place, frame.base)]
            chart.lines.append(("mark", line, f"limit: {limit:g}"))
            chart.texts.append((place, frame.top - 6, "middle", f"limit {limit:g}"))


def _limits(summary: Report, figure: str) -> list[float]:
    """Return the numbers that a figure is compared with in the constraints."""
    pattern = re.compile(rf"\s*{re.escape(figure)}\s*[<>]=?\s*([\d.]+(?:e[+-]?\d+)?)\s*")
    matches = (pattern.fullmatch(text) for text in summary.sweep.constraints)
    return [float(match[1]) for match in matches if match]


def _axis(summary: Report, name: str, values: Sequence[float]) -> scatter.Axis:
    low = min(0.0, *values) if min(values) < max(values) / 2 else min(values)
    return scatter.Axis(name, "", low, max(values), down=summary.direction(name) == LOWER)


def _point_out(
    chart: charts.Chart, axes: tuple[scatter.Axis, scatter.Axis], at: charts.Point, words: str
) -> None:
    """Draw a ring around a point, with words that stay within the drawing."""
    frame, (across, up), text = chart.frame, axes, f"best: {words}"
    x, y = across.scale(frame.left, frame.end)(at[0]), up.scale(frame.base, frame.top)(at[1])
    chart.dots.append((x, y, 10.0, "ring", text))
    is_left = x < (frame.left + frame.end) / 2
    side, anchor = (14.0, "start") if is_left else (-14.0, "end")
    chart.texts.append((x + side, y + (20.0 if y < frame.top + 30 else -10.0), anchor, text))


def _ranked_chart(summary: Report, figure: str, top: MeasuredPoint | None) -> charts.Chart:
    entries = [entry for entry in summary.measured if figure in entry.figures]
    sign = 1 if summary.direction(figure) == LOWER else -1
    entries.sort(key=lambda entry: entry.figures[figure] * sign)
    y = _axis(summary, figure, [entry.figures[figure] for entry in entries])
    x = scatter.Axis("rank", "", 1.0, float(max(2, len(entries))), down=True)
    places = [(entry, float(rank), entry.figures[figure]) for rank, entry in enumerate(entries, 1)]
    chart = scatter.plane(x, y, [], _marks(summary, places, entries))
    chart.unit = "rank"
    chart.columns = [(at, words) for at, words in chart.columns if words.isdigit()]
    if top in entries:
        at = float(entries.index(top) + 1), top.figures[figure]
        _point_out(chart, (x, y), at, values_text(top.point))
    return chart


def _axis_chart(summary: Report, figure: str, axis: str) -> charts.Chart:
    """Return the figure by the values of an axis: points, and a line through their medians."""
    frame = charts.ChartFrame(_PANEL_WIDTH, _PANEL_HEIGHT, 64.0, 24.0, 16.0, 34.0)
    values = summary.sweep.axes[axis]
    having = [entry for entry in summary.measured if figure in entry.figures]
    chart = charts.Chart(f"{figure} by {axis}", axis, frame=frame)
    y = _axis(summary, figure, [entry.figures[figure] for entry in having])
    up = y.scale(frame.base, frame.top)
    chart.rows = [(up(tick), charts.number(tick)) for tick in y.ticks()]
    part = (frame.end - frame.left) / len(values)
    every = max(1, round(len(values) * 60 / (frame.end - frame.left)))
    line = []
    for place, value in enumerate(values):
        x = frame.left + (place + 0.5) * part
        if place % every == 0:
            chart.columns.append((x, str(value)[: max(4, int(part * every / 7))]))
        entries = [entry for entry in having if entry.point.values.get(axis) == value]
        if extent := median_and_range([entry.figures[figure] for entry in entries]):
            line.append((x, up(extent[0])))
            chart.lines.append(("thread", [(x, up(extent[1])), (x, up(extent[2]))], ""))
        for entry in entries:
            label = f"{entry.figures[figure]:,.6g}; {measured_text(entry)}"
            chart.dots.append((x, up(entry.figures[figure]), 3.5, "point s0", label))
    chart.lines.append(("line s0", line, ""))
    return chart
