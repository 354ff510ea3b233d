"""``cm doctor script``."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from cmbench.doctor import INFO, LOOK, STOP, Finding, Machine, examine
from cmbench.errors import Error, did_you_mean
from cmbench.session.session import Answer, Session

WIDTH = 80
_FLAGS = ("json", "out")


def doctor_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm doctor script``: look at the machine; changes nothing, asks for no privilege.

    Returns 1 when something is found that keeps everything from running.
    """
    session = Session(cmind, i, write=False)
    for name in session.flags:
        if name not in _FLAGS:
            hint = did_you_mean(name, _FLAGS) or "it takes --json"
            raise Error("unknown-flag", f"the doctor knows no flag --{name}", hint=hint)
    found = examine(Machine(session.root))
    if i.get("out") == "con":
        data = [asdict(finding) for finding in found]
        print(json.dumps(data, indent=1) if session.flags.get("json") else doctor_text(found))
    stops = [finding.text for finding in found if finding.state == STOP]
    answer: Answer = {"return": 0, "findings": [asdict(finding) for finding in found]}
    if stops:
        answer.update({"return": 1, "error": "; ".join(stops)})
    return answer


def doctor_text(found: Sequence[Finding]) -> str:
    """The findings, one a line, each with its remedy, and how many there are of each kind."""
    lines = [line for finding in found for line in _lines(finding)]
    counts = [
        (sum(f.state == STOP for f in found), "to mend before anything runs"),
        (sum(f.state == LOOK for f in found), "to look at"),
    ]
    words = [f"{number} {text}" for number, text in counts if number]
    return "\n".join([*lines, "", ", ".join(words) or "nothing is in the way"])


def _lines(finding: Finding) -> Iterator[str]:
    state = "" if finding.state == INFO else finding.state
    head = f"{state:<6}{finding.area:<11} "
    yield from textwrap.wrap(
        finding.text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    if finding.remedy:
        lead = " " * len(head) + "next: "
        whole = lead + finding.remedy
        # A command stays on one line: it is there to be copied.
        yield whole
