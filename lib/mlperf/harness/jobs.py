"""The requests to the processes of a session, and their reports."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from .records import WHEN_GIVEN
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
class SourceEnergy:
    """What one processor or GPU used: joules, and mean and highest power in watts."""

    joules: float
    mean_w: float
    peak_w: float | None = None


@dataclass(frozen=True, slots=True)
class RunEnergy:
    """The energy from the first query to the last answer of a run, by source.

    ``per_sample_j`` is all of it over the samples; sources that cannot be read are not in it.
    """

    sources: dict[str, SourceEnergy]
    seconds: float
    samples: int
    per_sample_j: float
    mean_w: float

    def in_words(self) -> str:
        """Return energy per sample, and the power of all sources."""
        parts = [
            f"{name} {source.mean_w:.0f} W"
            + (f" (at most {source.peak_w:.0f})" if source.peak_w is not None else "")
            for name, source in self.sources.items()
        ]
        return f"{self.per_sample_j:.3g} J a sample, {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Where the time of a run's workers went, in seconds of all of them together.

    ``began_s`` and ``ended_s`` are the times (``time.monotonic``) of the first query and the last
    answer. ``worked_s`` was spent on batches, ``called_s`` of that in the backend's calls. Of a GPU
    it is known too how long it copied and computed, and how many calls were timed for that. The
    session adds the ``energy`` from the first query to the last answer. ``samples`` has those of
    several accelerators by their names.
    """

    workers: int
    began_s: float
    ended_s: float
    worked_s: float
    called_s: float
    device: DeviceTime | None = None
    energy: RunEnergy | None = None
    samples: dict[str, int] = field(default_factory=dict, metadata=WHEN_GIVEN)

    @property
    def span_s(self) -> float:
        """Return the seconds from the first query to the last answer."""
        return self.ended_s - self.began_s


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Seconds of timed calls: in all, and those in which the device copied and computed."""

    called_s: float
    copied_s: float
    computed_s: float
    calls: int


@dataclass(frozen=True, slots=True)
class LoadGenOutcome:
    """The outcome of a run besides LoadGen's logs; ``failure`` is empty without an error.

    ``seconds`` is the wall time from LoadGen's start to its end, loading of samples included.
    ``late`` is that of a Server run. ``computed_by`` is the backend's, see
    ``backends.base.Backend``. ``spent`` is not known of nodes on other machines.
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
    spent: TimeSpent | None = None


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

    ``library_bytes`` and ``device_facts`` are the backend's, see ``backends.base.Backend``;
    ``weight_bytes`` too, and ``work_bytes``, what one sample takes that is worked on.
    """

    versions: dict[str, str]
    qsl_seed: int
    sample_count: int
    library_bytes: int
    device_facts: dict[str, str] = field(default_factory=dict)
    work_bytes: int = 0
    weight_bytes: int = 0
