"""Questions to the database: which results, in what order; counts by facet; the Pareto frontier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench_results import schema
from cmbench_results.sql import sa
from cmbench_results.store import CHUNK, Store, results_by_id
from cmbench_results.values import (
    AS_REPORTED,
    ENERGY,
    HIGHER,
    LONGEST,
    LOWER,
    OFFICIAL,
    POWER,
    VOLUNTEERS,
    BenchmarkResult,
)

Row = Mapping[str, Any]

run = schema.run.c
SHOWN = tuple(column for column in schema.run.columns if column.name != "key")
_CHOOSING = (*schema.WORDS, *schema.COUNTS)
_LESS = ("latency_p90", "latency_p99", "power", "energy_per_sample", "accelerators", "nodes")
BETTER = dict.fromkeys(_LESS, LOWER)
"""Which way a column of figures is better; those that are not named are better when higher."""
MOST = 1_000_000
MOST_VALUES, MOST_WORDS = 300, 60
"""Of one question: SQLite takes no expression that is a thousand deep."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Filters of results: allowed values by column, and words that occur anywhere.

    A value may hold ``*``; one that begins with ``!`` must not be there. Case does not count.
    Raises ``bad-value`` for more of them than a query may have.
    """

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    has: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = sum(map(len, self.columns.values()))
        if values > MOST_VALUES or len(self.words) > MOST_WORDS:
            raise Error(
                "bad-value",
                "the filter is too long",
                hint=f"use at most {MOST_VALUES} values and {MOST_WORDS} words",
            )

    def without(self, column: str) -> Filter:
        """Return the same with any value of one column."""
        columns = {name: values for name, values in self.columns.items() if name != column}
        return replace(self, columns=columns)


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the results that were found, and how many there are."""

    rows: tuple[Row, ...]
    total: int


def of_flags(flags: Mapping[str, object], words: Iterable[str] = ()) -> Filter:
    """Return the filter of a command line: ``benchmark="bert-99,resnet50"``, ``has="power"``.

    Raises ``unknown-flag`` and ``bad-value``.
    """
    columns = {}
    for name, value in flags.items():
        if name not in (*_CHOOSING, "uid"):
            hint = did_you_mean(name, _CHOOSING) or f"filters are: {', '.join(_CHOOSING)}"
            raise Error("unknown-flag", f"results have no {name}", hint=hint)
        if value is True:
            raise Error("bad-value", f"--{name} needs a value", hint=f"write --{name}=VALUE")
        columns[name] = tuple(item.strip() for item in str(value).split(",") if item.strip())
    return Filter(columns, tuple(words))


def figure(name: str) -> str:
    """Return the name of a column of figures; raise ``bad-value``."""
    if name in schema.FIGURES:
        return name
    hint = did_you_mean(name, schema.FIGURES) or f"there are: {', '.join(schema.FIGURES)}"
    raise Error("bad-value", f"{name} is not a figure of results", hint=hint)


def find(store: Store, filters: Filter, sort: str = "", limit: int = 20, offset: int = 0) -> Page:
    """Return the results that fit, in the order of a column; ``-`` before its name turns it round.

    Without ``sort``: by benchmark and scenario, the best first. Raises ``bad-value``.
    """
    order = _order(sort)
    fits = _where(filters)
    # Wide rows are read for one page only, and not for the sorting of all.
    chosen = sa.select(run.uid).where(*fits).order_by(*order).limit(limit).offset(offset)
    shown = sa.select(*SHOWN).where(run.uid.in_(chosen.scalar_subquery())).order_by(*order)
    with store.reading() as connection:
        total = connection.execute(sa.select(sa.func.count()).select_from(schema.run).where(*fits))
        rows = tuple(dict(row) for row in connection.execute(shown).mappings())
        return Page(rows, int(total.scalar_one()))


def facets(store: Store, filters: Filter, names: Sequence[str]) -> dict[str, list[tuple[str, int]]]:
    """Count the results of every value of these columns, the most frequent first.

    A column is counted with the filters of the other ones. Raises ``bad-value``.
    """
    for name in names:
        if name not in _CHOOSING:
            hint = did_you_mean(name, _CHOOSING) or f"there are: {', '.join(_CHOOSING)}"
            raise Error("bad-value", f"{name} has no values to count", hint=hint)
    counts = {}
    with store.reading() as connection:
        for name in names:
            column, number = schema.run.c[name], sa.func.count().label("number")
            chosen = sa.select(column, number).where(*_where(filters.without(name)))
            counted = chosen.group_by(column).order_by(number.desc(), column)
            rows = connection.execute(counted).all()
            counts[name] = [(str(value), int(many)) for value, many in rows if value != ""]
    return counts


def kinds(
    store: Store, filters: Filter, names: Sequence[str], most: int = 100
) -> list[tuple[tuple[str, ...], int]]:
    """Return the combinations of values of these columns, with their numbers of results."""
    columns, number = [schema.run.c[name] for name in names], sa.func.count().label("number")
    chosen = sa.select(*columns, number).where(*_where(filters)).group_by(*columns)
    with store.reading() as connection:
        rows = connection.execute(chosen.order_by(number.desc(), *columns).limit(most)).all()
    return [(tuple(map(str, row[:-1])), int(row[-1])) for row in rows]


def points(store: Store, filters: Filter, x: str, y: str) -> list[Row]:
    """Return the results that have both figures, with these alone and what they are called."""
    names = (
        "uid",
        "system",
        "organization",
        "benchmark",
        "scenario",
        "round",
        "tier",
        "unit",
        "energy_tier",
    )
    columns = [schema.run.c[name] for name in dict.fromkeys((*names, figure(x), figure(y)))]
    existing = (schema.run.c[x].is_not(None), schema.run.c[y].is_not(None))
    chosen = sa.select(*columns).where(*_where(filters), *existing).order_by(run.uid).limit(MOST)
    with store.reading() as connection:
        return [dict(row) for row in connection.execute(chosen).mappings()]


def iterate_results(store: Store, filters: Filter, sort: str = "") -> Iterator[Row]:
    """Yield all results that fit, one after the other: never all of them in memory."""
    chosen = sa.select(*SHOWN).where(*_where(filters)).order_by(*_order(sort))
    for row in _streamed(store, chosen):
        yield dict(row._mapping)


def columns_of(store: Store, filters: Filter, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield these columns of all results that fit, in no order, one result after the other."""
    chosen = sa.select(*(schema.run.c[name] for name in names)).where(*_where(filters))
    for row in _streamed(store, chosen):
        yield tuple(row)


def columns_by_uid(store: Store, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the id and these columns of all results, by ascending id."""
    columns = [run.uid, *(schema.run.c[name] for name in names)]
    for row in _streamed(store, sa.select(*columns).order_by(run.uid)):
        yield tuple(row)


def uids_by(store: Store, sort: str) -> Iterator[str]:
    """Yield the ids of all results in the order of a column; raise ``bad-value``."""
    for row in _streamed(store, sa.select(run.uid).order_by(*_order(sort))):
        yield str(row[0])


def own(store: Store, rows: Iterable[Row]) -> dict[str, BenchmarkResult]:
    """Return the whole results of those rows that MLCommons has not published, by their ids."""
    return results_by_id(store, [row["uid"] for row in rows if row["tier"] != OFFICIAL])


def with_settings(store: Store, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows with ``settings``: what was set, and discovered, in a run, by name.

    ``as_reported`` names what no check proves of a volunteer's result.
    """
    remaining = iter(rows)
    while chunk := list(islice(remaining, CHUNK)):
        results = own(store, chunk)
        for row in chunk:
            result = results.get(row["uid"])
            claimed = AS_REPORTED if row["tier"] in VOLUNTEERS else ""
            settings = dict(result.settings) if result else {}
            yield {**row, "as_reported": claimed, "settings": settings}


def names_of_settings(store: Store, filters: Filter) -> list[str]:
    """Return the names of all settings that results of a filter have."""
    tiers = (*filters.columns.get("tier", ()), f"!{OFFICIAL}")
    ours = replace(filters, columns={**filters.columns, "tier": tiers})
    described = with_settings(store, iterate_results(store, ours))
    return list(dict.fromkeys(name for row in described for name in row["settings"]))


def _streamed(store: Store, chosen: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
    with store.reading() as connection:
        yield from connection.execution_options(yield_per=500).execute(chosen)


def unbeaten(points: Iterable[tuple[float, float, Any]], right: int, up: int) -> list[Any]:
    """Return the third of those points that no other one beats, by ascending x.

    ``right`` and ``up`` are 1 where more of x, or y, is better, and -1 where less is. Of equal
    points the first is kept, by the third.
    """
    ordered = sorted(points, key=lambda point: (-right * point[0], -up * point[1], point[2]))
    best, chosen = float("-inf"), []
    for _, y, what in ordered:
        if up * y > best:
            best = up * y
            chosen.append(what)
    return chosen[::-1] if right > 0 else chosen


def frontier(results: Iterable[Row], x: str, y: str, units: str = "unit") -> list[Row]:
    """Return the results that no other one beats in both figures, by ``x``.

    Raises ``bad-value`` where they are in different units or of different benchmarks: no such
    figures can be compared.
    """
    rows = list(results)
    measured = ("energy_tier",) if {x, y} & {POWER, ENERGY} else ()
    for name in ("benchmark", "scenario", units, *measured):
        kinds = sorted({str(row[name]) for row in rows})
        if len(kinds) > 1:
            raise Error(
                "bad-value",
                f"these results have several values of {name}: {', '.join(kinds[:6])}",
                hint=f"a frontier needs one: add --{name}=VALUE",
            )
    return _unbeaten(rows, x, y)


def _unbeaten(rows: list[Row], x: str, y: str) -> list[Row]:
    by_uid = {row["uid"]: row for row in rows}
    points = ((row[x], row[y], row["uid"]) for row in rows)
    return [by_uid[uid] for uid in unbeaten(points, _sign(x), _sign(y))]


def _sign(name: str) -> int:
    return -1 if BETTER.get(name, HIGHER) == LOWER else 1


def _where(filters: Filter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    for name, values in filters.columns.items():
        column = schema.run.c[name]
        allowed = [_like(column, v) for v in values if not v.startswith("!")]
        conditions += [sa.not_(_like(column, v[1:])) for v in values if v.startswith("!")]
        if allowed:
            conditions.append(sa.or_(*allowed))
    anywhere = (
        *(run.benchmark, run.model, run.scenario, run.system, run.organization),
        *(run.cpu, run.accelerator, run.framework, run.round),
    )
    for word in filters.words:
        matches = (text_column.icontains(word, autoescape=True) for text_column in anywhere)
        conditions.append(sa.or_(*matches) if _may_be_stored(word) else sa.false())
    conditions += [schema.run.c[figure(name)].is_not(None) for name in filters.has]
    return conditions


def _may_be_stored(text: str) -> bool:
    """Whether a text of the database can hold it: half a character, for one, no database takes."""
    return len(text) <= LONGEST and text.isprintable()


def _like(column: sa.ColumnElement[str], value: str) -> sa.ColumnElement[bool]:
    if not _may_be_stored(value):
        return sa.false()
    if column.name == "category":
        # One result may be of both.
        return column.icontains(value, autoescape=True)
    if column.name in schema.COUNTS:
        return sa.cast(column, sa.Text) == value
    text = value.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    if "*" in value:
        return sa.func.lower(column).like(text.replace("*", "%"), escape="\\")
    return sa.func.lower(column) == value.lower()


def best_first(sort: str) -> str:
    """Return ``--sort`` as ``find`` takes it: a figure that is better when higher comes down."""
    name = sort.removeprefix("-")
    if name not in schema.FIGURES or BETTER.get(name) == LOWER:
        return sort
    return name if sort.startswith("-") else f"-{name}"


def _order(sort: str) -> list[sa.ColumnElement[Any]]:
    if not sort:
        # The reciprocal of a figure that is better when lower puts the best first as well.
        best = sa.case((run.direction == LOWER, -run.value), else_=run.value)
        return [run.benchmark, run.scenario, best.is_(None), best.desc(), run.uid]
    name, down = sort.removeprefix("-"), sort.startswith("-")
    names = (*schema.WORDS, *schema.FIGURES, "measured_at")
    if name not in names:
        hint = did_you_mean(name, names) or f"there are: {', '.join(names)}"
        raise Error("bad-value", f"--sort={sort} is not a column of results", hint=hint)
    column = schema.run.c[name]
    return [column.is_(None), column.desc() if down else column, run.uid]
