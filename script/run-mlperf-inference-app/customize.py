"""Refuse early what does not exist yet; at the end show the table and judge it."""

from __future__ import annotations

import importlib.util
import os
from types import ModuleType
from typing import Any

from cmbench.errors import Error

# Forms that not every benchmark has; all have the tiny one.
FORMS = {
    "full": (
        "bert-99",
        "bert-99.9",
        "retinanet",
        "ssd-mobilenet",
        "ssd-resnet34",
        "3d-unet-99",
        "3d-unet-99.9",
    ),
    "synthetic": ("resnet50", "bert-99", "bert-99.9"),
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Refuse what cannot be before anything is installed."""
    env = i["env"]
    if env.get("CM_MLPERF_LOADGEN_ALL_SCENARIOS") and env.get("CM_MLPERF_LOADGEN_SCENARIO"):
        raise Error(
            "bad-value",
            f"--scenario={env['CM_MLPERF_LOADGEN_SCENARIO']} and the variation _all-scenarios "
            "contradict each other",
            hint="leave out one of the two",
        )
    app = application()
    app.scenarios(env)
    app.modes(env)
    app.check_precision(env)
    env["CM_MLPERF_COMMAND"] = app.mine(i)
    _check_form(env["CM_MLPERF_MODEL"], env.get("CM_MLPERF_FORM") or "full")
    return {"return": 0}


def _check_form(model: str, form: str) -> None:
    """Refuse a form that the benchmark does not have."""
    if model in FORMS.get(form, ()) or form == "tiny":
        return
    what = "with synthetic weights is" if form == "synthetic" else "benchmark is"
    raise Error(
        "not-available",
        f"the full {model} {what} not supported yet: its model or its data set comes with a "
        "later version",
        hint="add the variation _tiny, which runs everything on a small model and small data: "
        f"cm run script --tags=run-mlperf,inference,_tiny,_all-scenarios --model={model}",
    )


def application() -> ModuleType:
    """The code of the script that does the work, which knows what can be asked for."""
    scripts = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.path.join(scripts, "app-mlperf-inference", "customize.py")
    spec = importlib.util.spec_from_file_location("app_mlperf_inference_customize", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Print the table; raises Error when a rule is broken, after the results are shown."""
    with open(i["env"]["CM_MLPERF_INFERENCE_RESULTS_SUMMARY"], encoding="utf-8") as file:
        print(file.read(), end="")
    results = i["state"]["cm-mlperf-inference-results"]
    problems = results["problems"]
    # Writing about results that are there already succeeds whatever they are worth.
    if problems and results["modes"] != ["readme"]:
        raise refused(problems, results["folder"])
    return {"return": 0}


def refused(problems: list[dict[str, Any]], folder: str) -> Error:
    """The error for results that are not accepted: each broken rule, and what to do about it."""
    first = problems[0]
    count = len({(problem["scenario"], problem["mode"]) for problem in problems})
    runs = "one run is" if count == 1 else f"{count} runs are"
    return Error(
        "result-not-accepted",
        f"{runs} not accepted: {first['scenario']} {first['mode']}, rule: {first['fault']['rule']}",
        context=[
            *(
                f"{problem['scenario']} {problem['mode']}: {problem['fault']['text']}"
                for problem in problems
            ),
            f"all results were kept in {folder}",
        ],
        hint=first["fault"]["advice"],
    )
