"""Reports on the points of a sweep: the best, the frontier, the effects of the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench_sweep.expressions import ExpressionError, evaluate, referenced_names
from cmbench_sweep.figures import USED_BATCH
from cmbench_sweep.values import (
    HIGHER,
    LOWER,
    MEASURED,
    PointOutcome,
    Sweep,
    SweepPoint,
    median,
)

_LOWER_IS_BETTER = ("latency", "seconds", "time", "energy", "power", "memory", "bytes", "value")


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A measured point with its outcome; figures are medians of its runs."""

    point: SweepPoint
    outcome: PointOutcome
    figures: Mapping[str, float]

    @property
    def used_batches(self) -> str:
        """The batches of its runs (``4, 8``) where they are others than the axis says."""
        used = sorted({*self.outcome.all_of(USED_BATCH)})
        requested = self.point.values.get("batch_size")
        texts = [f"{batch:g}" for batch in used]
        return "" if requested is None or texts == [str(requested)] else ", ".join(texts)


@dataclass(frozen=True, slots=True)
class Effect:
    """What one value of an axis does: ``ratios`` are to ``base``, the first value of the axis.

    Every ratio is of two points that differ in this axis alone; ``values`` are all that were
    measured with the value.
    """

    axis: str
    value: Any
    base: Any
    values: tuple[float, ...]
    ratios: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The measured points of a sweep, and which figures they have."""

    sweep: Sweep
    measured: tuple[MeasuredPoint, ...]
    figures: tuple[str, ...]

    def direction(self, figure: str) -> str:
        """Return in which direction a figure is better: the sweep's, else that of its name."""
        direction = self.sweep.objectives.get(figure)
        last = figure.rpartition(".")[2]
        return direction or (LOWER if last.startswith(_LOWER_IS_BETTER) else HIGHER)

    def figure(self, name: str = "") -> str:
        """Return the named figure; without a name the first objective, or the first figure.

        Raises ``bad-value`` for one that no point has, ``no-results`` where none is measured.
        """
        if not self.measured:
            raise Error(
                "no-results",
                f"no point of {self.sweep.name} is measured yet",
                hint="measure them: `cm run experiment --sweep=FILE`",
            )
        recorded = [key for key in self.sweep.record if key in self.figures]
        chosen = name or next(iter(self.sweep.objectives), [*recorded, *self.figures][0])
        if chosen not in self.figures:
            hint = did_you_mean(chosen, self.figures) or f"there are: {', '.join(self.figures)}"
            raise Error("bad-value", f"no point has the figure {chosen}", hint=hint)
        return chosen


def report(
    sweep: Sweep, points: Sequence[SweepPoint], outcomes: Mapping[str, PointOutcome]
) -> Report:
    """Return what the measured ones among ``points`` say."""
    measured = []
    for point in points:
        outcome = outcomes[point.key]
        if outcome.status == MEASURED:
            names = [name for name in outcome.names if name != USED_BATCH]
            figures = {n: v for n in names if (v := outcome.figure(n)) is not None}
            measured.append(MeasuredPoint(point, outcome, figures))
    all_names = dict.fromkeys(name for entry in measured for name in entry.figures)
    return Report(sweep, tuple(measured), tuple(all_names))


def feasible_points(sweep_report: Report) -> list[MeasuredPoint]:
    """Return the points whose figures fulfil the constraints; raise ``bad-value``.

    A figure that some points have is not fulfilled by those that lack it.
    """
    names = {name for text in sweep_report.sweep.constraints for name in referenced_names(text)}
    names &= {*sweep_report.figures}
    having = (entry for entry in sweep_report.measured if names.issubset(entry.figures))
    return [entry for entry in having if _fulfils(sweep_report.sweep, entry)]


def _fulfils(sweep: Sweep, entry: MeasuredPoint) -> bool:
    scope = {**entry.point.values, **entry.figures}
    try:
        return all(evaluate(text, scope) for text in sweep.constraints)
    except ExpressionError as problem:
        raise Error(
            "bad-value", f"constraints: {problem}", hint="name figures that points have"
        ) from None


def best(sweep_report: Report, figure: str = "") -> MeasuredPoint | None:
    """Return the best point in a figure that fulfils the constraints; ``None`` where none does."""
    name = sweep_report.figure(figure)
    having = [entry for entry in feasible_points(sweep_report) if name in entry.figures]
    return max(having, key=lambda entry: _better(sweep_report, entry, name), default=None)


def frontier(sweep_report: Report, x: str, y: str) -> list[MeasuredPoint]:
    """Return the points that no other one beats in both figures, in the order of ``x``."""
    names = sweep_report.figure(x), sweep_report.figure(y)
    feasible = feasible_points(sweep_report)
    having = [entry for entry in feasible if all(name in entry.figures for name in names)]
    ordered = sorted(having, key=lambda e: [-_better(sweep_report, e, name) for name in names])
    unbeaten: list[MeasuredPoint] = []
    for entry in ordered:
        if not unbeaten or _better(sweep_report, entry, y) > _better(sweep_report, unbeaten[-1], y):
            unbeaten.append(entry)
    return sorted(unbeaten, key=lambda entry: entry.figures[x])


def _better(sweep_report: Report, entry: MeasuredPoint, name: str) -> float:
    return entry.figures[name] * (1 if sweep_report.direction(name) == HIGHER else -1)


def effects(sweep_report: Report, figure: str = "") -> list[Effect]:
    """Compare the values of every axis in one figure with the first value of the axis."""
    name = sweep_report.figure(figure)
    having = [entry for entry in sweep_report.measured if name in entry.figures]
    return [
        _effect(having, name, axis, value, values[0])
        for axis, values in sweep_report.sweep.axes.items()
        if len(values) > 1
        for value in values
    ]


def _effect(having: Sequence[MeasuredPoint], name: str, axis: str, value: Any, base: Any) -> Effect:
    others = {_rest(e, axis): e.figures[name] for e in having if e.point.values[axis] == base}
    mine = [entry for entry in having if entry.point.values[axis] == value]
    pairs = [(entry.figures[name], others.get(_rest(entry, axis))) for entry in mine]
    ratios = [own / other for own, other in pairs if other]
    return Effect(axis, value, base, tuple(e.figures[name] for e in mine), tuple(ratios))


def _rest(entry: MeasuredPoint, axis: str) -> str:
    return repr({name: value for name, value in entry.point.values.items() if name != axis})


def median_and_range(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Median, smallest and largest; ``None`` for no values."""
    return (median(values), min(values), max(values)) if values else None
