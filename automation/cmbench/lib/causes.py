"""Known causes of failures: what a program printed, matched to the cause and to what to do next.

The table itself is data, in ``causes.yaml`` in this folder.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache

LOG_LINES = 400
_ENDED = re.compile(r": \w+ in [0-9.]+ s$")


@dataclass(frozen=True, slots=True)
class FailureCause:
    """One known cause; ``seen`` is a line of real output that ``match`` finds."""

    name: str
    match: str
    cause: str
    remedy: str
    seen: str

    def found_in(self, text: str) -> bool:
        """Whether a program that printed ``text`` failed for this cause."""
        return re.search(self.match, text, re.MULTILINE) is not None

    def __str__(self) -> str:
        return f"{self.cause}: {self.remedy}"


@lru_cache(maxsize=1)
def known_causes() -> tuple[FailureCause, ...]:
    """The table, in the order in which it is tried."""
    import yaml

    path = os.path.join(os.path.dirname(__file__), "causes.yaml")
    with open(path, encoding="utf-8") as stream:
        return tuple(FailureCause(**entry) for entry in yaml.safe_load(stream))


def find_cause(text: str) -> FailureCause | None:
    """The first known cause that is found in ``text``."""
    return next((cause for cause in known_causes() if cause.found_in(text)), None)


def remedy(text: str) -> str:
    """The cause found in ``text`` and what to do about it; empty when none is known."""
    cause = find_cause(text)
    return str(cause) if cause else ""


def remedy_in_log(path: str) -> str:
    """The same for the last step in the log at ``path``: the real cause is often further up."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return ""
    step: list[str] = []
    for line in reversed(lines[-LOG_LINES:]):
        if line.startswith("== ") and not _ENDED.search(line):
            break
        step.append(line)
    cause = find_cause("\n".join(reversed(step)))
    return f"{cause.cause} (by an earlier line of its log): {cause.remedy}" if cause else ""
