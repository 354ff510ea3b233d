"""What a sweep is made of, as typed values; nothing here reads or runs anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OPEN, MEASURED, FAILED = "open", "measured", "failed"
"""What a point is: still to do, measured, or failed with its reason."""

HIGHER, LOWER = "max", "min"
"""Which way a figure is better, as a sweep file says it."""

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often a point is run: until its spread is at most ``spread``, ``most`` times at most.

    ``spread`` is (largest - smallest) / median; it counts from ``least`` runs on.
    """

    most: int = 1
    least: int = 2
    spread: float = 0.035


@dataclass(frozen=True, slots=True)
class Budget:
    """What a sweep may take: seconds in all, points, seconds of one run; 0 is no bound."""

    seconds: float = 0.0
    points: int = 0
    point_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Points that are chosen rather than all of them: ``method`` is ``grid``, ``random``, ..."""

    method: str = "grid"
    points: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep file that was read and found in order.

    ``request`` are flags of ``cm run script``, nested as cmind nests them, with ``tags`` among
    them. ``axes`` are inputs (``env.KEY`` names one of a group) with their values; axes of one
    tuple in ``zips`` go together. ``labels`` are those that a machine must have, each with the
    expression that says for which points, empty for all. ``exclude`` are expressions that a
    point must not fulfil; ``constraints`` are those that the figures of a good point do.
    ``record`` says where figures come from, by their names; ``objectives`` which way they are
    better. ``site`` is the system of a site that measures it, empty where none is named.
    ``reference`` is the path of the file with reference values, empty for none.
    """

    name: str
    request: Mapping[str, Any]
    axes: Mapping[str, tuple[Any, ...]]
    zips: tuple[tuple[str, ...], ...] = ()
    exclude: tuple[str, ...] = ()
    repeat: Repeat = field(default_factory=Repeat)
    labels: Mapping[str, str] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    record: Mapping[str, str] = field(default_factory=dict)
    objectives: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    search: SearchSettings = field(default_factory=SearchSettings)
    site: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One combination of values of the axes, and the whole request as flags.

    ``labels`` are those that a machine must have.
    ``key`` names the measurement: the same request of the same script has the same one.
    """

    number: int
    key: str
    values: Mapping[str, Any]
    flags: Mapping[str, Any]
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run of a point: its figures, how long it took in seconds, its record, where."""

    figures: Figures
    seconds: float
    record: str = ""
    host: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class PointOutcome:
    """The outcome of a point. ``reason`` and ``code`` say why one has failed.

    ``replaces`` is the version of the outcome that this one takes the place of, where a point is
    measured again.
    """

    key: str
    status: str = OPEN
    runs: tuple[SweepRun, ...] = ()
    reason: str = ""
    code: str = ""
    record: str = ""
    host: str = ""
    replaces: str = ""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.status != OPEN

    def figure(self, name: str) -> float | None:
        """Return the median of a figure over the runs, in its unit; ``None`` if no run has it."""
        values = self.all_of(name)
        return median(values) if values else None

    def all_of(self, name: str) -> list[float]:
        """Return a figure of every run that has it."""
        return [run.figures[name] for run in self.runs if name in run.figures]

    @property
    def names(self) -> list[str]:
        """The figures that its runs have, in their order."""
        return list(dict.fromkeys(name for run in self.runs for name in run.figures))


def median(values: Iterable[float]) -> float:
    """Return the middle value of one or more, in their own unit."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def spread(values: Iterable[float]) -> float | None:
    """(largest - smallest) / median, without a unit; ``None`` for one value, or a median of 0."""
    numbers = list(values)
    middle = median(numbers) if numbers else 0
    return (max(numbers) - min(numbers)) / abs(middle) if len(numbers) > 1 and middle else None
