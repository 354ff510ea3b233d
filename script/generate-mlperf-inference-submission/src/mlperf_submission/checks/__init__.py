"""All checks of a submission tree, as one list."""

from __future__ import annotations

from types import ModuleType

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
from .base import Check, Finding, Rule, Site

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
    return [*found, *accuracy.across(sites)]
