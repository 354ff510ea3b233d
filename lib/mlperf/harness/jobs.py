"""The requests to the processes of a session, and their reports."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from .settings import FLOAT32, ModelSpec, Options, Overrides

STALLED = os.EX_TEMPFAIL
"""Exit status of a run in which LoadGen did not come to its end though all was answered."""


@dataclass(frozen=True, slots=True)
class AccuracyFigure:
    """A computed accuracy in the metric's unit, and the line that accuracy.txt must hold.

    ``duplicates`` counts samples that LoadGen issued twice to fill its last query. ``further`` are
    the figures of a task that has several, by metric. ``oracle`` says how many answers equal those
    of the reference implementation, and of how many; None where these are not known.
    """

    value: float
    line: str
    samples: int
    duplicates: int = 0
    further: dict[str, float] = field(default_factory=dict)
    oracle: tuple[int, ...] | None = None


MOMENT_S = 0.05


@dataclass(frozen=True, slots=True)
class LateQueries:
    """When queries were late: how many were, in how many moments ``of`` all.

    A moment is ``MOMENT_S`` long. ``p90_s`` is the 90th percentile of the latencies of all queries.
    """

    queries: int
    moments: int
    of: int
    p90_s: float


@dataclass(frozen=True, slots=True)
class LoadGenOutcome:
    """The outcome of a run besides LoadGen's logs; ``failure`` is empty without an error.

    ``seconds`` is the wall time from LoadGen's start to its end, loading of samples included.
    ``late`` is that of a Server run. ``computed_by`` is the backend's, see
    ``backends.base.Backend``.
    """

    failure: str
    failure_count: int
    seconds: float
    batches: int
    samples: int
    versions: dict[str, str]
    accuracy: AccuracyFigure | None = None
    late: LateQueries | None = None
    computed_by: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogComparison:
    """Which logs are compared: that of the accuracy run, and that of a test with fewer samples."""

    benchmark: str
    dataset: str
    model: ModelSpec
    baseline: str
    test: str


@dataclass(frozen=True, slots=True)
class ComparisonFigures:
    """The figures of both over the samples that the test has logged."""

    baseline: AccuracyFigure
    test: AccuracyFigure


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What to probe or tune: the parts of a session's settings that speed depends on."""

    benchmark: str
    backend: str
    device: str
    model: ModelSpec
    dataset: str
    overrides: Overrides
    precision: str = FLOAT32
    backend_options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probe:
    """What must be known before anything is measured: libraries, LoadGen's seed, samples.

    ``library_bytes`` and ``device_facts`` are the backend's, see ``backends.base.Backend``.
    """

    versions: dict[str, str]
    qsl_seed: int
    sample_count: int
    library_bytes: int
    device_facts: dict[str, str] = field(default_factory=dict)
