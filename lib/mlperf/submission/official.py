"""Running the official submission checker, unpatched, and reading its output.

It comes from a checkout of mlcommons/inference. Where the round is known to it, the modular
checker and the older single file both run; they differ in what they catch.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common import python_path

from . import layouts
from .errors import SubmissionError

MODULE, SINGLE = "submission_checker", "submission_checker_old.py"
OF_TAGS = ("submission_checker.py", "submission-checker.py")
"""The single file at the tags of earlier rounds; up to 2.1 it is the second."""
LONGEST_S = 1800
ERROR = re.compile(r"\bERROR\]?:?\s*(.*)$|\bWARNING\]?:?\s*(.*accuracy not met.*)$")
# Lines that only follow from an error before them.
CONSEQUENCE = re.compile(
    r"^(NoResults|SUMMARY)|Some .*Checks failed for|has issues$|accuracy has issues$"
    r"|, accuracy not valid$|Execution occurred in running check|has loadgen errors, number"
    r"|measurement_dir has issues|ERROR: Not all checks passed|^\[ \] "
    r"|power_checker.py did not pass"
)
# A scenario that is there and was refused is said to be missing too.
NOT_COUNTED = re.compile(r"^(.*) does not have all required scenarios, missing \{(.*)\}")

# What a complaint is about, as the ids of our own rules; the first that fits counts.
MEANINGS: tuple[tuple[str, str], ...] = (
    (r"expected to have the following extra files", "accuracy.outputs"),
    (r"TTFT|TPOT", "performance.token-latency"),
    (r"use_token_latencies", "performance.tokens"),
    (r"accurcy run does not cover|accuracy_sample_count", "accuracy.samples"),
    (r"has submitter|has division", "system.owner"),
    (r"no accuracy directory|no accuracy.txt", "accuracy.files"),
    (r"no performance/run_1|Performance log missing", "performance.files"),
    (r"not be inferred", "performance.scenario"),
    (
        r"[Mm]issing perfo?r?mance file|[Mm]issing accuracy file|[Mm]issing output",
        "compliance.files",
    ),
    (r"verify_\w+\.txt (is )?missing|TEST08 accuracy result file", "compliance.files"),
    (r"output length check|Compliance test .*failed", "compliance.verdict"),
    (r"requires a (meaningful|numeric) response", "system.field-empty"),
    (r"no measurement_dir|\.json is missing|is missing .*\.json", "measurements.files"),
    (r"code_dir", "tree.code"),
    (r"equal issue", "performance.equal-issue"),
    (r"invalid sut name for network", "performance.network"),
    (r"incorrect network mode", "system.network"),
    (r"power_checker|PTD|power samples", "power.samples"),
    (r"nameplate power", "power.nameplate"),
    (r"analyzer_table|power_settings", "power.meter"),
    (r"seed", "performance.seeds"),
    (r"[Mm]inimum samples per query|performance_sample_count|Query Count", "performance.samples"),
    (r"[Dd]uration less than|min_duration", "performance.duration"),
    (r"early stopping", "performance.early-stopping"),
    (r"[Ll]atency constraint", "performance.latency"),
    (r"file list mismatch", "performance.extra-files"),
    (r"TEST0\d accuracy check|accuracy check .*failed|verify_", "compliance.verdict"),
    (r"[Mm]issing TEST0\d|compliance dir", "compliance.missing"),
    (r"hash value", "accuracy.hash"),
    (r"not truncated", "accuracy.truncated"),
    (r"accuracy not (met|valid)|accuracy .*expected|Some accuracy", "accuracy.target"),
    (r"accuracy.*not found|accuracy\.txt", "accuracy.figure"),
    (r"loadgen errors|contains errors|has loadgen errors", "performance.errors"),
    (r"INVALID|is not valid", "performance.invalid"),
    (r"does not have all required scenarios|missing scenario", "benchmark.scenario-missing"),
    (r"unknown scenario|neither required nor optional", "benchmark.scenario-unknown"),
    (r"invalid model|model .*not", "benchmark.unknown"),
    (r"invalid status", "system.status"),
    (r"invalid system type", "system.type"),
    (r"no system_desc|system json", "system.missing"),
    (r"is missing meaningful value|required_field|field .* is missing", "measurements.values"),
    (
        r"is having empty|is missing user.conf|is missing README|measurements json",
        "measurements.files",
    ),
    (r"src directory|code directory", "tree.code"),
    (r"calibration", "tree.calibration"),
    (r"outside division", "tree.root"),
    (r"outside submitter", "tree.division"),
    (r"with no results", "tree.system-without-results"),
    (r"empty directories", "tree.empty-folder"),
    (r"greater than 50 MB", "tree.size"),
    (r"unfriendly name|spaces in their names|__pycache__", "tree.names"),
    (r"symbolic links", "tree.links"),
    (r"[Ff]ile .*is empty|has empty", "performance.files"),
)


@dataclass(frozen=True, slots=True)
class CheckerComplaint:
    """An error line of a checker and the rule of ours that it is about (empty: none fits)."""

    text: str
    rule: str


@dataclass(frozen=True, slots=True)
class CheckerOutcome:
    """What one checker said of a tree."""

    checker: str
    command: tuple[str, ...]
    accepted: bool
    crashed: bool
    complaints: tuple[CheckerComplaint, ...]
    last: str
    counts: bool = True

    @property
    def refuses(self) -> bool:
        """Whether the outcome prevents a submission."""
        return self.counts and not self.accepted

    @property
    def line(self) -> str:
        """One line for people."""
        if self.accepted:
            return f"{self.checker}: accepted ({self.last})"
        if self.crashed and not self.counts:
            return f"{self.checker}: crashed, as it does not know all of the round ({self.last})"
        if self.crashed:
            return f"{self.checker}: crashed, which counts as refused ({self.last})"
        reasons = len({complaint.rule or complaint.text for complaint in self.complaints})
        count = "1 reason" if reasons == 1 else f"{reasons} reasons"
        weight = "" if self.counts else f", which does not count: {MODULE} decides from v6.0 on"
        return f"{self.checker}: refused for {count}{weight}"


def remembered(document: Mapping[str, Any]) -> CheckerOutcome:
    """Return an outcome that was stored as JSON."""
    complaints = tuple(CheckerComplaint(**complaint) for complaint in document["complaints"])
    return CheckerOutcome(
        **{**document, "command": tuple(document["command"]), "complaints": complaints}
    )


def home(source: Path) -> Path:
    """The folder of the checkers in a checkout; raises SubmissionError when it is not there."""
    for folder in (source / "tools" / "submission", source):
        if (folder / MODULE / "main.py").is_file() or (folder / SINGLE).is_file():
            return folder
        if any((folder / name).is_file() for name in OF_TAGS):
            return folder
    raise SubmissionError(
        f"{source} holds no submission checker",
        "give a checkout of mlcommons/inference: --adr.inference-src.path=FOLDER",
    )


def run(
    python: str,
    source: Path,
    tree: Path,
    benchmark_round: str,
    report: Path,
    submitter: str = "",
    more: Sequence[str] = (),
) -> list[CheckerOutcome]:
    """Run every checker of the checkout on ``tree``; their CSV files go to ``report``.

    The single file of the same checkout reads measurements only where rounds from 6.0 on have
    them, whatever its round argument.
    """
    folder = home(source)
    outcomes: list[CheckerOutcome] = []
    if not knows(folder, benchmark_round):
        last = f"it does not know round {benchmark_round}; give --round={benchmark_round}"
        return [
            CheckerOutcome(
                "official checker", (), False, True, (), f"{last}: that of its tag is taken"
            )
        ]
    for name, start in _checkers(folder):
        if name == SINGLE.removesuffix(".py") and not layouts.of_round(benchmark_round).joined:
            continue
        words = [python, *start, "--input", str(tree), "--version", f"v{benchmark_round}"]
        words += ["--csv", str(report / f"{name}.csv")]
        if name == MODULE:
            # Only with this switch does it look at errors in performance logs.
            words.append("--submission-exceptions")
        if submitter:
            words += ["--submitter", submitter]
        outcomes.append(_outcome(name, (*words, *more), folder, report))
    # The single file was left behind where there is the other, which decides from 6.0 on: it
    # crashes on newer benchmarks, and refuses what published trees hold.
    if outcomes and outcomes[0].checker == MODULE and not outcomes[0].crashed:
        outcomes[1:] = [replace(outcome, counts=outcome.accepted) for outcome in outcomes[1:]]
    return outcomes


def knows(folder: Path, benchmark_round: str) -> bool:
    """Whether a checker has settings for a round, or hides which ones it has."""
    places = (folder / name for name in (f"{MODULE}/constants.py", SINGLE, *OF_TAGS))
    contents = [
        path.read_text(encoding="utf-8", errors="replace") for path in places if path.is_file()
    ]
    known = {
        name
        for text in contents
        for name in re.findall(r"^    \"v([\d.]+)\": \{", text, re.MULTILINE)
    }
    return not known or benchmark_round in known


def _checkers(folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    checkers: list[tuple[str, tuple[str, ...]]] = []
    if (folder / MODULE / "main.py").is_file():
        checkers.append((MODULE, ("-m", f"{MODULE}.main")))
    names = (name for name in (SINGLE, *OF_TAGS) if (folder / name).is_file())
    return [*checkers, *((name.removesuffix(".py"), (name,)) for name in names)]


def _outcome(name: str, words: tuple[str, ...], folder: Path, report: Path) -> CheckerOutcome:
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    # Its settings of rounds and paths come with the checkout; ours must not reach it.
    env.pop(python_path.VARIABLE, None)
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=env,
            text=True,
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SubmissionError(
            f"the official checker did not run: {error}", code="checker"
        ) from error
    output = done.stdout + done.stderr
    (report / f"{name}.txt").write_text(output, encoding="utf-8")
    return read(name, words, done.returncode, output)


def read(name: str, words: Sequence[str], status: int, output: str) -> CheckerOutcome:
    """Understand the output of a checker."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    crashed = "Traceback (most recent call last)" in output
    matches = filter(None, map(ERROR.search, lines))
    said = dict.fromkeys((match.group(1) or match.group(2) or "").strip() for match in matches)
    accepted = status == 0 and not crashed
    complaints = tuple(
        CheckerComplaint(text, meaning(text))
        for text in causes([text for text in said if text])
        if not (accepted and "accuracy not met" in text)
    )
    last = re.sub(r"^.*(ERROR|INFO)\]?:?\s*", "", lines[-1]) if lines else "no output"
    return CheckerOutcome(name, tuple(words), accepted, crashed, complaints, last)


def causes(texts: Sequence[str]) -> list[str]:
    """Return the error lines that have a cause; the first of all lines where none has."""
    telling = [text for text in texts if not CONSEQUENCE.search(text)]
    new_causes = [text for text in telling if not _is_consequence(text, telling)]
    rest = [text for text in texts if not text.startswith(("NoResults", "SUMMARY"))]
    return new_causes or telling or rest[:1]


def _is_consequence(text: str, others: Sequence[str]) -> bool:
    """Whether a line only misses scenarios in which other lines report faults."""
    match = NOT_COUNTED.search(text)
    if match is None:
        return False
    where, names = match.group(1), re.findall(r"\w+", match.group(2))
    return all(
        any(f"{where}/{name}/".lower() in other.lower() for other in others if other != text)
        for name in names
    )


def meaning(text: str) -> str:
    """The rule of ours that an error line is about; empty where none fits."""
    return next((rule for pattern, rule in MEANINGS if re.search(pattern, text)), "")
