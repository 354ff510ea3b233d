"""All checks of a submission tree, as one list."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from mlperf.catalog import rounds

from ..errors import SubmissionError
from ..layouts import SubmissionTree
from . import (
    accuracy,
    benchmarks,
    client_runs,
    compliance,
    figures,
    performance,
    power,
    power_session,
    settings,
    structure,
    systems,
    tokens,
)
from .base import ERROR, WARNING, Check, Finding, Rule, SubmitterSite

# The first round whose trees the checks were tried on: 1.1 had no early stopping, other keys in its
# logs and other places for the code.
FIRST_CHECKED = "2.0"
CHECKS: tuple[Check, ...] = (
    structure.files,
    structure.parts,
    systems.descriptions,
    benchmarks.scenarios,
    benchmarks.descriptions,
    performance.runs,
    accuracy.runs,
    client_runs.results,
    compliance.tests,
    power.measurements,
)
MODULES: tuple[ModuleType, ...] = (
    structure,
    systems,
    benchmarks,
    performance,
    figures,
    settings,
    tokens,
    accuracy,
    client_runs,
    compliance,
    power,
    power_session,
)


def rules() -> list[Rule]:
    """Return every rule that is checked, sorted by id."""
    by_id = {
        value.id: value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, Rule)
    }
    return [by_id[name] for name in sorted(by_id)]


def known(benchmark_round: str) -> bool:
    """Whether the rules of a round are known."""
    return rounds.since(benchmark_round, FIRST_CHECKED)


def refuse_unknown(benchmark_round: str) -> None:
    """Raise SubmissionError for a round whose rules are not known."""
    if not known(benchmark_round):
        raise SubmissionError(
            f"the rules of v{benchmark_round} are not known: checks begin with v{FIRST_CHECKED}",
            "give --round=ROUND if the results are of another round; those of a tree are shown by: "
            "`cm run script --tags=summarize,mlperf,inference,submission --submission_dir=TREE`",
        )


def check(tree: SubmissionTree, submitter: str = "") -> list[Finding]:
    """Return all findings for a tree, or for the submission of one submitter.

    Raises SubmissionError for a round whose rules are not known.
    """
    refuse_unknown(tree.layout.round)
    findings = list(structure.top(tree))
    everybody = [
        SubmitterSite(tree, division, name, root) for division, name, root in tree.submitters()
    ]
    sites = [site for site in everybody if submitter in ("", site.submitter)]
    for site in sites:
        for check_site in CHECKS:
            findings += check_site(site)
    findings += accuracy.across(sites)
    by_id = {rule.id: rule for rule in rules()}
    return [_in_round(finding, by_id.get(finding.rule), tree.layout.round) for finding in findings]


def _in_round(finding: Finding, rule: Rule | None, benchmark_round: str) -> Finding:
    """Return a finding with its severity in a round."""
    counts = rule is None or rule.counts_in(benchmark_round)
    return finding if counts or finding.severity != ERROR else replace(finding, severity=WARNING)
