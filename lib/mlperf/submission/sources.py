"""Where the parts of a tree come from: the folders and documents of one scenario's runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlperf.harness.reporting.results import Results

from .system import FieldValue

TEST = re.compile(r"TEST\d\d(?:-[AB])?")
USER_CONF, README, MEASUREMENTS = "user.conf", "README.md", "measurements.json"
# A file, or the text that replaces a missing one.
Document = Path | str


@dataclass(frozen=True, slots=True)
class ScenarioSources:
    """One scenario: folders of logs, which need not exist, and their documents.

    ``home`` holds the files of a power measurement.
    """

    home: Path
    performance: Path
    accuracy: Path
    tests: Mapping[str, Path]
    documents: Mapping[str, Document]

    @classmethod
    def of_harness(cls, folder: Path) -> ScenarioSources:
        """Return the sources of a scenario that our own harness has written."""
        # A copy of a test's folder, such as TEST01.bak, is no test.
        paths = (path for path in folder.glob("TEST*") if TEST.fullmatch(path.name))
        tests = sorted(path for path in paths if path.is_dir())
        return cls(
            folder,
            folder / "performance" / "run_1",
            folder / "accuracy",
            {path.name: path for path in tests},
            {name: folder / name for name in (USER_CONF, README, MEASUREMENTS)},
        )

    def text(self, name: str) -> str | None:
        """Return a document, or None where there is none."""
        document = self.documents.get(name)
        if isinstance(document, Path):
            return document.read_text("utf-8", "replace") if document.is_file() else None
        return document


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One benchmark on one system: its facts, and the sources of its scenarios.

    ``facts`` are fields of the system's description; ``results`` are there for runs of our own
    harness, which knows more, and ``code`` is the code in the tree: a folder or a text.
    """

    sut: str
    benchmark: str
    round: str
    division: str
    category: str
    device: str
    scenarios: Mapping[str, ScenarioSources]
    code: Document
    calibration: str
    facts: Mapping[str, FieldValue] = field(default_factory=dict)
    mapping: Mapping[str, str] = field(default_factory=dict)
    results: Results | None = None


@dataclass(frozen=True, slots=True)
class CollectedRuns:
    """The runs in a folder of results, and notes on what was left out."""

    runs: tuple[BenchmarkRun, ...] = ()
    notes: tuple[str, ...] = ()

    def joined(self, other: CollectedRuns) -> CollectedRuns:
        """Return the union of both."""
        return CollectedRuns(self.runs + other.runs, self.notes + other.notes)


def as_object(text: str | None) -> dict[str, object] | None:
    """Return a JSON object, or None where the text is none."""
    try:
        document = json.loads(text or "")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
