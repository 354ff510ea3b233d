"""The log of a run that is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from mlperf.catalog import BenchmarkSpec, Limit, Scenario
from mlperf.catalog.scenario import of_log
from mlperf.harness.measuring.detail_log import DetailLog

from ..layouts import ScenarioCell
from .base import SubmitterSite


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A log that is looked at: of which scenario in the tree, by which rules, and where it is."""

    site: SubmitterSite
    cell: ScenarioCell
    known: BenchmarkSpec
    where: str
    log: DetailLog
    test: str = ""

    @property
    def logged_scenario(self) -> str:
        """Return the scenario that the log names."""
        return str(self.log.values.get("effective_scenario", ""))

    @property
    def measured(self) -> Scenario | None:
        """The same, where it is one of LoadGen's."""
        return of_log(self.logged_scenario)

    @property
    def limit(self) -> Limit | None:
        """The latency limits of the scenario; LoadGen calls Interactive a Server run too."""
        wanted = Scenario.of_folder(self.cell.scenario)
        if wanted is not None and wanted.loadgen == self.measured:
            return self.known.limits.get(wanted)
        return self.known.limits.get(self.measured) if self.measured else None

    @property
    def lenient(self) -> bool:
        """Whether this is a test of a round that accepted tests made in another one's way."""
        return bool(self.test) and self.site.allows_empty

    def number(self, key: str) -> float:
        """A number in the log, in the unit that its key names; zero where there is none."""
        return self.log.number(key) or 0.0
