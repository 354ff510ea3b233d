"""Turn the env keys of the CM format into a request for the tree, and show what came of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error
from cmbench.lib import nvidia
from common.problems import Hint

if TYPE_CHECKING:
    from mlperf.submission.fields import SystemField

RESULTS = "~/mlperf-inference-results"
# Fields of the description that have an option of their own.
FIELDS = {
    "system_name": "CM_HW_NAME",
    "status": "CM_MLPERF_SUBMISSION_SYSTEM_STATUS",
}


TEXTS = {
    "submitter": "CM_MLPERF_SUBMITTER",
    "division": "CM_MLPERF_SUBMISSION_DIVISION",
    "category": "CM_MLPERF_SUBMISSION_CATEGORY",
    "round": "CM_MLPERF_SUBMISSION_CHECKER_VERSION",
    "device": "CM_MLPERF_DEVICE",
    "hw_notes_extra": "CM_MLPERF_SUT_HW_NOTES_EXTRA",
    "sw_notes_extra": "CM_MLPERF_SUT_SW_NOTES_EXTRA",
    "make_target": "CM_MLPERF_SUBMISSION_MAKE_TARGET",
}
# Facts that logs of other programs may lack.
HANDED = {
    "system": "CM_MLPERF_SUBMISSION_SYSTEM",
    "benchmark": "CM_MLPERF_SUBMISSION_MODEL",
    "scenario": "CM_MLPERF_SUBMISSION_SCENARIO",
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the tree, show the verdict; raises Error when rules are broken."""
    from mlperf.submission import inputs, pack, steps

    env = i["env"]
    tree = inputs.tree(env)
    ask = None if inputs.is_set(env, "CM_QUIET") or not sys.stdin.isatty() else _ask
    answer = steps.generate(request(env), ask)
    print("\n".join(answer.lines))
    env["CM_MLPERF_INFERENCE_SUBMISSION_DIR"] = str(tree)
    env["CM_MLPERF_INFERENCE_SUBMISSION_REPORT_DIR"] = str(steps.report_folder(tree))
    env["CM_MLPERF_SUBMISSION_CHECKER_VERSION"] = str(answer.data["round"])
    i["state"]["cm-mlperf-inference-submission"] = dict(answer.data)
    if answer.verdict.too_short or answer.verdict.faults:
        # The official checker will report it too, and runs all the same.
        env["CM_MLPERF_SUBMISSION_EXPECT_REFUSAL"] = "yes"
    if answer.verdict.faults:
        if inputs.is_set(env, "CM_RUN_SUBMISSION_CHECKER"):
            return {"return": 0}
        raise refused(answer.data)
    target = inputs.optional(env, "CM_TAR_OUTFILE")
    if target is not None:
        print(f"packed: {target} ({len(pack.pack(tree, target))} files)")
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Show the outcomes of the official checkers, where they ran.

    Raises Error when our own checks have found errors before.
    """
    checked = i["state"].get("cm-mlperf-inference-submission-checks")
    if checked:
        print("\n".join(checked["official_lines"]))
    made = i["state"].get("cm-mlperf-inference-submission") or {}
    if made.get("faults"):
        raise refused(made)
    return {"return": 0}


def request(env: Mapping[str, Any]) -> Any:
    """The request that the env keys make."""
    from mlperf.submission import inputs, intake, steps

    inferred = ("CM_RUN_MLPERF_SUBMISSION_PREPROCESSOR", "CM_MLPERF_DUPLICATE_SCENARIO_RESULTS")
    return steps.TreeRequest(
        results_dir=inputs.folder(env.get("CM_MLPERF_INFERENCE_RESULTS_DIR_") or RESULTS),
        submission_dir=inputs.tree(env),
        clean=inputs.is_set(env, "CM_MLPERF_CLEAN_SUBMISSION_DIR"),
        truncated=not inputs.is_set(env, "CM_SKIP_TRUNCATE_ACCURACY"),
        inferred=any(inputs.is_set(env, key) for key in inferred),
        system_file=inputs.optional(env, "CM_MLPERF_SUT_DESCRIPTION_FILE"),
        compare=inputs.optional(env, "CM_MLPERF_SUBMISSION_COMPARE_DIR"),
        fields={name: env[key] for name, key in FIELDS.items() if env.get(key)},
        gpus=nvidia.kinds,
        handed=intake.RunOverrides(
            measurements=inputs.optional(env, "CM_MLPERF_SUBMISSION_MEASUREMENTS_FILE"),
            code=inputs.optional(env, "CM_MLPERF_SUBMISSION_CODE_DIR"),
            **{name: env.get(key) or "" for name, key in HANDED.items()},
        ),
        **{name: env.get(key) or "" for name, key in TEXTS.items()},
    )


def refused(data: Mapping[str, Any]) -> Error:
    """The error for a tree that breaks rules."""
    first = data["faults"][0]
    return Error(
        "not-submittable",
        f"{data['verdict']}; first: {first['rule']}: {first['found']}",
        hint=f"{Hint(first['mend']).marked}; all of them: {data['report']}/report.html",
    )


def _ask(field: SystemField) -> str:
    """Ask the person at the terminal; nothing typed leaves the field open."""
    hint = f" ({field.hint})" if field.hint else ""
    return input(f"{field.name}{hint}: ")
