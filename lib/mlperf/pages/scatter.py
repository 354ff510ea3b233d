"""Results as points of a plane with what no other one beats, as bars by rank, and by their rounds.

Drawn by the same macro as the charts of a report. A point may be a link to its result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import charts
from .charts import Chart, ChartFrame, Point, Scale

PLANE = ChartFrame(960.0, 480.0, left=96.0, right=44.0, top=34.0, bottom=54.0)
PHONE = ChartFrame(400.0, 400.0, left=58.0, right=22.0, top=34.0, bottom=54.0)
"""For a narrow window, in which a wide drawing would be a small strip."""
COLOURS = 8
"""Series of their own colour; what is beyond them has that of others."""
ROW = 34.0
# How far a point reaches beyond its middle.
_MARGIN = 0.03
_LETTER, _WIDE_LETTER = 6.4, 7.2
_EDGE = 8.0


@dataclass(frozen=True, slots=True)
class Axis:
    """A figure along an axis; ``down`` where less of it is better."""

    name: str
    unit: str
    low: float
    high: float
    log: bool = False
    down: bool = False

    @property
    def title(self) -> str:
        """Return its title: name, unit and which way is better."""
        unit = f", {self.unit}" if self.unit else ""
        return f"{self.name}{unit} ({'lower' if self.down else 'higher'} is better)"

    def scale(self, begin: float, end: float) -> Scale:
        """Map a figure to a position between two ends; positive figures on a logarithmic axis."""
        low, high = self.bounds()
        if not self.log:
            return lambda value: begin + (value - low) / (high - low) * (end - begin)
        first, span = math.log10(low), math.log10(high / low)
        return lambda value: begin + (math.log10(value) - first) / span * (end - begin)

    def bounds(self) -> tuple[float, float]:
        """Its ends, a little beyond the figures."""
        if self.log:
            room = max((self.high / self.low) ** _MARGIN, 1.05)
            return self.low / room, self.high * room
        room = (self.high - self.low) * _MARGIN or abs(self.high) * 0.1 or 1.0
        return self.low - room, self.high + room

    def ticks(self) -> list[float]:
        """Round figures along it."""
        low, high = self.bounds()
        ticks = charts.log_ticks(low, high) if self.log else charts.ticks(low, high, 6)
        return [tick for tick in ticks if low <= tick <= high]


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its series, label and link; it shows ``many`` results, a ``bare`` one a ring."""

    x: float
    y: float
    series: int
    label: str
    address: str = ""
    many: int = 1
    best: bool = False
    bare: bool = False


def plane(
    x: Axis,
    y: Axis,
    series: Sequence[str],
    marks: Sequence[Mark],
    fronts: Sequence[tuple[int, Sequence[Point]]] = (),
    frame: ChartFrame = PLANE,
) -> Chart:
    """Points in a plane; ``fronts`` are the ascending corners of the frontier of a series."""
    chart = Chart(f"{y.title} over {x.title}", x.title, series=legend(series), frame=frame)
    across, up = x.scale(frame.left, frame.end), y.scale(frame.base, frame.top)
    chart.rows = [(up(value), charts.number(value)) for value in y.ticks()]
    chart.columns = [(across(value), charts.number(value)) for value in x.ticks()]
    for number, points in fronts:
        path = [(across(a), up(b)) for a, b in steps(points, x.down)]
        chart.lines.append((f"line {colour(number)}", path, ""))
    for mark in sorted(marks, key=lambda each: each.best):
        kind = f"point {colour(mark.series)}" + " best" * mark.best + " bare" * mark.bare
        radius = (5.0 if mark.best else 3.5) + min(5.0, 0.8 * math.log2(mark.many))
        place = (across(mark.x), up(mark.y), radius, kind, mark.label)
        if mark.address:
            chart.links.append((*place, mark.address))
        else:
            chart.dots.append(place)
    chart.texts.append((_EDGE, frame.top - 10, "start", y.title))
    return chart


def steps(points: Sequence[Point], down: bool) -> list[Point]:
    """Return the stairs between the best points, ascending in x; ``down`` where less x is better.

    Between two of them holds the figure of the one that is not worse in x.
    """
    path = list(points[:1])
    for before, after in itertools.pairwise(points):
        path += [(after[0], before[1]) if down else (before[0], after[1]), after]
    return path


def legend(series: Sequence[str]) -> list[str]:
    """Return the names of series with a colour of their own, and the number of the others."""
    more = len(series) - COLOURS
    return [*series[:COLOURS], *([f"{more} other{'s' * (more > 1)}"] if more > 0 else [])]


def colour(number: int) -> str:
    """Return the class of a series."""
    return f"s{number}" if number < COLOURS else "rest"


@dataclass(frozen=True, slots=True)
class Rank:
    """A horizontal bar: its name, figure, label and link."""

    name: str
    value: float
    label: str
    series: int = 0
    address: str = ""


def ranking(
    values: Sequence[Rank], unit: str, series: Sequence[str] = (), width: float = PLANE.width
) -> Chart:
    """Draw horizontal bars, with their names and figures above them."""
    frame = ChartFrame(width, ROW * len(values) + 50.0, _EDGE, right=_EDGE, top=6.0, bottom=44.0)
    chart = Chart(f"bars in {unit}", unit, series=legend(series), frame=frame)
    high = max((each.value for each in values), default=0.0) or 1.0
    for place, each in enumerate(values):
        top = frame.top + place * ROW
        wide = max(1.0, (frame.end - frame.left) * each.value / high)
        kind = f"strip {colour(each.series)}"
        figure = each.label.split(";")[0]
        room = int((frame.end - frame.left) / _WIDE_LETTER) - len(figure) - 2
        chart.strips.append((frame.left, top + 17, wide, 11.0, kind, each.label, each.address))
        chart.texts.append((frame.left, top + 13, "start", _shortened(each.name, room)))
        chart.texts.append((frame.end, top + 13, "end", figure))
    axis = Axis("", unit, 0.0, high)
    chart.columns = [
        (frame.left + (frame.end - frame.left) * tick / high, charts.number(tick))
        for tick in charts.ticks(0.0, high, 6)
        if tick <= axis.high
    ]
    return chart


def _shortened(name: str, letters: int) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def courses(
    names: Sequence[str],
    series: Sequence[tuple[str, Sequence[tuple[int, float, str, str]]]],
    y: Axis,
    frame: ChartFrame = PLANE,
) -> Chart:
    """Draw lines through named columns; a point is its column, figure, label and link."""
    chart = Chart(y.title, "", series=legend([name for name, _ in series]), frame=frame)
    up = y.scale(frame.base, frame.top)
    part = (frame.end - frame.left) / max(1, len(names))
    chart.rows = [(up(value), charts.number(value)) for value in y.ticks()]
    middles = [frame.left + (place + 0.5) * part for place in range(len(names))]
    widest = max((40.0, *(_LETTER * (len(name) + 2) for name in names)))
    every = max(1, math.ceil(len(names) * widest / (frame.end - frame.left)))
    chart.columns = list(zip(middles, names, strict=True))[::every]
    for number, (_, points) in enumerate(series):
        kind = colour(number)
        best: dict[int, float] = {}
        for column, value, _, _ in points:
            best[column] = (min if y.down else max)(value, best.get(column, value))
        if number < COLOURS:
            path = [(middles[column], up(value)) for column, value in sorted(best.items())]
            chart.lines.append((f"line {kind}", path, ""))
        for column, value, label, address in points:
            at = (middles[column], up(value), 5.0, f"point {kind} best", label)
            chart.links.append((*at, address))
    chart.texts.append((_EDGE, frame.top - 10, "start", y.title))
    return chart
