"""What the points of a sweep say together: the best, the frontier, the effect of each axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench_sweep.expressions import ExpressionError, evaluate, names_in
from cmbench_sweep.values import HIGHER, LOWER, MEASURED, Outcome, Point, Sweep, median

_LOWER_IS_BETTER = ("latency", "seconds", "time", "energy", "power", "memory", "bytes", "value")


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured point with what it has come to; figures are medians of its runs."""

    point: Point
    outcome: Outcome
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Effect:
    """What one value of an axis does: ``ratios`` are to ``base``, the first value of the axis.

    Each ratio is of two points that differ in this axis alone; ``values`` are all that were
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
    measured: tuple[Measured, ...]
    figures: tuple[str, ...]

    def way(self, figure: str) -> str:
        """Which way a figure is better: as the sweep says, else by its name."""
        told = self.sweep.objectives.get(figure)
        last = figure.rpartition(".")[2]
        return told or (LOWER if last.startswith(_LOWER_IS_BETTER) else HIGHER)

    def figure(self, name: str = "") -> str:
        """The figure that is meant; the first objective, or the first there is, without a name.

        Raises ``bad-value`` for one that no point has, ``no-results`` where none is measured.
        """
        if not self.measured:
            raise Error(
                "no-results",
                f"no point of {self.sweep.name} is measured yet",
                hint="measure them: cm run experiment --sweep=FILE",
            )
        recorded = [each for each in self.sweep.record if each in self.figures]
        wanted = name or next(iter(self.sweep.objectives), [*recorded, *self.figures][0])
        if wanted not in self.figures:
            hint = did_you_mean(wanted, self.figures) or f"there are: {', '.join(self.figures)}"
            raise Error("bad-value", f"no point has the figure {wanted}", hint=hint)
        return wanted


def report(sweep: Sweep, points: Sequence[Point], known: Mapping[str, Outcome]) -> Report:
    """What the measured ones among ``points`` say."""
    measured = []
    for point in points:
        outcome = known[point.key]
        if outcome.status == MEASURED:
            figures = {n: v for n in outcome.names if (v := outcome.figure(n)) is not None}
            measured.append(Measured(point, outcome, figures))
    names = dict.fromkeys(name for each in measured for name in each.figures)
    return Report(sweep, tuple(measured), tuple(names))


def good(found: Report) -> list[Measured]:
    """The points whose figures fulfil the constraints; raises ``bad-value``.

    A figure that some points have is not fulfilled by those that lack it.
    """
    asked = {name for text in found.sweep.constraints for name in names_in(text)}
    asked &= {*found.figures}
    having = (each for each in found.measured if asked.issubset(each.figures))
    return [each for each in having if _fulfils(found.sweep, each)]


def _fulfils(sweep: Sweep, each: Measured) -> bool:
    scope = {**each.point.values, **each.figures}
    try:
        return all(evaluate(text, scope) for text in sweep.constraints)
    except ExpressionError as problem:
        raise Error(
            "bad-value", f"constraints: {problem}", hint="name figures that points have"
        ) from None


def best(found: Report, figure: str = "") -> Measured | None:
    """The best point in a figure that fulfils the constraints; ``None`` where none does."""
    name = found.figure(figure)
    having = [each for each in good(found) if name in each.figures]
    return max(having, key=lambda each: _better(found, each, name), default=None)


def frontier(found: Report, x: str, y: str) -> list[Measured]:
    """The points that no other one beats in both figures, in the order of ``x``."""
    names = found.figure(x), found.figure(y)
    having = [each for each in good(found) if all(name in each.figures for name in names)]
    ordered = sorted(having, key=lambda e: [-_better(found, e, name) for name in names])
    kept: list[Measured] = []
    for each in ordered:
        if not kept or _better(found, each, y) > _better(found, kept[-1], y):
            kept.append(each)
    return sorted(kept, key=lambda each: each.figures[x])


def _better(found: Report, each: Measured, name: str) -> float:
    return each.figures[name] * (1 if found.way(name) == HIGHER else -1)


def effects(found: Report, figure: str = "") -> list[Effect]:
    """What each value of each axis does to a figure, compared with the first value of the axis."""
    name = found.figure(figure)
    having = [each for each in found.measured if name in each.figures]
    return [
        _effect(having, name, axis, value, values[0])
        for axis, values in found.sweep.axes.items()
        if len(values) > 1
        for value in values
    ]


def _effect(having: Sequence[Measured], name: str, axis: str, value: Any, base: Any) -> Effect:
    others = {_rest(e, axis): e.figures[name] for e in having if e.point.values[axis] == base}
    mine = [each for each in having if each.point.values[axis] == value]
    pairs = [(each.figures[name], others.get(_rest(each, axis))) for each in mine]
    ratios = [own / other for own, other in pairs if other]
    return Effect(axis, value, base, tuple(e.figures[name] for e in mine), tuple(ratios))


def _rest(each: Measured, axis: str) -> str:
    return repr({name: value for name, value in each.point.values.items() if name != axis})


def middle_and_range(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Median, smallest and largest; ``None`` for no values."""
    return (median(values), min(values), max(values)) if values else None
