"""What the doctor has found, for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cmbench.doctor.finding import INFO, LOOK, STOP, Finding
from common.text import wrapped


def doctor_text(findings: Sequence[Finding]) -> str:
    """Return the findings, one a line, with their remedies, and the count by kind."""
    lines = [line for finding in findings for line in _lines(finding)]
    counts = [
        (sum(f.state == STOP for f in findings), "to fix before a run"),
        (sum(f.state == LOOK for f in findings), "to check"),
    ]
    words = [f"{number} {text}" for number, text in counts if number]
    return "\n".join([*lines, "", ", ".join(words) or "nothing to fix"])


def _lines(finding: Finding) -> Iterator[str]:
    state = "" if finding.state == INFO else finding.state
    # The id of a check of a vendor's registry is longer than the name of an area.
    head = f"{state:<6}{finding.id:<17} " if finding.id else f"{state:<6}{finding.area:<11} "
    yield from wrapped(finding.text, head, " " * len(head))
    if finding.remedy:
        lead = " " * len(head) + "next: "
        whole = lead + finding.remedy
        # A command stays on one line: it is there to be copied.
        yield whole
