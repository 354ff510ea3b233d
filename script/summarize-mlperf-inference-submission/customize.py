"""Write the report of a tree; the tree itself is not changed."""

from __future__ import annotations

from typing import Any


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Say what was written and what the results are."""
    from mlperf.submission import inputs, steps

    env = i["env"]
    answer = steps.summarize(
        inputs.tree(env),
        env.get("CM_MLPERF_SUBMISSION_CHECKER_VERSION") or "",
        inputs.optional(env, "CM_MLPERF_SUBMISSION_COMPARE_DIR"),
        inputs.optional(env, "CM_MLPERF_INFERENCE_SUBMISSION_REPORT_DIR"),
    )
    print("\n".join(answer.lines))
    env["CM_MLPERF_INFERENCE_SUBMISSION_REPORT_DIR"] = answer.data["report"]
    i["state"]["cm-mlperf-inference-submission-summary"] = dict(answer.data)
    return {"return": 0}
