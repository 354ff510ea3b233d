"""Results as points of two figures, with the frontiers of the series.

A hundred thousand points would be a page of megabytes: those that fall together are drawn as one,
and what no other result of its series beats is always drawn for itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cmbench_gui.explorer.charting import scatter
from cmbench_gui.explorer.plot import (
    Best,
    Plot,
    PlotKind,
    energetic,
    quality,
    series_of,
    title,
)
from cmbench_gui.explorer.view import COST, ExplorerView
from cmbench_results import query
from cmbench_results.cost import CostModel
from cmbench_results.distinguish import differing_facts, identity, in_words
from cmbench_results.store import Store
from cmbench_results.values import CERTIFIED, OFFICIAL, TELEMETRY

MARKS = 1200
"""Points of one drawing, besides the best."""
_CELL = 6.0
_LISTED = 60
_READ = ("uid", "system", "throughput", "power", "form", "energy_tier", "tier", "model", "accuracy")
_RECOGNIZABLE = 500
"""Results of one's own of which a drawing reads in what they differ."""


@dataclass(frozen=True, slots=True)
class PlanePoint:
    """A result in the plane."""

    x: float
    y: float
    uid: str
    series: int
    system: str
    tier: str
    quality: str
    bare: bool


@dataclass(frozen=True, slots=True)
class Plane:
    """The points, the series by their names, and the colours of the series."""

    view: ExplorerView
    kind: PlotKind
    spots: Sequence[PlanePoint]
    series: Sequence[str]
    colours: Sequence[int]
    fronts: Mapping[int, Sequence[PlanePoint]]


def draw(store: Store, view: ExplorerView, kind: PlotKind) -> Plot:
    """The drawing of the two figures of a view."""
    names: dict[str, int] = {}
    spots = _recognizable(store, list(_spots(store, view, names)))
    if not spots:
        none = f"No result has both {title(view.x)} and {title(view.y)}"
        return Plot(None, "Nothing to draw", (f"{none}{' in this range' * bool(view.ranges)}.",))
    remarks, series = _without_tier(list(names))
    plane = _plane(view, kind, spots, series)
    axes = _axis(plane, view.x, "x"), _axis(plane, view.y, "y")
    marks = list(_marks(plane, *axes))
    shown = [name for _, name in sorted(zip(plane.colours, plane.series, strict=True))]
    stairs = [
        (plane.colours[number], [(spot.x, spot.y) for spot in front])
        for number, front in plane.fronts.items()
        if plane.colours[number] < scatter.COLOURS
    ]
    return Plot(
        scatter.plane(*axes, shown, marks, stairs),
        f"{title(view.y)} over {title(view.x)}",
        (*_notes(plane, marks), *remarks),
        best=tuple(_best(plane)),
        phone=scatter.plane(*axes, shown, list(map(_for_a_finger, marks)), stairs, scatter.PHONE),
        scales={"frame": _frame(), **{n: _ends(a) for n, a in zip("xy", axes, strict=True)}},
    )


def _frame() -> dict[str, float]:
    frame = scatter.PLANE
    return {name: getattr(frame, name) for name in ("left", "end", "top", "base")}


def _ends(axis: scatter.Axis) -> dict[str, float | bool]:
    low, high = axis.bounds()
    return {"low": low, "high": high, "log": axis.log}


def _without_tier(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Say once how energy was measured, where it is the same way in all series."""
    for tier in (CERTIFIED, TELEMETRY):
        if all(name.endswith(f", {tier}") for name in names):
            return [f"Energy: {tier}."], [name.removesuffix(f", {tier}") for name in names]
    return [], list(names)


def _spots(store: Store, view: ExplorerView, series: dict[str, int]) -> Iterator[PlanePoint]:
    axes = [name for name in (view.x, view.y) if name != COST]
    names = list(dict.fromkeys((*_READ, "benchmark", view.by, *axes)))
    costs: CostModel | None = view.costs() if COST in (view.x, view.y) else None
    energy = energetic(view.x, view.y)
    for values in query.columns_of(store, view.wanted, names):
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        if costs:
            row[COST] = costs.per_million(row)
        x, y = row[view.x], row[view.y]
        if x is not None and y is not None and _inside(view, x, y):
            name = series_of(view, row, energy)
            number = series.setdefault(name, len(series))
            words, bare = quality(row), row["accuracy"] is None
            yield PlanePoint(x, y, row["uid"], number, row["system"], row["tier"], words, bare)


def _recognizable(store: Store, spots: list[PlanePoint]) -> list[PlanePoint]:
    """Add to results of one's own all in which they differ, where there are not too many."""
    if sum(spot.tier != OFFICIAL for spot in spots) > _RECOGNIZABLE:
        return spots
    own = query.own(store, [{"uid": spot.uid, "tier": spot.tier} for spot in spots])
    facts = differing_facts(own)
    words = {
        spot.uid: (spot.system, in_words(facts[spot.uid]), identity(own[spot.uid]))
        for spot in spots
        if spot.uid in own
    }
    return [
        replace(spot, system=", ".join(filter(None, words.get(spot.uid, (spot.system,)))))
        for spot in spots
    ]


def _inside(view: ExplorerView, x: float, y: float) -> bool:
    ends = view.ranges
    fits = ends.get("xmin", x) <= x <= ends.get("xmax", x)
    fits = fits and ends.get("ymin", y) <= y <= ends.get("ymax", y)
    return fits and (x > 0 or "logx" not in view.marks) and (y > 0 or "logy" not in view.marks)


def _plane(view: ExplorerView, kind: PlotKind, spots: list[PlanePoint], series: list[str]) -> Plane:
    """Colours go to the largest series."""
    by_series: list[list[PlanePoint]] = [[] for _ in series]
    for spot in spots:
        by_series[spot.series].append(spot)
    ordered = sorted(range(len(series)), key=lambda n: (-len(by_series[n]), series[n]))
    colours = [0] * len(series)
    for colour, number in enumerate(ordered):
        colours[number] = colour
    right, up = (-1 if kind.less(name) else 1 for name in (view.x, view.y))
    fronts: dict[int, Sequence[PlanePoint]] = {}
    for number in ordered:
        points = ((s.x, s.y, (s.uid, k)) for k, s in enumerate(by_series[number]))
        fronts[number] = [by_series[number][k] for _, k in query.unbeaten(points, right, up)]
    return Plane(view, kind, spots, series, colours, fronts)


def _axis(plane: Plane, name: str, which: str) -> scatter.Axis:
    view, kind = plane.view, plane.kind
    values = [getattr(spot, which) for spot in plane.spots]
    low, high = min(values), max(values)
    log = f"log{which}" in view.marks
    if not log and not view.ranges and low > 0 and low < high / 2:
        low = 0.0
    return scatter.Axis(title(name), kind.unit_of(name), low, high, log, kind.less(name))


def _marks(plane: Plane, x: scatter.Axis, y: scatter.Axis) -> Iterator[scatter.Mark]:
    best = {spot.uid for front in plane.fronts.values() for spot in front}
    shown = {
        spot.uid
        for number, front in plane.fronts.items()
        for spot in front
        if plane.colours[number] < scatter.COLOURS or len(best) < _LISTED
    }
    others = [spot for spot in plane.spots if spot.uid not in shown]
    for spots in _cells(plane, others, x, y):
        yield _mark(plane, spots, False)
    for spot in plane.spots:
        if spot.uid in shown:
            yield _mark(plane, [spot], True)


def _cells(
    plane: Plane, spots: Sequence[PlanePoint], x: scatter.Axis, y: scatter.Axis
) -> Iterator[list[PlanePoint]]:
    """The points by the cell of the drawing in which they fall, with cells as large as needed."""
    frame = scatter.PLANE
    across, up = x.scale(0, frame.end - frame.left), y.scale(0, frame.base - frame.top)
    size = _CELL
    while True:
        cells: dict[tuple[int, int, int, bool], list[PlanePoint]] = {}
        for spot in spots:
            cell = (int(across(spot.x) / size), int(up(spot.y) / size))
            colour = min(plane.colours[spot.series], 8)
            cells.setdefault((*cell, colour, spot.bare), []).append(spot)
        if len(cells) <= MARKS:
            yield from cells.values()
            return
        size *= max(1.3, math.sqrt(len(cells) / MARKS))


def _mark(plane: Plane, spots: Sequence[PlanePoint], best: bool) -> scatter.Mark:
    view, kind, first = plane.view, plane.kind, spots[0]
    label = f"{kind.said(view.y, first.y)}, {kind.said(view.x, first.x)}; {first.system}"
    label += f"; {first.quality}; {plane.series[first.series]}"
    if len(spots) > 1:
        label += f"; and {len(spots) - 1:,} more here"
    return scatter.Mark(
        first.x,
        first.y,
        plane.colours[first.series],
        label,
        f"/results/{first.uid}",
        len(spots),
        best,
        first.bare,
    )


def _for_a_finger(mark: scatter.Mark) -> scatter.Mark:
    """Leave the best alone to be pressed: a finger does not hit one of a thousand."""
    return mark if mark.best else replace(mark, label="", address="")


def _notes(plane: Plane, marks: Sequence[scatter.Mark]) -> Iterator[str]:
    many = len(plane.spots)
    yield f"{many:,} {'result' if many == 1 else 'results'}, {len(plane.series)} series."
    if len(marks) < many:
        yield "Overlapping points are drawn as one; larger points are several results."
    if bare := sum(spot.bare for spot in plane.spots):
        yield f"A ring is a result without an accuracy ({bare:,} of {many:,})."
    drops = [axis for axis in ("x", "y") if f"log{axis}" in plane.view.marks]
    if drops:
        yield "Logarithmic axes leave out figures that are not above zero."


def _best(plane: Plane) -> Iterator[Best]:
    ordered = sorted(plane.fronts, key=lambda number: plane.colours[number])
    points = [(number, spot) for number in ordered for spot in plane.fronts[number]]
    view, kind = plane.view, plane.kind
    for number, spot in points[:_LISTED]:
        x, y = kind.said(view.x, spot.x), kind.said(view.y, spot.y)
        yield Best(spot.uid, plane.series[number], x, y, spot.system, spot.quality)
