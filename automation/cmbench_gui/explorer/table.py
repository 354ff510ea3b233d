"""The table of results, its facets with counts, and the pages of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cmbench_gui.explorer.columns import Columns
from cmbench_gui.explorer.view import ROWS, ExplorerView
from cmbench_results import query, schema
from cmbench_results.cost import CostModel
from cmbench_results.distinguish import differing_facts, moment
from cmbench_results.render import figure, per_part, reported
from cmbench_results.store import Store
from cmbench_results.values import OFFICIAL, BenchmarkResult

FACETS = {
    "tier": "trust",
    "benchmark": "benchmark",
    "scenario": "scenario",
    "round": "round",
    "division": "division",
    "category": "category",
    "validity": "validity",
    "organization": "organization",
    "accelerator": "accelerator",
    "accelerators": "accelerators in a node",
    "framework": "framework",
    "precision": "precision",
    "form": "form",
    "energy_tier": "energy measured",
}
"""The columns that are counted beside the table, by what they are called there."""
OPEN = ("tier", "benchmark", "scenario")
SHOWN = 6
"""Values of a facet that are seen at once, so that the names of all facets fit one screen."""
MOST = 200

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a facet, how many results have it, and the address that chooses or drops it."""

    name: str
    many: int
    chosen: bool
    address: str


@dataclass(frozen=True, slots=True)
class Facet:
    """A column with its values, the most frequent first; ``more`` are those seen on request."""

    name: str
    title: str
    values: tuple[FacetValue, ...]
    more: tuple[FacetValue, ...]
    chosen: int
    open: bool


@dataclass(frozen=True, slots=True)
class TableLine:
    """A result in the table, in words; ``cells`` are the further columns with their values."""

    uid: str
    value: str
    work: str
    system: str
    system_id: str
    hardware: str
    rates: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]
    trust: Trust
    validity: str
    inferred: bool
    held: bool
    hold: str


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a result may be trusted: a word, its meaning, and its class of colour."""

    word: str
    meaning: str
    kind: str


TRUST = {
    OFFICIAL: Trust("official", "published by MLCommons", "official"),
    "local": Trust("not verified", "measured or added here; not verified by MLCommons", "local"),
    "uploaded": Trust("uploaded", "sent by a volunteer; not verified by MLCommons", "local"),
    "checked": Trust(
        "checked",
        "speed recomputed from its logs; hardware, software and accuracy as reported;"
        " not verified by MLCommons",
        "checked",
    ),
    "reproduced": Trust(
        "reproduced",
        "several volunteers agree on the speed; hardware, software and accuracy as reported;"
        " not verified by MLCommons",
        "checked",
    ),
}


def trust(tier: str) -> Trust:
    """Return the meaning of a tier; an unknown one is not verified."""
    return TRUST.get(tier, Trust(tier, "not verified by MLCommons", "local"))


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of the table: its name, and the address that sorts by it."""

    name: str
    address: str
    sorted: str


@dataclass(frozen=True, slots=True)
class ResultTable:
    """One page of the table; ``before`` and ``after`` are addresses, empty at the ends."""

    lines: tuple[TableLine, ...]
    headings: tuple[Heading, ...]
    total: int
    first: int
    last: int
    before: str
    after: str
    unverified: bool
    same_work: bool


_FIRST = (("result", "value", True), ("benchmark", "benchmark", False), ("system", "system", False))
_SORTED = {
    "model": ("model", False),
    "backend": ("backend", False),
    "measured": ("measured_at", True),
    "organization": ("organization", False),
    "round": ("round", True),
    "accuracy": ("accuracy", True),
    "power": ("power", False),
}
"""The columns that a table can be sorted by, and whether it is first sorted downwards."""
_ALWAYS, _LAST = (
    ("round", "accuracy"),
    ("organization", "round", "accuracy", "power", "cost per million"),
)


def table(store: Store, view: ExplorerView, known: Columns | None = None) -> ResultTable:
    """The page of a view; ``known`` are the columns in memory, if they are.

    Raises ``bad-value``.
    """
    start = (view.page - 1) * ROWS
    if known is not None and known.knows(view.wanted):
        matches = known.find(view.wanted, view.sort, ROWS, start)
    else:
        matches = query.find(store, view.wanted, view.sort, ROWS, start)
    cells = _cells(store, matches.rows, view.costs() if view.priced else None)
    hold = view.holds("/results")
    lines = tuple(
        _line(row, view, hold(row["uid"]), values)
        for row, values in zip(matches.rows, cells, strict=True)
    )
    last = start + len(lines)
    same_work = _chosen_work(view) == {line.work for line in lines}
    return ResultTable(
        lines=lines,
        headings=_headings(view, lines, same_work),
        total=matches.total,
        first=start + 1 if lines else 0,
        last=last,
        before=replace(view, page=view.page - 1).at("/results") if view.page > 1 else "",
        after=replace(view, page=view.page + 1).at("/results") if last < matches.total else "",
        unverified=any(row["tier"] != OFFICIAL for row in matches.rows),
        same_work=same_work,
    )


def _chosen_work(view: ExplorerView) -> set[str]:
    """What was chosen, in the words of a line: such a column would say the same in every row."""
    chosen = view.wanted.columns
    return {f"{b} {s}" for b in chosen.get("benchmark", ()) for s in chosen.get("scenario", ())}


def _headings(
    view: ExplorerView, lines: Sequence[TableLine], same_work: bool
) -> tuple[Heading, ...]:
    names = [name for name, _ in lines[0].cells] if lines else _ALWAYS
    first = [heading for heading in _FIRST if not (same_work and heading[0] == "benchmark")]
    headings = (*first, *((name, *_SORTED.get(name, ("", False))) for name in names))
    return tuple(_heading(view, *heading) for heading in headings)


def _heading(view: ExplorerView, name: str, column: str, down: bool) -> Heading:
    if not column:
        return Heading(name, "", "none")
    by = view.sort.removeprefix("-")
    way = "descending" if view.sort.startswith("-") else "ascending"
    return Heading(name, view.ordered(column, down).at("/results"), way if by == column else "none")


def _cells(store: Store, rows: Sequence[Row], costs: CostModel | None) -> list[dict[str, str]]:
    """Return the further columns of every row; those that would be empty are left out.

    Results of one's own have what they are recognized by, and all in which they differ.
    """
    own = query.own(store, rows)
    facts = differing_facts(own)
    lines = [_cells_of(row, own.get(row["uid"]), facts.get(row["uid"], {}), costs) for row in rows]
    names = dict.fromkeys(name for line in lines for name in line)
    ordered = sorted(names, key=lambda name: name in _LAST)
    shown = [name for name in ordered if name in _ALWAYS or any(map(_has(name), lines))]
    return [{name: line.get(name, "") for name in shown} for line in lines]


def _has(name: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda line: bool(line.get(name))


def _cells_of(
    row: Row, result: BenchmarkResult | None, facts: Mapping[str, str], costs: CostModel | None
) -> dict[str, str]:
    own = {}
    if result is not None:
        model = result.workload.model
        own = {"model": model, "backend": result.software.backend}
        own |= {name.removeprefix("version of ").replace("_", " "): v for name, v in facts.items()}
        own = {name: value and f"{value}{reported(row['tier'])}" for name, value in own.items()}
        own |= {"measured": moment(result.measured_at)}
    return {
        **own,
        "organization": row["organization"],
        "round": " ".join(filter(None, (row["round"] and f"v{row['round']}", row["division"]))),
        "accuracy": f"{row['accuracy']:.5g}{reported(row['tier'])}"
        if row["accuracy"] is not None
        else "",
        "power": energy(row),
        "cost per million": money(costs.per_million(row)) if costs else "",
    }


def _line(row: Row, view: ExplorerView, hold: str, cells: Mapping[str, str]) -> TableLine:
    precise = row["precision"] and f", {row['precision']}"
    return TableLine(
        uid=row["uid"],
        value=figure(row["value"], row["unit"]),
        work=work(row),
        system=row["system"],
        system_id=row["system_id"],
        hardware=f"{hardware(row)}{precise}{reported(row['tier'])}",
        rates=tuple(per_part(row)),
        cells=tuple(cells.items()),
        trust=trust(row["tier"]),
        validity=row["validity"],
        inferred=row["inferred"],
        held=row["uid"] in view.basket,
        hold=hold,
    )


def work(row: Row) -> str:
    """Benchmark, scenario and form of a row."""
    form = f" ({row['form']})" if row["form"] else ""
    return f"{row['benchmark']} {row['scenario']}{form}"


def hardware(row: Row) -> str:
    """Its accelerators, else its CPU."""
    if row["accelerator"]:
        return f"{row['accelerators']} x {row['accelerator']}"
    return str(row["cpu"])


def energy(row: Row) -> str:
    """Power or energy with how it was measured."""
    figures = [figure(row["power"], "W")] if row["power"] is not None else []
    if row["energy_per_sample"] is not None:
        figures.append(figure(row["energy_per_sample"], "J per sample"))
    return ", ".join([*figures, row["energy_tier"]]) if figures else ""


def money(amount: float | None) -> str:
    """Dollars for a million samples or tokens."""
    return "" if amount is None else f"${amount:,.4g}"


def facets(store: Store, view: ExplorerView, known: Columns | None = None) -> tuple[Facet, ...]:
    """The facets that have something to choose from, or of which something is chosen."""
    names = tuple(FACETS)
    if known is not None and known.knows(view.wanted):
        counted = known.facets(view.wanted, names)
    else:
        counted = query.facets(store, view.wanted, names)
    panels = (_facet(view, name, counted[name]) for name in names)
    return tuple(
        panel for panel in panels if len(panel.values) > 1 or panel.chosen or panel.name == "tier"
    )


def _facet(view: ExplorerView, name: str, counted: Sequence[tuple[str, int]]) -> Facet:
    chosen, address = view.wanted.columns.get(name, ()), view.toggles("/results", name)
    known = dict(counted[:MOST])
    # A value that was typed, with a *, say, is shown as it was.
    typed = [value for value in chosen if value not in known]
    values = [
        FacetValue(value, many, value in chosen, address(value))
        for value, many in [*((value, 0) for value in typed), *known.items()]
    ]
    if name in schema.COUNTS:
        values.sort(key=lambda option: int(option.name) if option.name.isdecimal() else 0)
    values.sort(key=lambda option: not option.chosen)
    return Facet(
        name,
        FACETS[name],
        tuple(values[:SHOWN]),
        tuple(values[SHOWN:]),
        len(chosen),
        bool(chosen) or (name in OPEN and len(values) > 1),
    )
