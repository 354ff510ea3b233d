"""Whether a tree can be submitted, and if not, why: by its nature or by its faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .checks.base import FAULT, NATURE, Finding
from .checks.benchmarks import FORM


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings of a tree, sorted by what they mean."""

    faults: tuple[Finding, ...]
    nature: tuple[Finding, ...]
    notices: tuple[Finding, ...]

    @property
    def submittable(self) -> bool:
        """Whether nothing stands against handing it in."""
        return not self.faults and not self.nature

    @property
    def too_short(self) -> bool:
        """Whether runs or data sets are too small, which the official checkers refuse as well."""
        return any(each.rule != FORM.id for each in self.nature)

    @property
    def line(self) -> str:
        """The verdict in one sentence."""
        if self.faults:
            count = len(self.faults)
            return f"not submittable: {count} {'rule is' if count == 1 else 'rules are'} broken"
        if self.nature:
            reasons = sorted({finding.found for finding in self.nature})
            return f"flow complete; not submittable because {'; '.join(reasons)}"
        return "submittable by all checks that were made"


def judge(findings: Sequence[Finding]) -> Verdict:
    """Sort findings; what follows from a short or tiny run is no fault of the tree."""
    return Verdict(
        tuple(finding for finding in findings if finding.severity == FAULT),
        tuple(finding for finding in findings if finding.severity == NATURE),
        tuple(finding for finding in findings if finding.severity not in (FAULT, NATURE)),
    )
