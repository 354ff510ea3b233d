"""The layouts of submission trees, by round.

Source: the submission rules of every round and the file paths in the official checker's settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mlperf.catalog import CatalogError, Division, rounds

from .errors import SubmissionError

DIVISIONS = tuple(division.value for division in Division)
RESULTS = "results"
SYSTEMS = "systems"
MAPPING = "model_mapping.json"
CALIBRATION = "calibration.md"
POWER = "performance/power"
RANGING = "performance/ranging"

# Up to this round a copy of LoadGen's own rules lies next to every user.conf.
LAST_WITH_CONF = "4.1"
# From here on everything about a run lies in one folder.
FIRST_JOINED = "6.0"
# From here on results may come from the client of MLPerf Endpoints.
FIRST_BY_CLIENT = "6.1"
# From here on the modular checker can read a tree; its word counts from FIRST_JOINED on.
FIRST_READ = "5.0"
# From here on TEST04 is one run; before it was two, with one verdict.
FIRST_SINGLE = "2.1"
HALVES = ("TEST04-A", "TEST04-B")


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """The folders of a round, all relative to ``<division>/<submitter>``."""

    round: str
    code: str
    measurements: str
    compliance: str
    mlperf_conf: bool

    @property
    def joined(self) -> bool:
        """Whether measurements and compliance tests lie among the results."""
        return self.measurements == RESULTS

    @property
    def modular(self) -> bool:
        """Whether the modular checker can read a tree of the round."""
        return rounds.since(self.round, FIRST_READ)

    def tests(self, required: Iterable[str]) -> tuple[str, ...]:
        """Return the folders of the compliance tests that are ``required``."""
        single = rounds.since(self.round, FIRST_SINGLE)
        folders = ((name,) if single or name != "TEST04" else HALVES for name in required)
        return tuple(name for names in folders for name in names)

    def measurement_file(self, system: str, scenario: str) -> str:
        """The name of the file that describes an implementation."""
        return "measurements.json" if self.joined else f"{system}_cmbench_{scenario}.json"


@dataclass(frozen=True, slots=True)
class ScenarioCell:
    """One scenario of a benchmark on a system, and where its parts are."""

    layout: TreeLayout
    root: Path
    system: str
    benchmark: str
    scenario: str

    def _below(self, top: str) -> Path:
        return self.root / top / self.system / self.benchmark / self.scenario

    @property
    def results(self) -> Path:
        """Folder with ``performance`` and ``accuracy``."""
        return self._below(RESULTS)

    @property
    def by_client(self) -> bool:
        """Whether the client of MLPerf Endpoints has measured it, and not LoadGen (from 6.1 on)."""
        return rounds.since(self.layout.round, FIRST_BY_CLIENT) and (
            (self.results / "config.yaml").is_file()
        )

    @property
    def run(self) -> Path:
        """Folder of the logs of the performance run."""
        return self.results / "performance" / "run_1"

    @property
    def accuracy(self) -> Path:
        """Folder of the logs of the accuracy run."""
        return self.results / "accuracy"

    @property
    def powered(self) -> bool:
        """Whether the performance run was measured with a power meter."""
        return (self.results / POWER).exists()

    @property
    def measurements(self) -> Path:
        """Folder with the description of the implementation, user.conf and README.md."""
        return self._below(self.layout.measurements)

    def compliance(self, test: str) -> Path:
        """Folder of a compliance test."""
        return self._below(self.layout.compliance) / test


def of_round(benchmark_round: str) -> TreeLayout:
    """The layout of a round such as ``6.1``; raises SubmissionError for one that is not known."""
    try:
        name = rounds.parse(benchmark_round)
    except CatalogError as error:
        last = ", ".join(rounds.ROUNDS[-6:])
        raise SubmissionError(
            f"no round {benchmark_round} is known", f"use one of: {last}"
        ) from error
    joined = rounds.since(name, FIRST_JOINED)
    return TreeLayout(
        round=name,
        code="src" if joined else "code",
        measurements=RESULTS if joined else "measurements",
        compliance=RESULTS if joined else "compliance",
        mlperf_conf=rounds.since(LAST_WITH_CONF, name),
    )


def cells(root: Path, layout: TreeLayout) -> list[ScenarioCell]:
    """Every scenario that a submitter's folder holds, in a fixed order."""
    results = root / RESULTS
    return [
        ScenarioCell(layout, root, system.name, benchmark.name, scenario.name)
        for system in folders(results)
        for benchmark in folders(system)
        for scenario in folders(benchmark)
    ]


def folders(parent: Path) -> list[Path]:
    """The folders in ``parent``, by name; none when it is no folder."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir())


@dataclass(frozen=True, slots=True)
class SubmissionTree:
    """A submission: its root folder and the round that it is for."""

    root: Path
    layout: TreeLayout

    def submitters(self) -> list[tuple[str, str, Path]]:
        """Division, submitter and folder of everybody in the tree."""
        return [
            (division, folder.name, folder)
            for division in DIVISIONS
            for folder in folders(self.root / division)
        ]

    def relative(self, path: Path) -> str:
        """A path as messages name it."""
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return str(path)
