"""Turn the env keys of the CM format into the harness's settings, and its results back."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from typing import Any

from cmbench.errors import Error

SCENARIOS = {
    "": ("SingleStream", "MultiStream", "Server", "Offline"),
    "edge": ("SingleStream", "MultiStream", "Offline"),
    "datacenter": ("Server", "Offline"),
}
MODES = {
    "performance": ("performance",),
    "accuracy": ("accuracy",),
    "all": ("performance", "accuracy"),
}
YES = ("yes", "true", "on", "1")

# Each override of the harness: where its value comes from, most special key first, and its type.
OVERRIDES: Mapping[str, tuple[tuple[str, ...], Callable[[str], float]]] = {
    "offline_target_qps": (
        ("CM_MLPERF_LOADGEN_OFFLINE_TARGET_QPS", "CM_MLPERF_LOADGEN_TARGET_QPS"),
        float,
    ),
    "server_target_qps": (
        ("CM_MLPERF_LOADGEN_SERVER_TARGET_QPS", "CM_MLPERF_LOADGEN_TARGET_QPS"),
        float,
    ),
    "singlestream_target_latency": (
        ("CM_MLPERF_LOADGEN_SINGLESTREAM_TARGET_LATENCY", "CM_MLPERF_LOADGEN_TARGET_LATENCY"),
        float,
    ),
    "multistream_target_latency": (
        ("CM_MLPERF_LOADGEN_MULTISTREAM_TARGET_LATENCY", "CM_MLPERF_LOADGEN_TARGET_LATENCY"),
        float,
    ),
    "min_duration": (("CM_MLPERF_INFERENCE_MIN_DURATION",), int),
    "min_query_count": (("CM_MLPERF_INFERENCE_MIN_QUERY_COUNT",), int),
    "max_query_count": (("CM_MLPERF_INFERENCE_MAX_QUERY_COUNT",), int),
    "performance_sample_count": (("CM_MLPERF_LOADGEN_PERFORMANCE_SAMPLE_COUNT",), int),
    "batch_size": (("CM_MLPERF_LOADGEN_MAX_BATCHSIZE",), int),
    "threads": (("CM_NUM_THREADS",), int),
    "num_workers": (("CM_MLPERF_INFERENCE_NUM_WORKERS",), int),
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the settings of the session that run.sh starts."""
    env = i["env"]
    folder = env["CM_TMP_RUN_DIR"]
    path = os.path.join(folder, "session.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(session(env, folder), file, indent=2)
    env["CM_MLPERF_HARNESS_CONFIG"] = path
    return {"return": 0}


def session(env: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The settings that ``env`` asks for; its answer goes into the step's ``folder``."""
    # A run of its own never replaces the results of an earlier one.
    run = os.path.basename(os.path.dirname(folder))
    home = os.path.join(os.path.expanduser("~"), "mlperf-inference-results", run)
    return {
        "benchmark": env["CM_MLPERF_MODEL"],
        "form": env.get("CM_MLPERF_FORM", ""),
        "backend": env["CM_MLPERF_BACKEND"],
        "device": env["CM_MLPERF_DEVICE"],
        "precision": env["CM_MLPERF_MODEL_PRECISION"],
        "model": model(env),
        "dataset": env["CM_DATASET_PREPROCESSED_PATH"],
        "results_dir": os.path.abspath(env.get("OUTPUT_BASE_DIR") or home),
        "hw_name": env.get("CM_HW_NAME") or platform.node(),
        "round": env["CM_MLPERF_INFERENCE_VERSION"],
        "scenarios": scenarios(env),
        "modes": _one_of(MODES, env["CM_MLPERF_LOADGEN_MODE"], "mode"),
        "style": env["CM_MLPERF_RUN_STYLE"],
        "division": env["CM_MLPERF_SUBMISSION_DIVISION"],
        "reuse": str(env.get("CM_RERUN") or "yes").lower() not in YES,
        "answer": os.path.join(folder, "results.json"),
        "overrides": overrides(env),
    }


def scenarios(env: Mapping[str, Any]) -> tuple[str, ...]:
    """The one scenario that is asked for, or all that the category (or anybody) measures."""
    if str(env.get("CM_MLPERF_LOADGEN_ALL_SCENARIOS", "")).lower() not in YES:
        return (env.get("CM_MLPERF_LOADGEN_SCENARIO") or "Offline",)
    return _one_of(SCENARIOS, env.get("CM_MLPERF_SUBMISSION_SYSTEM_TYPE") or "", "category")


def _one_of(choices: Mapping[str, tuple[str, ...]], value: str, name: str) -> tuple[str, ...]:
    if value not in choices:
        known = ", ".join(choice for choice in choices if choice)
        raise Error("bad-value", f"--{name}={value} is not known", hint=f"use one of: {known}")
    return choices[value]


def overrides(env: Mapping[str, Any]) -> dict[str, float]:
    """What the user fixed; each must be a number above zero."""
    found = {}
    for name, (keys, number) in OVERRIDES.items():
        key = next((key for key in keys if env.get(key)), None)
        if key is None:
            continue
        try:
            found[name] = number(str(env[key]))
        except ValueError:
            found[name] = 0
        if found[name] <= 0:
            kind = "a whole number" if number is int else "a number"
            raise Error("bad-value", f"--{name}={env[key]}: {kind} above zero is needed")
    return found


def model(env: Mapping[str, Any]) -> dict[str, Any]:
    """The harness's description of the model, from the facts that lie beside its file."""
    with open(env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"], encoding="utf-8") as file:
        facts = json.load(file)
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy")
    folder = os.path.dirname(env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"])
    return {
        **{key: facts[key] for key in keys},
        "options": facts.get("options", {}),
        "parts": [_part(folder, part) for part in facts.get("parts", [])],
        "path": env["CM_ML_MODEL_FILE_WITH_PATH"],
        "starting_weights": env["CM_ML_MODEL_STARTING_WEIGHTS_FILENAME"],
        "retraining": env["CM_ML_MODEL_RETRAINING"],
        "weight_transformations": env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"],
    }


def _part(folder: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: facts[key] for key in ("name", "sha256", "inputs", "outputs")}
    return {**kept, "path": os.path.join(folder, facts["file"])}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Give the results to whoever asked."""
    env = i["env"]
    with open(os.path.join(env["CM_TMP_RUN_DIR"], "results.json"), encoding="utf-8") as file:
        results = json.load(file)
    folder = results["folder"]
    i["state"]["cm-mlperf-inference-results"] = results
    env["CM_MLPERF_OUTPUT_DIR"] = folder
    env["CM_MLPERF_INFERENCE_RESULTS_JSON"] = os.path.join(folder, "results.json")
    env["CM_MLPERF_INFERENCE_RESULTS_SUMMARY"] = os.path.join(folder, "summary.txt")
    return {"return": 0}
