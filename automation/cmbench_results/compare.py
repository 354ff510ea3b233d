"""Results side by side: what differs in hardware, software and settings, and by how much."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cmbench.errors import Error
from cmbench_results import schema
from cmbench_results.regression import VersionRuns, history
from cmbench_results.sql import sa
from cmbench_results.store import Store
from cmbench_results.values import (
    ACCURACY,
    HIGHER,
    LOWER,
    BenchmarkResult,
    ResultMetric,
    configuration_of,
)

_LETTERS = "BCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Spread:
    """Repeated runs of one configuration: number, median, (max - min) / median, and both ends."""

    runs: int
    median: float | None
    relative: float | None
    lowest: float | None = None
    highest: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One property in which results differ, with its values; empty where it is unknown."""

    what: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of several results; ``ratios`` are to the first that has it, above 1 is better."""

    name: str
    unit: str
    values: tuple[float | None, ...]
    ratios: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ResultComparison:
    """Results side by side, in the order of the request.

    ``verdicts`` say of all but the first which is faster, by how much, and whether beyond noise.
    """

    results: tuple[BenchmarkResult, ...]
    figures: tuple[Figure, ...]
    spreads: tuple[Spread, ...]
    differences: tuple[Difference, ...]
    same: int
    verdicts: tuple[str, ...] = ()


def compare(store: Store, uids: Sequence[str]) -> ResultComparison:
    """Compare the named results; raises ``needs-input``, ``result-not-found``, ``ambiguous``."""
    if len(uids) < 2:
        raise Error(
            "needs-input",
            "two or more results are needed for a comparison",
            hint="name them by their ids: `cm compare results ID ID` "
            "(`cm find results` shows them)",
        )
    results = tuple(store.result(uid) for uid in uids)
    described = [_describe(result) for result in results]
    names = list(dict.fromkeys(name for description in described for name in description))
    rows = [(name, tuple(description.get(name, "") for description in described)) for name in names]
    differences = tuple(Difference(name, row) for name, row in rows if len(set(row)) > 1)
    spreads = tuple(spread(store, result) for result in results)
    return ResultComparison(
        results=results,
        figures=tuple(_figures(results)),
        spreads=spreads,
        differences=differences,
        same=len(rows) - len(differences),
        verdicts=tuple(_verdicts(results, spreads)),
    )


def over_time(store: Store, result: BenchmarkResult) -> tuple[VersionRuns, ...]:
    """Return the runs that differ from a result in versions alone, by these."""
    return history(store, result)


def _verdicts(results: Sequence[BenchmarkResult], spreads: Sequence[Spread]) -> Iterator[str]:
    """Yield a sentence for every result but the first, to which it is compared."""
    first = results[0]
    for letter, other, extent in zip(_LETTERS, results[1:], spreads[1:], strict=False):
        if work_of(other) != work_of(first):
            yield f"{letter} and A cannot be compared: another benchmark, scenario or unit"
            continue
        middle, base = (_middle(r, s) for r, s in ((other, extent), (first, spreads[0])))
        if not middle or not base:
            yield f"{letter} and A cannot be compared: a figure is missing"
            continue
        ratio = base / middle if first.direction == LOWER else middle / base
        way = f"{ratio:.3g} times as fast as A" if ratio >= 1 else f"slower than A, x {ratio:.3g}"
        same = other.series == first.series
        yield f"{letter} is {way}, {_beyond(spreads[0], extent, same, letter)}"


def work_of(result: BenchmarkResult) -> tuple[str, str, str]:
    """Return what must agree in results whose figures are compared."""
    return result.workload.benchmark, result.workload.scenario, result.unit


def _middle(result: BenchmarkResult, extent: Spread) -> float | None:
    return extent.median if extent.runs > 1 else result.value


def _beyond(one: Spread, other: Spread, same: bool, letter: str) -> str:
    """Return whether two configurations differ by more than their repeated runs do."""
    if same:
        return "both are runs of one configuration"
    single = [name for name, spread in (("A", one), (letter, other)) if spread.runs < 2]
    if single:
        runs = "is a single run" if len(single) == 1 else "are single runs"
        names = " and ".join(single)
        return f"whether beyond the noise is not known: {names} {runs}; repeat it"
    noise = f"A {_extent(one)}, {letter} {_extent(other)}"
    return f"{'beyond' if _are_apart(one, other) else 'within'} the noise (spread: {noise})"


def _are_apart(one: Spread, other: Spread) -> bool:
    """Return whether all figures of one configuration are above those of the other."""
    low, high = one.lowest or 0.0, one.highest or 0.0
    return low > (other.highest or 0.0) or (other.lowest or 0.0) > high


def _extent(spread: Spread) -> str:
    return f"{spread.relative or 0.0:.1%} of {spread.runs} runs"


def spread(store: Store, result: BenchmarkResult) -> Spread:
    """Return how far the valid runs of the same configuration lie apart."""
    value = schema.run.c.value
    chosen = sa.select(value).where(
        schema.run.c.series == result.series,
        value.is_not(None),
        schema.run.c.validity != "INVALID",
    )
    with store.reading() as connection:
        values = list(connection.execute(chosen).scalars())
    if not values:
        return Spread(0, None, None)
    median = statistics.median(values)
    relative = (max(values) - min(values)) / median if len(values) > 1 and median else None
    return Spread(len(values), median, relative, min(values), max(values))


def _figures(results: Sequence[BenchmarkResult]) -> list[Figure]:
    tables = [_metrics_of(result) for result in results]
    names = dict.fromkeys(name for table in tables for name in table)
    figures = (_figure(name, [table.get(name) for table in tables]) for name in names)
    return [entry for entry in figures if entry is not None]


def _metrics_of(result: BenchmarkResult) -> dict[str, ResultMetric]:
    metrics = {metric.name: metric for metric in result.metrics}
    if result.accuracy is not None:
        metrics[ACCURACY] = ResultMetric(ACCURACY, result.accuracy, result.accuracy_unit, HIGHER)
    return metrics


def _figure(name: str, metrics: Sequence[ResultMetric | None]) -> Figure | None:
    """Return one metric of all; ``None`` where units, or ways to measure energy, differ."""
    existing = [metric for metric in metrics if metric is not None]
    if len({(metric.unit, metric.tier) for metric in existing}) > 1:
        return None
    values = tuple(metric.value if metric else None for metric in metrics)
    return Figure(name, existing[0].unit, values, _ratios(values, existing[0].direction))


def _ratios(values: Sequence[float | None], direction: str) -> tuple[float | None, ...]:
    first = next((value for value in values if value), None)
    if first is None:
        return tuple(None for _ in values)
    up = direction != LOWER
    return tuple(None if not v else (v / first if up else first / v) for v in values)


def _describe(result: BenchmarkResult) -> dict[str, str]:
    """Return everything that may explain a difference, by its name."""
    facts = {"validity": result.validity, "tier": result.tier, "availability": result.availability}
    facts |= {"figures from": result.figures_from, **result.settings}
    return configuration_of(result) | {name: value for name, value in facts.items() if value}
