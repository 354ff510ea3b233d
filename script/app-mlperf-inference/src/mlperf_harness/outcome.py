"""What the process of a run reports to the session."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AccuracyFigure:
    """A computed accuracy in the metric's unit, and the line that accuracy.txt must hold.

    ``duplicates`` counts samples that LoadGen issued twice to fill its last query.
    """

    value: float
    line: str
    samples: int
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is not in LoadGen's logs; ``failure`` is empty when nothing went wrong.

    ``seconds`` is the wall time from LoadGen's start to its end, loading of samples included.
    """

    failure: str
    failure_count: int
    seconds: float
    batches: int
    samples: int
    versions: dict[str, str]
    accuracy: AccuracyFigure | None = None
