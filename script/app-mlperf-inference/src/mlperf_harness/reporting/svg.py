"""Small charts as inline SVG: no library, no script, colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

BAR = 56.0
WIDTH, HEIGHT = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 18, 38

Scale = Callable[[float], float]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Marker:
    """A named place on the horizontal axis."""

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


def number(value: float) -> str:
    """A short figure for an axis: 12, 0.05, 1.5k, 2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


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
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        found = [s * 10.0**k for k in range(first, last + 1) for s in steps]
        inside = [value for value in found if low <= value <= high]
        if len(inside) >= 3:
            break
    every = max(1, math.ceil(len(inside) / 5))
    return inside[::every]


def _linear(low: float, high: float, begin: float, end: float) -> Scale:
    span = (high - low) or 1.0
    return lambda value: begin + (value - low) / span * (end - begin)


def _horizontal(low: float, high: float) -> Scale:
    return _linear(low, high, LEFT, WIDTH - RIGHT)


def _vertical(low: float, high: float) -> Scale:
    return _linear(low, high, HEIGHT - BOTTOM, TOP)


def histogram(
    edges: Sequence[float], counts: Sequence[int], markers: Sequence[Marker], unit: str
) -> str:
    """Bars over an axis that grows by factors; ``edges`` has one more entry than ``counts``."""
    low, high = edges[0], max([edges[-1], *(marker.at for marker in markers)])
    along = _horizontal(math.log10(low), math.log10(high * 1.02))
    up = _vertical(0, max(counts) * 1.12)

    def x(value: float) -> float:
        return along(math.log10(value))

    parts = [*_rows(up, ticks(0, max(counts), 3)), *_columns(x, log_ticks(low, high), unit)]
    total = sum(counts)
    for begin, end, count in zip(edges, edges[1:], counts, strict=False):
        if count:
            left, right, top = x(begin), x(end), up(count)
            text = f"{begin:.4g} to {end:.4g} {unit}: {count} ({100 * count / total:.2g} %)"
            parts.append(
                f'<rect class="bar" x="{left:.1f}" y="{top:.1f}" '
                f'width="{max(0.8, right - left - 0.8):.1f}" '
                f'height="{HEIGHT - BOTTOM - top:.1f}"><title>{escape(text)}</title></rect>'
            )
    parts += _markers(markers, x, unit)
    return _chart(parts, "queries by latency")


def _markers(markers: Sequence[Marker], x: Scale, unit: str) -> Iterator[str]:
    """Vertical lines; a name stands a row lower where another one is in its way."""
    free = [0.0] * len(markers)
    for marker in markers:
        at = x(marker.at)
        yield (
            f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
            f"<title>{escape(marker.name)}: {marker.at:.4g} {unit}</title></line>"
        )
        anchor, begins = ("end", at - 30) if at > WIDTH - 40 else ("start", at)
        row = next(row for row, until in enumerate(free) if begins >= until)
        yield _text(at - 3 if anchor == "end" else at + 3, TOP + 8 + 10 * row, marker.name, anchor)
        free[row] = begins + 30


def lines(
    series: Sequence[tuple[str, Sequence[Point]]], unit: str, floor: float | None = 0.0
) -> str:
    """Lines over seconds; with one series the space below it is filled."""
    points = [point for _, each in series for point in each]
    high = max(value for _, value in points)
    low = min(value for _, value in points) if floor is None else floor
    begin, end = min(at for at, _ in points), max(at for at, _ in points)
    x, y = _horizontal(begin, end), _vertical(low, (high * 1.12) or 1.0)
    parts = [*_rows(y, ticks(low, high, 3)), *_columns(x, ticks(begin, end), "s")]
    for place, (name, each) in enumerate(series):
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in each)
        if len(series) == 1:
            base = HEIGHT - BOTTOM
            first, last = x(each[0][0]), x(each[-1][0])
            parts.append(
                f'<polygon class="area" points="{first:.1f},{base} {path} {last:.1f},{base}"/>'
            )
        parts.append(f'<polyline class="line s{place}" points="{path}"/>')
        for at, value in each if len(each) <= 80 else ():
            label = f"{name} {value:.4g} {unit} after {at:.3g} s".strip()
            parts.append(
                f'<circle class="spot" cx="{x(at):.1f}" cy="{y(value):.1f}" r="5">'
                f"<title>{escape(label)}</title></circle>"
            )
    return _chart(parts, f"{unit} over time")


def dots(values: Sequence[Dot], unit: str) -> str:
    """Results in the order in which they were measured; the present one stands out."""
    figures = [dot.value for dot in values]
    room = 0.15 * ((max(figures) - min(figures)) or abs(max(figures)) or 1.0)
    low, high = min(figures) - room, max(figures) + room
    x, y = _linear(0, max(1, len(values) - 1), LEFT + 14, WIDTH - RIGHT - 14), _vertical(low, high)
    parts = [*_rows(y, ticks(low, high, 3))]
    path = " ".join(f"{x(k):.1f},{y(dot.value):.1f}" for k, dot in enumerate(values))
    parts.append(f'<polyline class="thread" points="{path}"/>')
    for place, dot in enumerate(values):
        kind = "dot" + (" hollow" if dot.hollow else "") + (" present" if dot.present else "")
        parts.append(
            f'<circle class="{kind}" cx="{x(place):.1f}" cy="{y(dot.value):.1f}" '
            f'r="{6 if dot.present else 4.5}"><title>{escape(dot.label)}</title></circle>'
        )
    base = HEIGHT - BOTTOM + 16
    parts.append(_text(LEFT, base, "earlier", "start"))
    parts.append(_text(WIDTH - RIGHT, base, "this run", "end"))
    return _chart(parts, f"results in {unit}")


def bars(values: Sequence[Bar], unit: str, target: Marker | None = None) -> str:
    """Upright bars side by side, each with its name below; ``target`` is a line across them."""
    high = max([*(bar.value for bar in values), target.at if target else 0.0]) or 1.0
    y = _vertical(0, high * 1.15)
    width = (WIDTH - LEFT - RIGHT) / len(values)
    broad = min(0.7 * width, BAR)
    parts = [*_rows(y, ticks(0, high, 3))]
    base = HEIGHT - BOTTOM
    for place, bar in enumerate(values):
        middle, top = LEFT + (place + 0.5) * width, y(bar.value)
        kind = "bar other" if bar.other else "bar"
        parts.append(
            f'<rect class="{kind}" x="{middle - broad / 2:.1f}" y="{top:.1f}" '
            f'width="{broad:.1f}" height="{base - top:.1f}">'
            f"<title>{escape(bar.label)}</title></rect>"
        )
        parts.append(_text(middle, base + 15, bar.name, "middle"))
    if target is not None:
        at = y(target.at)
        parts.append(
            f'<line class="mark" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}">'
            f"<title>{escape(target.name)}: {target.at:.4g} {escape(unit)}</title></line>"
        )
        parts.append(_text(WIDTH - RIGHT, at - 4, target.name, "end"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 6, unit, "end"))
    return _chart(parts, f"bars in {unit}")


def _rows(y: Scale, values: Sequence[float]) -> Iterator[str]:
    for value in values:
        at = y(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield _text(LEFT - 6, at + 3.5, number(value), "end")


def _columns(x: Scale, values: Sequence[float], unit: str) -> Iterator[str]:
    base = HEIGHT - BOTTOM
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
    for value in values:
        at = x(value)
        yield f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{base}" y2="{base + 3}"/>'
        yield _text(at, base + 15, number(value), "middle")
    yield _text(WIDTH - RIGHT, HEIGHT - 6, unit, "end")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _chart(parts: Sequence[str], name: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}">'
        f"{''.join(parts)}</svg>"
    )
