"""Show every field of a system description, its value and where that comes from."""

from __future__ import annotations

from typing import Any

from cmbench.lib import nvidia


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Print the table; the fields go back in the state under CM_SUT_META."""
    from mlperf.submission import inputs, machine, runs, steps, system
    from mlperf.submission.fields import FIELDS

    env = i["env"]
    source = env.get("CM_MLPERF_SUT_DESCRIPTION_FILE") or ""
    options = {"submitter": env["CM_MLPERF_SUBMITTER"]} if env.get("CM_MLPERF_SUBMITTER") else {}
    entries = system.read_file(inputs.folder(source)) if source else {}
    if env.get("CM_MLPERF_INFERENCE_RESULTS_DIR_"):
        folder = inputs.folder(env["CM_MLPERF_INFERENCE_RESULTS_DIR_"])
        run = runs.collect(folder).runs[0]
        known = runs.facts(run, nvidia.kinds)
        described = system.describe(known, options, entries, source)
        rows = {name: (value.text, value.origin) for name, value in described.values.items()}
    else:
        facts = machine.facts(nvidia.kinds())
        facts_of_machine = {name: (text, system.MACHINE) for name, text in facts.items()}
        rows = {field.name: facts_of_machine.get(field.name, ("", system.OPEN)) for field in FIELDS}
        rows |= {name: (text, source) for name, text in entries.items()}
    print("\n".join(steps.table(("field", "value", "from"), [(k, *v) for k, v in rows.items()])))
    i["state"]["CM_SUT_META"] = {name: text for name, (text, _) in rows.items()}
    return {"return": 0}
