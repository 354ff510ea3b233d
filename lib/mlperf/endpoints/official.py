"""The official checker of MLPerf Endpoints, ``endpoints-submission-cli``, run as it is."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem

VERSION = "1.5.3.0"
LONGEST_S = 600


@dataclass(frozen=True, slots=True)
class OfficialVerdict:
    """Rule and message of every error and warning, and the last line of its output."""

    errors: tuple[tuple[str, str], ...]
    warnings: tuple[tuple[str, str], ...]
    last_line: str

    @property
    def passed(self) -> bool:
        """Return whether it accepts the tree."""
        return not self.errors


def check(python: str, root: Path) -> OfficialVerdict:
    """Return the verdict on a tree; raise Problem where the checker does not run."""
    command = [python, "-m", "endpoints_submission_cli", "check-submission", "--quiet", str(root)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        try:
            done = subprocess.run(
                [*command, f"--output={report}"],
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
            document = json.loads(report.read_text(encoding="utf-8"))
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            hint = f"see what it says: {' '.join(command)}"
            message = "endpoints-submission-cli gave no report"
            raise Problem("checker", message, hint=hint) from error
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return _verdict(document, lines[-1] if lines else "")


def _verdict(report: Mapping[str, Any], last_line: str) -> OfficialVerdict:
    by_severity: dict[str, list[tuple[str, str]]] = {"error": [], "warning": []}
    for result in report.get("results") or ():
        severity = str(result.get("severity", "")).lower()
        if severity in by_severity:
            by_severity[severity].append((str(result.get("rule")), str(result.get("message"))))
    return OfficialVerdict(tuple(by_severity["error"]), tuple(by_severity["warning"]), last_line)
