"""Results drawn: two figures with what no result beats, bars by rank, the course over rounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from cmbench.errors import Error
from cmbench_gui.explorer import plane
from cmbench_gui.explorer.charting import scatter
from cmbench_gui.explorer.plot import (
    SAME,
    Plot,
    PlotChoice,
    PlotKind,
    Row,
    energetic,
    quality,
    series_of,
    title,
)
from cmbench_gui.explorer.table import trust
from cmbench_gui.explorer.view import COST, ExplorerView
from cmbench_results import query
from cmbench_results.distinguish import differing_facts, identity, in_words
from cmbench_results.query import Filter
from cmbench_results.store import Store
from cmbench_results.values import LOWER, OFFICIAL

BARS = 40
COURSE = 600


def draw(store: Store, view: ExplorerView) -> Plot:
    """What the view draws; raises ``bad-value``."""
    kinds = query.kinds(store, view.wanted, (*SAME, "direction"), 60)
    if not kinds:
        return Plot(None, "Nothing to draw", ("No results match.",))
    if len(kinds) > 1:
        return Plot(None, "Choose a benchmark", choices=tuple(_choice(view, *e) for e in kinds))
    benchmark, scenario, unit, direction = kinds[0][0]
    drawings: dict[str, Callable[[Store, ExplorerView, PlotKind], Plot]] = {
        "scatter": plane.draw,
        "bars": _bars,
        "course": _course,
    }
    drawn = drawings[view.draw](
        store, view, PlotKind(benchmark, scenario, unit, direction == LOWER)
    )
    tiers = {tier for (tier,), _ in query.kinds(store, view.wanted, ("tier",))}
    return replace(drawn, unverified=tiers != {OFFICIAL})


def _choice(view: ExplorerView, values: Sequence[str], many: int) -> PlotChoice:
    columns = dict(zip(SAME, values, strict=False))
    unit = f", {columns['unit']}" if columns["unit"] else ""
    words = f"{columns['benchmark']} {columns['scenario']}{unit}"
    return PlotChoice(words, many, view.only(**columns).at("/results/plot"))


def _needs_figure(name: str) -> None:
    if name == COST:
        raise Error(
            "bad-value",
            "bars and lines show a measured figure",
            hint="draw the cost as an axis of a scatter plot, or sort the table",
        )


def _having(view: ExplorerView, name: str) -> Filter:
    return replace(view.wanted, has=tuple({*view.wanted.has, name}))


def _bars(store: Store, view: ExplorerView, kind: PlotKind) -> Plot:
    """The best of them by the figure of the vertical axis, one below the other."""
    _needs_figure(view.y)
    less, energy = kind.less(view.y), energetic(view.y)
    sort = view.y if less else f"-{view.y}"
    page = query.find(store, _having(view, view.y), sort, BARS)
    names: dict[str, int] = {}
    ranks = []
    own = query.own(store, page.rows)
    facts = differing_facts(own)
    for row in page.rows:
        number = names.setdefault(series_of(view, row, energy), len(names))
        said = kind.said(view.y, row[view.y])
        words = [row["system"], row["organization"], row["round"] and f"v{row['round']}"]
        if mine := own.get(row["uid"]):
            words = [row["system"], in_words(facts[row["uid"]]), identity(mine)]
        else:
            words += [row["precision"]]
        words += [row["energy_tier"] if energy else "", quality(row), trust(row["tier"]).word]
        name = ", ".join(filter(None, words))
        label = f"{said}; {name}"
        ranks.append(scatter.Rank(name, row[view.y], label, number, f"/results/{row['uid']}"))
    way = "lowest" if less else "highest"
    note = f"The {len(ranks)} {way} of {page.total:,}; lower is better." if less else ""
    note = note or f"The {len(ranks)} {way} of {page.total:,}; higher is better."
    if not ranks:
        return Plot(None, title(view.y), (note,))
    chart, phone = (
        scatter.ranking(ranks, kind.unit_of(view.y), list(names), frame.width)
        for frame in (scatter.PLANE, scatter.PHONE)
    )
    return Plot(chart, title(view.y), (note,), phone=phone)


def _course(store: Store, view: ExplorerView, kind: PlotKind) -> Plot:
    """The figure of the vertical axis by round; without a round, by the day of the run."""
    _needs_figure(view.y)
    page = query.find(store, _having(view, view.y), "round", COURSE)
    energy = energetic(view.y)
    columns = sorted({_when(row) for row in page.rows}, key=_age)
    places = {name: number for number, name in enumerate(columns)}
    series: dict[str, list[tuple[int, float, str, str]]] = {}
    facts = differing_facts(query.own(store, page.rows))
    for row in page.rows:
        mine = in_words(facts.get(row["uid"], {}))
        where = ", ".join(filter(None, (row["system"], mine, quality(row), _when(row))))
        label = f"{kind.said(view.y, row[view.y])}; {where}"
        point = (places[_when(row)], row[view.y], label, f"/results/{row['uid']}")
        series.setdefault(series_of(view, row, energy), []).append(point)
    values = [row[view.y] for row in page.rows]
    if not values:
        return Plot(None, "Nothing to draw", (f"No result has {title(view.y)}.",))
    log = "logy" in view.marks and min(values) > 0
    low = min(values) if log else min(0.0, *values)
    y = scatter.Axis(title(view.y), kind.unit_of(view.y), low, max(values), log, kind.less(view.y))
    ordered = sorted(series.items(), key=lambda item: -len(item[1]))
    notes = ["The line connects the best results of the rounds."]
    if page.total > COURSE:
        notes.append(f"{COURSE} of {page.total:,} results: choose fewer to see all of them.")
    chart, phone = (
        scatter.courses(columns, ordered, y, frame) for frame in (scatter.PLANE, scatter.PHONE)
    )
    return Plot(chart, f"{title(view.y)} by round", tuple(notes), phone=phone)


def _when(row: Row) -> str:
    if row["tier"] == "official" and row["round"]:
        return f"v{row['round']}"
    return str(row["measured_at"])[:10] or f"v{row['round']}"


def _age(name: str) -> tuple[bool, list[int], str]:
    """Rounds by their numbers, before days."""
    digits = [int(part) for part in re.findall(r"\d{1,6}", name)]
    return not name.startswith("v"), digits, name
