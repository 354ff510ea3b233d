"""Turn the env keys of the CM format into the harness's settings, and its results back."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from cmbench.errors import Error
from cmbench.lib import checkouts, ml_models
from cmbench.lib.yes_no import is_yes

CATEGORIES = ("edge", "datacenter")
MODES = {
    "find-performance": ("find-performance",),
    "performance": ("performance",),
    "accuracy": ("accuracy",),
    "all": ("performance", "accuracy"),
    "compliance": ("compliance",),
    "readme": ("readme",),
}

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
HOME = os.path.join("~", "mlperf-inference-results")
ATTEMPTS = 3
# The benchmarks whose model can be quantized here, with data to calibrate it.
QUANTIZED = (
    "resnet50",
    "bert-99",
    "bert-99.9",
    "retinanet",
    "ssd-mobilenet",
    "ssd-resnet34",
    "dlrm-99",
    "dlrm-99.9",
    "dlrm-v2-99",
    "dlrm-v2-99.9",
    "3d-unet-99",
    "3d-unet-99.9",
    "3d-unet-brats-99",
    "3d-unet-brats-99.9",
    "gptj-99",
    "gptj-99.9",
)
WHY_NOT = {
    "rnnt": ": nearly all of its work is in recurrent layers (LSTM), which calibration cannot "
    "turn into int8"
}
STRICT = "-99.9"
STRICT_SHARE = 0.999


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the settings of the session that run.sh starts."""
    env = i["env"]
    check_precision(env)
    folder = env["CM_TMP_RUN_DIR"]
    path = os.path.join(folder, "session.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**session(env, folder), "provenance": origin(i)}, file, indent=2)
    env["CM_MLPERF_HARNESS_CONFIG"] = path
    return {"return": 0}


def session(env: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The settings that ``env`` asks for; its answer goes into the step's ``folder``."""
    # A run of its own never replaces the results of an earlier one.
    home = os.path.expanduser(HOME)
    run = os.path.join(home, os.path.basename(os.path.dirname(folder)))
    return {
        "benchmark": env["CM_MLPERF_MODEL"],
        "form": env.get("CM_MLPERF_FORM", ""),
        "backend": env["CM_MLPERF_BACKEND"],
        "device": env["CM_MLPERF_DEVICE"],
        "precision": env["CM_MLPERF_MODEL_PRECISION"],
        "model": model(env),
        "dataset": env["CM_DATASET_PREPROCESSED_PATH"],
        "results_dir": os.path.abspath(env.get("OUTPUT_BASE_DIR") or run),
        "sut_dir": os.path.abspath(env.get("CM_MLPERF_SUT_DIR") or os.path.join(home, "sut")),
        "hw_name": env.get("CM_HW_NAME") or platform.node(),
        "round": env["CM_MLPERF_INFERENCE_VERSION"],
        "scenarios": scenarios(env),
        "modes": modes(env),
        "style": env["CM_MLPERF_RUN_STYLE"],
        "category": env.get("CM_MLPERF_SUBMISSION_SYSTEM_TYPE") or "",
        "division": env["CM_MLPERF_SUBMISSION_DIVISION"],
        "reuse": not is_yes(env.get("CM_RERUN")),
        "attempts": int(env.get("CM_MLPERF_MAX_ATTEMPTS") or ATTEMPTS),
        "answer": os.path.join(folder, "results.json"),
        "overrides": overrides(env),
        **backend_options(env),
    }


def rules() -> ModuleType:
    """The harness's own reader of the benchmarks' rules; it needs nothing but Python."""
    name = "mlperf_harness_rules"
    if name not in sys.modules:
        folder = os.path.dirname(os.path.abspath(__file__))
        path = os.path.join(folder, "src", "mlperf_harness", "rules.py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def scenarios(env: Mapping[str, Any]) -> tuple[str, ...]:
    """The one scenario that is asked for, or all that the benchmark has in the category.

    Raises Error for a scenario or a category that the rules of the benchmark do not have.
    """
    category = env.get("CM_MLPERF_SUBMISSION_SYSTEM_TYPE") or ""
    if category:
        _known(CATEGORIES, category, "category")
    reader = rules()
    try:
        found = reader.benchmark(env["CM_MLPERF_MODEL"])
        if is_yes(env.get("CM_MLPERF_LOADGEN_ALL_SCENARIOS")):
            everything: tuple[str, ...] = found.all_scenarios(category)
            return everything
        return (found.checked(env.get("CM_MLPERF_LOADGEN_SCENARIO") or "Offline", category),)
    except reader.RuleError as error:
        raise Error(
            "bad-value",
            str(error),
            hint="use the variation _all-scenarios for all that there are, or leave out --category",
        ) from error


def modes(env: Mapping[str, Any]) -> tuple[str, ...]:
    """What to measure in each scenario; tests of compliance come on top where they are asked."""
    mode = env["CM_MLPERF_LOADGEN_MODE"]
    _known(tuple(MODES), mode, "mode")
    tested = is_yes(env.get("CM_MLPERF_LOADGEN_COMPLIANCE"))
    more = ("compliance",) if tested and mode not in ("readme", "compliance") else ()
    return (*MODES[mode], *more)


def check_precision(env: Mapping[str, Any]) -> None:
    """Raise Error for a precision that the model cannot be had in."""
    name = env["CM_MLPERF_MODEL"]
    if env.get("CM_MLPERF_MODEL_PRECISION") != "int8":
        return
    if name not in QUANTIZED:
        raise Error(
            "not-available",
            f"--precision=int8: {name} cannot be quantized here{WHY_NOT.get(name, '')}",
            hint="use --precision=float32, or bfloat16 with --backend=openvino",
        )


def _known(choices: Sequence[str], value: str, name: str) -> None:
    if value not in choices:
        known = ", ".join(choices)
        raise Error("bad-value", f"--{name}={value} is not known", hint=f"use one of: {known}")


def origin(i: Mapping[str, Any]) -> dict[str, Any]:
    """What the results say of their own making."""
    env = i["env"]
    folder = os.path.dirname(os.path.abspath(__file__))
    repository, revision = checkouts.revision(folder)
    return {
        "command": env.get("CM_MLPERF_COMMAND") or mine(i),
        "directory": os.getcwd(),
        "repository": repository,
        "revision": revision,
        "steps": of_the_run(i).get("commands", []),
    }


def mine(i: Mapping[str, Any]) -> str:
    """The command that led to this step, as the record of the run has it."""
    return str(of_the_run(i).get("command", ""))


def of_the_run(i: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the engine says of this run: the command, and those that get each part alone."""
    told: Mapping[str, Any] = i.get("run_script_input", {}).get("run_state", {})
    return told


def backend_options(env: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The backend's own options, ``name=value,name=value``; nothing where there are none."""
    words = [word for word in str(env.get("CM_MLPERF_BACKEND_OPTIONS") or "").split(",") if word]
    pairs = [word.partition("=") for word in words]
    wrong = next((name for name, equals, _ in pairs if not (name and equals)), None)
    if wrong is not None:
        hint = "give name=value, several with commas between them"
        raise Error("bad-value", f"--backend_options: {wrong} has no value", hint=hint)
    found = {name.strip(): value.strip() for name, _, value in pairs}
    return {"backend_options": found} if found else {}


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
    keys = ("name", "sha256", "precision", "inputs", "outputs")
    folder = os.path.dirname(env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"])
    return {
        **{key: facts[key] for key in keys},
        "accuracy": accuracy(env["CM_MLPERF_MODEL"], facts["accuracy"]),
        "options": facts.get("options", {}),
        "data_bytes": sum(each["bytes"] for each in ml_models.data_of(facts)),
        "parts": [_part(folder, part) for part in facts.get("parts", [])],
        "path": env["CM_ML_MODEL_FILE_WITH_PATH"],
        "starting_weights": env["CM_ML_MODEL_STARTING_WEIGHTS_FILENAME"],
        "retraining": env["CM_ML_MODEL_RETRAINING"],
        "weight_transformations": env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"],
    }


def accuracy(benchmark: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds for a benchmark: a "-99.9" must come ten times closer to the reference.

    A number of tokens has the same bounds in both.
    """
    further = [accuracy(benchmark, each) for each in stated.get("further", ())]
    bounds = {**stated, **({"further": further} if further else {})}
    if benchmark.endswith(STRICT) and stated["unit"] != "tokens":
        bounds["target"] = round(STRICT_SHARE * stated["reference"], 6)
    return bounds


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
