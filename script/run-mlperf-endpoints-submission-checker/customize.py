"""Run both checkers on a tree and show what they say, ours first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cmbench.errors import Error
from cmbench.lib.yes_no import is_yes
from mlperf.endpoints import checks, inputs, official
from mlperf.endpoints.submitted_curves import is_submission, submission_root


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Judge the tree; raise Error where one of the checkers refuses it."""
    env = i["env"]
    root = inputs.folder(env, "SUBMISSION_DIR", "~/mlperf-endpoints-submission")
    if not is_submission(root):
        raise Error(
            "no-results",
            f"{root} has no results/SYSTEM/MODEL/rN/point.yaml",
            hint="name ORGANIZATION/SUBMISSION, which generate,mlperf,endpoints-submission wrote",
        )
    findings = checks.check(root, inputs.seed_sets(env))
    print("\n".join(checks.text(findings)))
    data: dict[str, Any] = {"findings": [asdict(finding) for finding in findings]}
    i["state"]["cm-mlperf-endpoints-checks"] = data
    if is_yes(env.get("CM_MLPERF_OFFICIAL_CHECKER")):
        verdict = official.check(env["CM_PYTHON_BIN_WITH_PATH"], submission_root(root))
        data["official"] = asdict(verdict)
        print("\n".join(_said(verdict)))
        if not verdict.passed:
            rule, message = verdict.errors[0]
            raise Error(
                "not-submittable",
                f"the official checker refuses the tree: {rule}: {message}",
                hint="mend what it names, and run this again",
            )
    if checks.refused(findings):
        raise checks.refusal(findings, root)
    return {"return": 0}


def _said(verdict: official.OfficialVerdict) -> list[str]:
    """Return the words of the official checker, with every kind of warning once."""
    lines = [f"  error    {rule}: {message}" for rule, message in verdict.errors]
    seen: dict[str, list[str]] = {}
    for rule, message in verdict.warnings:
        seen.setdefault(rule, []).append(message)
    for rule, messages in seen.items():
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        lines.append(f"  warning  {rule}: {messages[0]}{more}")
    return [f"endpoints-submission-cli {official.VERSION}:", *lines, f"  {verdict.last_line}"]
