"""Show every field of a system description, its value and where that comes from."""

from __future__ import annotations

from typing import Any

from cmbench.lib import nvidia


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Print the table; the fields go back in the state under CM_SUT_META."""
    from mlperf.submission import inputs, machine, runs, steps, system
    from mlperf.submission.fields import FIELDS

    env = i["env"]
    told_by = env.get("CM_MLPERF_SUT_DESCRIPTION_FILE") or ""
    given = {"submitter": env["CM_MLPERF_SUBMITTER"]} if env.get("CM_MLPERF_SUBMITTER") else {}
    told = system.read_file(inputs.folder(told_by)) if told_by else {}
    if env.get("CM_MLPERF_INFERENCE_RESULTS_DIR_"):
        folder = inputs.folder(env["CM_MLPERF_INFERENCE_RESULTS_DIR_"])
        run = runs.collect(folder).runs[0]
        known = runs.facts(run, nvidia.kinds)
        described = system.describe(known, given, told, told_by)
        found = {name: (value.text, value.origin) for name, value in described.values.items()}
    else:
        facts = machine.facts(nvidia.kinds())
        here = {name: (text, system.MACHINE) for name, text in facts.items()}
        found = {field.name: here.get(field.name, ("", system.OPEN)) for field in FIELDS}
        found |= {name: (text, told_by) for name, text in told.items()}
    print("\n".join(steps.table(("field", "value", "from"), [(k, *v) for k, v in found.items()])))
    i["state"]["CM_SUT_META"] = {name: text for name, (text, _) in found.items()}
    return {"return": 0}
