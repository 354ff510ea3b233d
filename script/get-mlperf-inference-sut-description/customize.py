"""Show every field of a system description, its value and where that comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import siblings

siblings.importable(__file__, "generate-mlperf-inference-submission", "app-mlperf-inference")


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Print the table; the fields go back in the state under CM_SUT_META."""
    from mlperf_submission import machine, runs, steps, system
    from mlperf_submission.errors import SubmissionError
    from mlperf_submission.fields import FIELDS

    env = i["env"]
    told_by = env.get("CM_MLPERF_SUT_DESCRIPTION_FILE") or ""
    given = {"submitter": env["CM_MLPERF_SUBMITTER"]} if env.get("CM_MLPERF_SUBMITTER") else {}
    try:
        told = system.read_file(Path(told_by).expanduser()) if told_by else {}
        if env.get("CM_MLPERF_INFERENCE_RESULTS_DIR_"):
            folder = Path(env["CM_MLPERF_INFERENCE_RESULTS_DIR_"]).expanduser().absolute()
            run = runs.collect(folder).runs[0]
            described = system.describe(run.results, given, told, told_by)
            found = {name: (value.text, value.origin) for name, value in described.values.items()}
        else:
            here = {name: (text, system.MACHINE) for name, text in machine.facts(True).items()}
            found = {field.name: here.get(field.name, ("", system.OPEN)) for field in FIELDS}
            found |= {name: (text, told_by) for name, text in told.items()}
    except SubmissionError as error:
        raise Error(error.kind, str(error), hint=error.hint) from error
    print("\n".join(steps.table(("field", "value", "from"), [(k, *v) for k, v in found.items()])))
    i["state"]["CM_SUT_META"] = {name: text for name, (text, _) in found.items()}
    return {"return": 0}
