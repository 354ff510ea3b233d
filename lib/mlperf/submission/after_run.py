"""The checks of a submission on finished runs, before any tree is made of them.

A folder of runs holds more than a submission, its logs are whole, and there is no description
of the system: only the rules about single runs apply. They are those of the tree, looked at where
the runs lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from mlperf.harness.reporting.results import Results, ScenarioResult

from . import commands, layouts, steps
from .checks import accuracy, benchmarks, compliance, performance, tokens
from .checks.base import ERROR, NATURE, Finding, SubmitterSite
from .layouts import RESULTS, ScenarioCell, SubmissionTree, TreeLayout
from .verdict import TreeVerdict, judge

# The harness reports these itself, with the numbers and the setting that would help.
HARNESS_RULES = {
    performance.UNFINISHED.id,
    performance.INVALID.id,
    performance.ERRORS.id,
    performance.STOPPING.id,
    performance.SEEDS.id,
    tokens.LIMITS.id,
    accuracy.ERRORS.id,
    accuracy.TARGET.id,
    compliance.VERDICT.id,
    compliance.SPEED.id,
}
# In trees of others that were accepted, only warnings; a run just made is made again.
STRICT_RULES = {
    accuracy.MODE.id,
    accuracy.SCENARIO.id,
    accuracy.SEEDS.id,
    accuracy.VERSION.id,
    accuracy.COPIED.id,
}
SEED_RULES = (performance.SEEDS.id, accuracy.SEEDS.id)
NATURE_REASONS = {
    **dict.fromkeys(SEED_RULES, "the seeds of a work unit"),
    performance.DURATION.id: "too short",
    performance.SAMPLES.id: "too few samples",
    accuracy.SAMPLES.id: "too few samples",
    benchmarks.STAND_IN.id: "a stand-in",
}


class ResultsCell(ScenarioCell):
    """A scenario in a folder of results, which holds all its files."""

    __slots__ = ()

    def _below(self, top: str) -> Path:
        return self.root / self.scenario.lower()


class ResultsSite(SubmitterSite):
    """The folder of a benchmark's results in the form in which the checks take a submitter's."""

    def __init__(self, results: Results, scenarios: tuple[str, ...]) -> None:
        folder = Path(results.folder)
        super().__init__(
            SubmissionTree(folder, _layout(results.round)), results.division, "", folder
        )
        self._results = results
        self._scenarios = scenarios

    @cached_property
    def cells(self) -> tuple[ScenarioCell, ...]:
        """Return the scenarios to check."""
        results = self._results
        return tuple(
            ResultsCell(self.layout, self.root, results.sut, results.benchmark, name)
            for name in self._scenarios
        )

    def unknown_files(self, folder: Path, known: tuple[str, ...]) -> list[str]:
        """Return nothing: other files are allowed next to those of the submission."""
        return []

    def is_accuracy_log_too_long(self, folder: Path) -> bool:
        """Return False: logs are cut when a tree is made."""
        return False


def check(results: Results) -> TreeVerdict:
    """Check the runs of ``results`` against the rules; remedies can be typed as they are."""
    names = {result.scenario.lower(): result.scenario for result in results.results}
    judged = {problem.scenario for problem in results.problems}
    findings = []
    for finding in _findings(results):
        scenario = names[finding.where.split("/")[0]]
        if finding.rule in HARNESS_RULES and scenario in judged:
            continue
        # Another form has a target of its own, by which the harness has judged it.
        if finding.rule == accuracy.TARGET.id and results.form:
            continue
        level = ERROR if finding.rule in STRICT_RULES else finding.severity
        if finding.rule in SEED_RULES and results.seed:
            level = NATURE
        mend = commands.complete(finding.mend, results, scenario)
        findings.append(replace(finding, severity=level, mend=mend))
    return judge(findings)


def _findings(results: Results) -> Iterator[Finding]:
    """Yield the findings on the kinds of runs that were made."""
    fast = tuple(
        result.scenario for result in results.results if result.performance_run is not None
    )
    right = tuple(result.scenario for result in results.results if result.accuracy_run is not None)
    yield from performance.runs(ResultsSite(results, fast))
    yield from accuracy.runs(ResultsSite(results, right))
    tested = tuple(result.scenario for result in results.results if result.compliance)
    yield from compliance.tests(ResultsSite(results, tested))
    # The files that describe a scenario come with its performance run.
    yield from benchmarks.descriptions(ResultsSite(results, fast))


def _runs(result: ScenarioResult) -> tuple[object, ...]:
    return (result.performance_run, result.accuracy_run, *result.compliance)


def _layout(benchmark_round: str) -> TreeLayout:
    """Return the layout of the round, with everything in one folder as in the newest rounds."""
    layout = layouts.of_round(benchmark_round)
    return replace(layout, measurements=RESULTS, compliance=RESULTS, mlperf_conf=False)


def lines(verdict: TreeVerdict, results: Results) -> list[str]:
    """Return one line where no rule is broken, else a line for every broken rule.

    The list is empty where nothing was run, or where the harness has reported the faults.
    """
    if verdict.faults:
        where = steps.wrapped(f"checks of {results.folder}:", "", "  ")
        return ["", *where, *steps.verdict_lines(TreeVerdict(verdict.faults))]
    made = any(run for result in results.results for run in _runs(result))
    if results.problems or not made:
        return []
    reasons = _reasons(verdict, results)
    if ResultsSite(results, ()).rules(results.benchmark) is None:
        # No rule of a round is about such a benchmark.
        why = ["a benchmark of your own", *reasons]
        return [f"measured; not a submission: {', '.join(why)}"]
    if verdict.nature or reasons:
        return [f"checks passed; not submittable: {', '.join(reasons)}"]
    return [_passed(results)]


def _passed(results: Results) -> str:
    """Return that no rule is broken, with the kinds of runs that a submission lacks."""
    sides = {
        "accuracy": all(result.accuracy_run for result in results.results),
        "performance": all(result.performance_run for result in results.results),
    }
    missing = [name for name, made in sides.items() if not made]
    if missing:
        return f"checks of these runs passed; a submission needs {missing[0]} runs as well"
    return "checks passed: no rule of a submission is broken"


def _reasons(verdict: TreeVerdict, results: Results) -> list[str]:
    """Return why the runs cannot be submitted, without repetitions."""
    broken = {finding.rule for finding in verdict.nature}
    reasons = [reason for rule, reason in NATURE_REASONS.items() if rule in broken]
    reasons += ["too short"] if results.style != "valid" else []
    # Accuracy runs alone have none of the files that say so.
    reasons += [NATURE_REASONS[benchmarks.STAND_IN.id]] if results.stand_in else []
    return list(dict.fromkeys([*reasons, *([f"{results.form} form"] if results.form else [])]))
