"""Run all checkers on a tree and show what they say, ours first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from common.problems import Hint


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Judge the tree; raises Error when rules are broken or an official checker refuses it."""
    from mlperf.submission import inputs, pack, steps

    env = i["env"]
    tree = inputs.tree(env)
    benchmark_round = env.get("CM_MLPERF_SUBMISSION_CHECKER_VERSION") or steps.round_of(tree)
    answer = steps.check(
        tree,
        benchmark_round,
        env.get("CM_MLPERF_SUBMITTER") or "",
        official(env, tree, benchmark_round.lower().lstrip("vr")),
        inputs.optional(env, "CM_MLPERF_SUBMISSION_COMPARE_DIR"),
        inputs.is_set(env, "CM_MLPERF_SUBMISSION_EXPLAIN"),
        env.get("CM_MLPERF_SUBMISSION_MAKE_TARGET") or "",
    )
    print("\n".join(answer.lines))
    i["state"]["cm-mlperf-inference-submission-checks"] = dict(answer.data)
    _judge(env, answer)
    target = inputs.optional(env, "CM_TAR_OUTFILE")
    if target is not None:
        print(f"packed: {target} ({len(pack.pack(tree, target))} files)")
    return {"return": 0}


def official(env: Mapping[str, Any], tree: Path, benchmark_round: str) -> list[Any]:
    """What the official checkers say; nothing when they are turned off."""
    from mlperf.submission import inputs, steps
    from mlperf.submission import official as checkers

    if not inputs.is_set(env, "CM_MLPERF_OFFICIAL_CHECKER") or not tree.is_dir():
        return []
    more = shlex.split(env.get("CM_MLPERF_SUBMISSION_CHECKER_EXTRA_ARGS") or "")
    hiding = [word for word in more if word.startswith(("--skip", "--scenarios-to-skip"))]
    if hiding:
        print(f"the official checker is asked to leave out rules: {' '.join(hiding)}")
    report = steps.report_folder(tree)
    report.mkdir(parents=True, exist_ok=True)
    outcomes: list[Any] = checkers.run(
        env["CM_PYTHON_BIN_WITH_PATH"],
        Path(env["CM_MLPERF_INFERENCE_SOURCE"]),
        tree,
        benchmark_round,
        report,
        env.get("CM_MLPERF_SUBMITTER") or "",
        more,
    )
    return outcomes


def _judge(env: Mapping[str, Any], answer: Any) -> None:
    """Raise the error that follows from the verdicts."""
    from mlperf.submission import inputs

    if inputs.is_set(env, "CM_MLPERF_SUBMISSION_EXPECT_REFUSAL"):
        return
    outcomes = answer.data.get("official", ())
    refusing = [outcome for outcome in outcomes if outcome["counts"] and not outcome["accepted"]]
    if answer.verdict.faults:
        first = answer.verdict.faults[0]
        raise Error(
            "not-submittable",
            f"{answer.verdict.line}; first: {first.rule}: {first.found}",
            hint=f"{Hint(first.mend).marked}; all of them: {answer.data['report']}/report.html",
        )
    if refusing:
        names = ", ".join(outcome["checker"] for outcome in refusing)
        raise Error(
            "not-submittable",
            f"the official checker refuses the tree ({names}); {answer.verdict.line}",
            hint=f"its words are in {answer.data['report']}/{refusing[0]['checker']}.txt",
        )
