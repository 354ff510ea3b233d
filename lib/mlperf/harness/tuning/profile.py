"""How fast a machine is with a model: the records; the measuring itself is in ``tune``."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlperf.catalog import Scenario

from ..records import WHEN_GIVEN
from ..settings import WorkerShape


@dataclass(frozen=True, slots=True)
class ThroughputPoint:
    """Measured throughput of one shape, and the median seconds of one batch in it."""

    shape: WorkerShape
    samples_per_s: float
    batch_s: float


@dataclass(frozen=True, slots=True)
class StreamLatency:
    """Measured time of one stream query on one worker; ``mean_s`` 0 where it was not recorded.

    ``tail_s`` is that of the percentile that the rules look at.
    """

    shape: WorkerShape
    median_s: float
    tail_s: float
    mean_s: float = 0.0

    @property
    def about_s(self) -> float:
        """Return the mean seconds of a query among many."""
        return self.mean_s or self.median_s


@dataclass(frozen=True, slots=True)
class SpeedProfile:
    """The best throughput point, the Server point, and the latency of every stream.

    MultiStream is there where the rules of the benchmark have it, or where there are no rules.
    ``service_times`` maps a batch size (as text, for JSON) to seconds, in the Server's layout.
    ``token_rates`` are the samples/s, by scenario, at which tokens still come within its limits.
    """

    cores: int
    sample_count: int
    offline: ThroughputPoint
    server: ThroughputPoint
    streams: dict[str, StreamLatency]
    server_limit_s: float
    service_times: dict[str, float]
    points: tuple[ThroughputPoint, ...]
    versions: dict[str, str]
    seconds: float
    token_rates: dict[str, float] = field(default_factory=dict, metadata=WHEN_GIVEN)

    def point(self, scenario: Scenario) -> ThroughputPoint:
        """Return the throughput point that a scenario is run with, one of those without streams."""
        return self.offline if scenario.batched else self.server

    def shape(self, scenario: Scenario) -> WorkerShape:
        """How the machine is divided in a scenario."""
        return self.streams[scenario].shape if scenario.stream else self.point(scenario).shape

    def query_s(self, scenario: Scenario) -> float:
        """Seconds of one query, for Offline and Server of one sample."""
        if scenario.stream:
            return self.streams[scenario].about_s
        return 1 / self.point(scenario).samples_per_s

    def warm_up_s(self, scenario: Scenario) -> float:
        """Seconds before a performance run, in which every worker answers a batch in its turn."""
        if scenario.stream:
            return self.streams[scenario].about_s
        point = self.point(scenario)
        return point.shape.workers * point.batch_s
