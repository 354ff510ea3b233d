"""The base of all checks: rules with ids, findings, and the folder of a submitter."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from common.problems import Hint
from mlperf import catalog
from mlperf.catalog import BenchmarkSpec, Division, Scenario, rounds
from mlperf.harness.measuring import detail_log
from mlperf.harness.measuring.detail_log import DetailLog

from .. import names, truncate
from ..layouts import ScenarioCell, SubmissionTree, TreeLayout, cells

# An error must be mended: the round's checker or a rule refuses the tree. What lies in the nature
# of a short or tiny run is none. A warning is against the rules or suspicious, though the like has
# been accepted; a note is for the person who looks before handing in.
ERROR, NATURE, WARNING, NOTE = "error", "nature", "warning", "note"
# In every list of files that the official checkers compare.
TOLERATED = ("mlperf_log_trace.json", "results.json", ".gitkeep")

TREE = "submission_structure.md of mlcommons/inference"
RULES = "MLPerf inference rules"
CHECKER = "official submission checker"
LOADGEN = "LoadGen"


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: the fault, its path, the source of the rule, and the remedy."""

    rule: str
    severity: str
    where: str
    found: str
    source: str
    mend: str

    def __post_init__(self) -> None:
        """Make a ``Hint`` of the remedy, so that its commands are shown as such."""
        object.__setattr__(self, "mend", Hint(self.mend))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its id, its title in a few words, and its source.

    Rounds before ``first`` and after ``last`` accepted what breaks it: there it is a warning.
    """

    id: str
    title: str
    source: str
    severity: str = ERROR
    first: str = rounds.ROUNDS[0]
    last: str = rounds.LATEST

    def broken(self, where: str, fault: str, mend: str) -> Finding:
        """Return the finding that this rule is broken."""
        return Finding(self.id, self.severity, where, fault, self.source, mend)

    def unless(self, is_kept: bool, where: str, fault: str, mend: str) -> Iterator[Finding]:
        """Yield the finding that this rule is broken, unless ``is_kept``."""
        if not is_kept:
            yield self.broken(where, fault, mend)

    def counts_in(self, benchmark_round: str) -> bool:
        """Whether a round refuses what breaks it."""
        return rounds.since(benchmark_round, self.first) and rounds.since(
            self.last, benchmark_round
        )

    def at(self, severity: str, when: bool = True) -> Rule:
        """The same rule, of another severity ``when`` that is so."""
        return replace(self, severity=severity) if when else self


# From this round on the checker requires two more fields and the meter's settings, none empty.
FIRST_FILLED = "3.1"
# Before, results were accepted whose TEST01 compared no answers.
FIRST_COMPARED = "4.0"
# From here on it looks at names, sizes, links and empty folders.
FIRST_TIDY = "3.0"
# The last round that the single-file checker decided, which has rules that the modular one, whose
# word counts from FIRST_JOINED on, does not have.
LAST_SINGLE_FILE = "5.1"
# Names of benchmarks end with the required share of the reference's accuracy.
ACCURACY_SUFFIX = re.compile(r"-(?:95|99|99\.9)$")
LINES = Rule("log.lines", "every line of a detailed log can be read", CHECKER)
LINE = detail_log.PREFIX.strip()
# Of some 6,500 published logs none has one of these twice with other values.
LOGGED_ONCE = ("effective_", "result_", "early_stopping_", "qsl_reported_")


class SubmitterSite:
    """What one submitter submits to one division."""

    def __init__(self, tree: SubmissionTree, division: str, submitter: str, root: Path) -> None:
        self.tree = tree
        self.division = division
        self.submitter = submitter
        self.root = root
        self.layout: TreeLayout = tree.layout

    @property
    def strict(self) -> bool:
        """Whether the closed division's rules hold."""
        return Division(self.division).strict

    @cached_property
    def mapping(self) -> Mapping[str, str]:
        """The submitter's own names of benchmarks."""
        return names.mapping(self.root) if self.division == Division.OPEN else {}

    @cached_property
    def cells(self) -> tuple[ScenarioCell, ...]:
        """All folders of scenarios, one for each system, benchmark and scenario."""
        return tuple(cells(self.root, self.layout))

    @cached_property
    def systems(self) -> Mapping[str, Mapping[str, Any]]:
        """The system descriptions that can be read, by the name of the system."""
        documents = {}
        for path in sorted((self.root / "systems").glob("*.json")):
            document = read_object(path)
            if document is not None:
                documents[path.stem] = document
        return documents

    def category(self, system: str) -> str:
        """What the system's description calls its type."""
        return str(self.systems.get(system, {}).get("system_type", "")).replace(" ", "")

    @cached_property
    def allows_empty(self) -> bool:
        """Whether the round is one whose checker let empty fields and files pass.

        What it complained about in measurements and code, it accepted too.
        """
        return not rounds.since(self.layout.round, FIRST_FILLED)

    def rules(self, benchmark: str) -> BenchmarkSpec | None:
        """Return the rules of the benchmark of a folder, in the round of the tree."""
        name = self.mapping.get(benchmark, benchmark)
        return catalog.find(name, self.layout.round, open_division=not self.strict)

    @cached_property
    def known_cells(self) -> tuple[tuple[ScenarioCell, BenchmarkSpec], ...]:
        """The scenarios of known benchmarks that LoadGen has measured, with their rules."""
        logged = (cell for cell in self.cells if not cell.by_client)
        specs = ((cell, self.rules(cell.benchmark)) for cell in logged)
        return tuple(
            (cell, spec.of(Scenario.of_folder(cell.scenario)))
            for cell, spec in specs
            if spec is not None
        )

    def where(self, path: Path) -> str:
        """A path as findings name it."""
        return self.tree.relative(path)

    def unknown_file_findings(
        self, rule: Rule, folder: Path, known: tuple[str, ...]
    ) -> Iterator[Finding]:
        """Yield findings for unknown files in ``folder``; ``known`` ones are allowed."""
        for name in self.unknown_files(folder, known):
            where = self.where(folder / name)
            yield rule.broken(where, "a file that does not belong here", f"rm {where}")

    def missing_file_findings(
        self, rule: Rule, folder: Path, required: tuple[str, ...], mend: str
    ) -> Iterator[Finding]:
        """Yield findings for ``required`` files that are missing or empty."""
        for name in missing(folder, required):
            yield rule.broken(self.where(folder / name), "missing or empty", mend)

    def unknown_files(self, folder: Path, known: tuple[str, ...]) -> list[str]:
        """Return the files of a folder that are neither ``known`` nor ignored by the checkers."""
        if not folder.is_dir():
            return []
        known = (*known, *TOLERATED)
        return sorted(
            path.name for path in folder.iterdir() if path.is_file() and path.name not in known
        )

    def is_accuracy_log_too_long(self, folder: Path) -> bool:
        """Whether the accuracy log in a folder is longer than it may be."""
        return truncate.needed(folder)


Check = Callable[[SubmitterSite], Iterator[Finding]]


def read_object(path: Path) -> dict[str, Any] | None:
    """Return a JSON object from a file, or None when there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def readable(path: Path) -> bool:
    """Whether a file is text in UTF-8; the checkers end with a traceback where it is not."""
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_detail_log(folder: Path) -> DetailLog:
    """Return LoadGen's detailed log of a folder; an empty one where there is none."""
    return detail_log.read(folder / "mlperf_log_detail.txt")


def unreadable_lines(site: SubmitterSite, path: Path, remedy: str) -> Iterator[Finding]:
    """Yield findings, with ``remedy``, for unreadable lines of the detailed log ``path``."""
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        yield LINES.broken(site.where(path), "it is not UTF-8", remedy)
        return
    if what := detail_log.other_log(path):
        yield LINES.broken(site.where(path), f"it is {what}", remedy)
        return
    # Only the checkers of rounds from 6.0 on end with a traceback at such lines.
    strange = LINES.at(WARNING, not site.tree.layout.joined)
    for rule, faults in ((strange, _faults_of_form(content)), (LINES, _faults_of_records(content))):
        for fault in islice(faults, 1):
            yield rule.broken(site.where(path), fault, remedy)


def _faults_of_form(whole: str) -> Iterator[str]:
    """Yield what LoadGen never writes: another first line, or a record without ``is_error``."""
    if whole and not whole.startswith(LINE):
        yield "line 1 is not a record of LoadGen"
    for at, line in _numbered_records(whole):
        if '"is_error"' not in line:
            yield f"line {at} does not tell whether it is an error"


def _faults_of_records(whole: str) -> Iterator[str]:
    """Yield lines that are no records, and settings and results that are logged twice, differently.

    The checkers take the first of two, what shows a log the last.
    """
    said: dict[str, object] = {}
    for at, line in _numbered_records(whole):
        record = detail_log.record(line)
        if record is None:
            broken = detail_log.broken_record(whole.splitlines(), at - 1)
            why = f"has a line break in the value of {broken[0]}" if broken else ""
            yield f"line {at} {why or 'is not a record of LoadGen'}"
        elif (
            record[0].startswith(LOGGED_ONCE) and said.setdefault(record[0], record[1]) != record[1]
        ):
            yield f"line {at} says {record[0]} again, and not the same"


def _numbered_records(whole: str) -> Iterator[tuple[int, str]]:
    """The lines that the parsers look at, with their numbers."""
    return ((at, line) for at, line in enumerate(whole.splitlines(), 1) if line.startswith(LINE))


def missing(folder: Path, required: tuple[str, ...]) -> list[str]:
    """Return the names of the ``required`` files that are missing or empty."""
    return [
        name
        for name in required
        if not (folder / name).is_file() or not (folder / name).stat().st_size
    ]


def number(value: object) -> float | None:
    """Return a number of a log or a JSON file, in its unit there, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*", str(value))
    parsed = float(match.group(1)) if match else math.inf
    return parsed if math.isfinite(parsed) else None
