"""Charts as coordinates of lines, bars and words; ``components.html`` draws them as inline SVG.

No script and no colours: those come from the style of the page, so that a chart follows its light,
dark and printed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT = 340.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 12.0, 24.0, 36.0
BASE, END = HEIGHT - BOTTOM, WIDTH - RIGHT
WIDEST_BAR = 56.0
# What the name of a marker takes along the axis.
NAME_WIDTH = 28.0
# Points of a line that say their value under the pointer, at most.
MOST_SPOTS = 80

Scale = Callable[[float], float]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ChartFrame:
    """The size of a drawing, and of its margins."""

    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = RIGHT
    top: float = TOP
    bottom: float = BOTTOM

    @property
    def base(self) -> float:
        """Where the horizontal axis lies, in units of the SVG from above."""
        return self.height - self.bottom

    @property
    def end(self) -> float:
        """Where the horizontal axis ends, in units of the SVG from the left."""
        return self.width - self.right


@dataclass(frozen=True, slots=True)
class Marker:
    """A named position on an axis."""

    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A named figure, what to say of it, and whether it is only there to compare with."""

    name: str
    value: float
    label: str
    other: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """One earlier or present result: its figure, what to say of it, and how it is drawn."""

    value: float
    label: str
    hollow: bool = False
    present: bool = False


@dataclass(slots=True)
class Chart:
    """What to draw, in units of the SVG; ``name`` is for screen readers.

    ``rows`` are heights with their figures, ``columns`` points of the axis with theirs, ``lines``
    have a class and points, ``bars`` x, y, width, class and tooltip, ``dots`` x, y, radius, class
    and tooltip, ``links`` the same and an address, ``strips`` x, y, width, height, class, tooltip
    and address, ``texts`` x, y, anchor and word. ``series`` names lines that have a legend.
    """

    name: str
    unit: str
    rows: list[tuple[float, str]] = field(default_factory=list)
    columns: list[tuple[float, str]] = field(default_factory=list)
    lines: list[tuple[str, list[Point], str]] = field(default_factory=list)
    bars: list[tuple[float, float, float, str, str]] = field(default_factory=list)
    dots: list[tuple[float, float, float, str, str]] = field(default_factory=list)
    links: list[tuple[float, float, float, str, str, str]] = field(default_factory=list)
    strips: list[tuple[float, float, float, float, str, str, str]] = field(default_factory=list)
    texts: list[tuple[float, float, str, str]] = field(default_factory=list)
    series: list[str] = field(default_factory=list)
    frame: ChartFrame = field(default_factory=ChartFrame)

    def scale(self, low: float, high: float) -> Scale:
        """Return the vertical axis with its grid."""
        y = _linear(low, high, BASE, TOP)
        self.rows = [(y(value), number(value)) for value in ticks(low, high, 3)]
        return y


def number(value: float) -> str:
    """Return a short figure for an axis: 12, 0.05, 1.5k, 2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers that cover most of the range."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten in the range, with 2 and 5 between them where there are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        inside = [s * 10.0**k for k in decades for s in steps if low <= s * 10.0**k <= high]
        if len(inside) >= 3:
            break
    return inside[:: max(1, math.ceil(len(inside) / 5))]


def _linear(low: float, high: float, begin: float, end: float) -> Scale:
    span = (high - low) or 1.0
    return lambda value: begin + (value - low) / span * (end - begin)


def histogram(
    edges: Sequence[float], counts: Sequence[int], markers: Sequence[Marker], unit: str
) -> Chart:
    """Bars over a logarithmic axis; ``edges`` has one more entry than ``counts``."""
    chart = Chart("queries by latency", unit)
    low, high = edges[0], max([edges[-1], *(marker.at for marker in markers)])
    linear = _linear(math.log10(low), math.log10(high * 1.02), LEFT, END)
    y, total = chart.scale(0, max(counts) * 1.05), sum(counts)

    def x(value: float) -> float:
        return linear(math.log10(value))

    chart.columns = [(x(value), number(value)) for value in log_ticks(low, high)]
    for begin, end, count in zip(edges, edges[1:], counts, strict=False):
        if count:
            text = f"{begin:.4g} to {end:.4g} {unit}: {count} ({100 * count / total:.2g} %)"
            width = max(0.8, x(end) - x(begin) - 0.8)
            chart.bars.append((x(begin), y(count), width, "bar", text))
    ordered = sorted(markers, key=lambda marker: marker.at)
    names = spread([x(marker.at) for marker in ordered])
    for marker, middle in zip(ordered, names, strict=True):
        # The line bends towards its name, in a row with the others above the bars.
        path = [(x(marker.at), BASE), (x(marker.at), TOP), (middle, TOP - 8)]
        chart.lines.append(("mark", path, f"{marker.name}: {marker.at:.4g} {unit}"))
        chart.texts.append((middle, TOP - 11, "middle", marker.name))
    return chart


def cumulative(
    edges: Sequence[float], counts: Sequence[int], limit: Marker | None, unit: str
) -> Chart:
    """The share of queries answered by a time, over a logarithmic axis; ``limit`` is a time."""
    chart = Chart("share of queries by latency", unit)
    low, high = edges[0], max(edges[-1], limit.at if limit else 0.0)
    linear = _linear(math.log10(low), math.log10(high * 1.02), LEFT, END)
    y, total = chart.scale(0, 100), sum(counts)
    chart.columns = [(linear(math.log10(value)), number(value)) for value in log_ticks(low, high)]
    path = [(LEFT, y(0))]
    reached = 0
    for end, count in zip(edges[1:], counts, strict=True):
        reached += count
        share = 100 * reached / total
        path.append((linear(math.log10(end)), y(share)))
        label = f"{share:.4g} % within {end:.4g} {unit}"
        chart.dots.append((path[-1][0], path[-1][1], 5, "spot", label))
    path.append((END, y(100)))
    chart.lines.append(("line s0", path, ""))
    if limit is not None:
        at = linear(math.log10(limit.at))
        label = f"{limit.name}: {limit.at:.4g} {unit}"
        chart.lines.append(("mark", [(at, BASE), (at, TOP)], label))
        chart.texts.append(
            (min(at, END), TOP - 11, "end" if at > WIDTH / 2 else "start", limit.name)
        )
    return chart


def spread(places: Sequence[float]) -> list[float]:
    """Return ascending positions, moved apart as little as names of NAME_WIDTH need."""
    half = NAME_WIDTH / 2
    centers: list[float] = []
    for place in places:
        centers.append(max(place, LEFT + half, centers[-1] + NAME_WIDTH if centers else 0.0))
    limit = END - half
    for index in reversed(range(len(centers))):
        centers[index] = min(centers[index], limit)
        limit = centers[index] - NAME_WIDTH
    return centers


def lines(series: Sequence[tuple[str, Sequence[Point]]], unit: str, across: str = "s") -> Chart:
    """Lines from 0 up, over seconds or ``across``; with one series the space below it is filled."""
    over, at_word = ("time", "after") if across == "s" else (across, "at")
    chart = Chart(f"{unit} over {over}", across, series=[name for name, _ in series if name])
    times = [at for _, each in series for at, _ in each]
    y = chart.scale(0, 1.05 * max(value for _, each in series for _, value in each) or 1.0)
    x = _linear(min(times), max(times), LEFT, END)
    chart.columns = [(x(at), number(at)) for at in ticks(min(times), max(times))]
    for place, (name, each) in enumerate(series):
        path = [(x(at), y(value)) for at, value in each]
        if len(series) == 1:
            chart.lines.append(("area", [(path[0][0], BASE), *path, (path[-1][0], BASE)], ""))
        chart.lines.append((f"line s{place}", path, ""))
        for at, value in each if len(each) <= MOST_SPOTS else ():
            label = f"{name} {value:.4g} {unit} {at_word} {at:.3g} {across}".strip()
            chart.dots.append((x(at), y(value), 5, "spot", label))
    return chart


def history(values: Sequence[Dot], unit: str) -> Chart:
    """Draw results in the order in which they were measured; the present one is highlighted."""
    chart = Chart(f"results in {unit}", "")
    figures = [dot.value for dot in values]
    margin = 0.15 * ((max(figures) - min(figures)) or abs(max(figures)) or 1.0)
    y = chart.scale(min(figures) - margin, max(figures) + margin)
    x = _linear(0, max(1, len(values) - 1), LEFT + 14, END - 14)
    chart.lines.append(("thread", [(x(k), y(value)) for k, value in enumerate(figures)], ""))
    for place, dot in enumerate(values):
        kind = "dot" + " hollow" * dot.hollow + " present" * dot.present
        chart.dots.append((x(place), y(dot.value), 6 if dot.present else 4.5, kind, dot.label))
    chart.texts = [
        (LEFT, BASE + 16, "start", "earlier"),
        (END, BASE + 16, "end", "this run" if values[-1].present else "later"),
    ]
    return chart


def bars(values: Sequence[Bar], unit: str, target: Marker | None = None) -> Chart:
    """Upright bars side by side, each with its name below; ``target`` is a line across them."""
    chart = Chart(f"bars in {unit}", unit)
    high = max([*(bar.value for bar in values), target.at if target else 0.0]) or 1.0
    y, part = chart.scale(0, high * 1.1), (END - LEFT) / len(values)
    width = min(0.7 * part, WIDEST_BAR)
    for place, bar in enumerate(values):
        middle, kind = LEFT + (place + 0.5) * part, "bar other" if bar.other else "bar"
        chart.bars.append((middle - width / 2, y(bar.value), width, kind, bar.label))
        chart.texts.append((middle, BASE + 15, "middle", bar.name))
    if target is not None:
        at = y(target.at)
        label = f"{target.name}: {target.at:.4g} {unit}"
        chart.lines.append(("mark", [(LEFT, at), (END, at)], label))
        chart.texts.append((END, at - 4, "end", target.name))
    return chart
