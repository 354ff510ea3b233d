"""Whether a tree can be submitted, and if not, why: by its nature or by its faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .checks.base import ERROR, NATURE, NOTE, WARNING, Finding
from .checks.benchmarks import FORM, STAND_IN


@dataclass(frozen=True, slots=True)
class TreeVerdict:
    """The findings of a tree, sorted by what they mean."""

    faults: tuple[Finding, ...]
    nature: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    notices: tuple[Finding, ...] = ()
    unjudged: str = ""
    """The round of a tree whose rules are not known, in which nothing was checked."""

    @property
    def submittable(self) -> bool:
        """Whether nothing prevents a submission."""
        return not (self.faults or self.nature or self.unjudged)

    @property
    def too_short(self) -> bool:
        """Whether runs or data sets are too small, which the official checkers refuse as well."""
        return any(finding.rule not in (FORM.id, STAND_IN.id) for finding in self.nature)

    @property
    def line(self) -> str:
        """Return the verdict in one sentence."""
        if self.unjudged:
            return f"not judged: the rules of v{self.unjudged} are not known"
        if self.faults:
            return f"not submittable: {counted(self.faults)}"
        if self.nature:
            reasons = sorted({finding.found for finding in self.nature})
            return f"flow complete; not submittable because {'; '.join(reasons)}"
        if self.warnings:
            return (
                f"submittable by all checks that were made, with warnings: {counted(self.warnings)}"
            )
        return "submittable by all checks that were made"


def counted(findings: Sequence[Finding]) -> str:
    """Return the number of broken rules and of findings, in words."""
    rules, places = len({finding.rule for finding in findings}), len(findings)
    broken_rules = "1 rule is broken" if rules == 1 else f"{rules} rules are broken"
    return broken_rules if places == 1 else f"{broken_rules} in {places} places"


def judge(findings: Sequence[Finding]) -> TreeVerdict:
    """Sort findings; what follows from a short or tiny run is no fault of the tree."""
    levels = (ERROR, NATURE, WARNING, NOTE)
    faults, nature, warnings, notices = (
        tuple(finding for finding in findings if finding.severity == level) for level in levels
    )
    return TreeVerdict(faults, nature, warnings, notices)
