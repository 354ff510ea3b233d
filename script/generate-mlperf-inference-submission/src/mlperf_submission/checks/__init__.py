"""All checks of a submission tree, as one list."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from mlperf_catalog import rounds

from ..layouts import Tree
from . import (
    accuracy,
    benchmarks,
    compliance,
    figures,
    performance,
    power,
    settings,
    structure,
    systems,
    tokens,
)
from .base import ERROR, WARNING, Check, Finding, Rule, Site

CHECKS: tuple[Check, ...] = (
    structure.files,
    structure.parts,
    systems.descriptions,
    benchmarks.scenarios,
    benchmarks.descriptions,
    performance.runs,
    accuracy.runs,
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
    compliance,
    power,
)


def rules() -> list[Rule]:
    """Every rule that is checked, by id."""
    found = {
        value.id: value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, Rule)
    }
    return [found[name] for name in sorted(found)]


def check(tree: Tree, submitter: str = "") -> list[Finding]:
    """Everything that is wrong with a tree, or with what one submitter submits."""
    found = list(structure.top(tree))
    everybody = [Site(tree, division, name, root) for division, name, root in tree.submitters()]
    sites = [site for site in everybody if submitter in ("", site.submitter)]
    for site in sites:
        for each in CHECKS:
            found += each(site)
    found += accuracy.across(sites)
    first = {rule.id: rule.first for rule in rules()}
    return [_in_round(each, first.get(each.rule, ""), tree.layout.round) for each in found]


def _in_round(found: Finding, first: str, benchmark_round: str) -> Finding:
    """A finding as it counts in a round, where ``first`` is the first that refuses for it."""
    counts = not first or rounds.since(benchmark_round, first)
    return found if counts or found.severity != ERROR else replace(found, severity=WARNING)
