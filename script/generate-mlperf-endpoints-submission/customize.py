"""Make the tree, and check it by our own reading of the rules."""

from __future__ import annotations

from typing import Any

from cmbench.errors import Error
from mlperf import client_run as runs
from mlperf.endpoints import checks, configs, inputs, plan, tree

PREFIX = "CM_MLPERF_ENDPOINTS_"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the template or the tree; raise Error where the tree would be refused."""
    env = i["env"]
    disclosure = inputs.folder(env, "DISCLOSURE")
    if env.get(f"{PREFIX}ONLY_TEMPLATE") == "yes":
        if disclosure.exists():
            raise Error("bad-value", f"{disclosure} is there already", hint="name another file")
        disclosure.write_text(tree.TEMPLATE, encoding="utf-8")
        print(f"{disclosure}: fill in the lines in <>")
        return {"return": 0}
    said = tree.read_disclosure(disclosure)
    folder = inputs.output_folder(env)
    client_runs = runs.read_runs(folder / configs.RUNS)
    curve = inputs.curve_plan(env, client_runs)
    chosen = {point.name: plan.covering_run(curve, point, client_runs) for point in curve.points}
    counted = {name: run for name, run in chosen.items() if run is not None}
    if not counted:
        print("\n".join(plan.text(curve, client_runs)))
        raise Error("no-results", f"no run in {folder} counts", hint="run the points above first")
    target = inputs.folder(env, "SUBMISSION_DIR", "~/mlperf-endpoints-submission")
    root = tree.build(target, curve, counted, said, [inputs.folder(env, "SOURCES")])
    env[f"{PREFIX}SUBMISSION_DIR"] = str(root)
    print(f"{root}: {len(counted)} of {len(curve.points)} points")
    findings = checks.check(root)
    print("\n".join(checks.text(findings)))
    if checks.refused(findings):
        raise checks.refusal(findings, root)
    return {"return": 0}
