"""Write the request to build a model for GPUs; export the engines as a model."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.lib import nvidia
from mlperf.catalog import files_of, run_inputs
from modelzoo.hooks import ml_models

STAND_IN = "stand-in"
# Dynamic dimensions of a benchmark's models besides the batch: tokens, frames or rows.
LENGTHS = {"bert": "1:384:384", "rnnt": "1:128:512", "dlrm": "1:8:64"}
CAPABILITY = re.compile(r"\d+\.\d")


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Request the model, and write the request of the build."""
    env = i["env"]
    wanted = model_tags(env)
    env["CM_TMP_ENGINE_MODEL"], env["CM_TMP_ENGINE_CALIBRATION"] = wanted
    config = os.path.join(env["CM_TMP_RUN_DIR"], "engine.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump(request(env), file, indent=2)
    env["CM_TMP_ENGINE_CONFIG"] = config
    said = [] if own(env) else files_of(env["CM_MLPERF_MODEL"], env.get("CM_MLPERF_PLUGINS", ""))
    return {"return": 0, "relies_on": list(map(str, said))}


def own(env: Mapping[str, Any]) -> bool:
    """Whether the model is the user's own, or that of a step before."""
    return bool(env.get("CM_ML_MODEL_OWN_PATH") or env.get("CM_ML_MODEL_FACTS_FILE_WITH_PATH"))


def model_tags(env: Mapping[str, Any]) -> tuple[str, str]:
    """Tags of the scripts that bring the model, and samples to quantize it with; or nothing.

    Raises Error for a precision that the benchmark refuses.
    """
    if env.get("CM_ML_MODEL_FACTS_FILE_WITH_PATH"):
        return "", ""
    if env.get("CM_ML_MODEL_OWN_PATH"):
        return "ml-model,own", ""
    spec = run_inputs.benchmark(env)
    assert spec.assets is not None, "what can be run has assets"
    form = str(env.get("CM_ENGINE_FORM") or "")
    model = ",".join(filter(None, [spec.assets.model, form, "_onnx", "_fp32"]))
    if env["CM_ENGINE_PRECISION"] != "int8":
        return model, ""
    if "int8" in spec.refuses:
        raise Error("bad-value", f"--precision=int8: {spec.name}: {spec.refuses['int8']}")
    return model, ",".join(filter(None, [spec.assets.data, spec.assets.calibration, form]))


def request(env: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the builder."""
    word = str(env.get("CM_ENGINE_BENCHMARK") or vendor_word(env))
    return {
        "product": env["CM_ENGINE_PRODUCT"],
        "folder": os.getcwd(),
        "benchmark": word,
        "precision": env["CM_ENGINE_PRECISION"],
        "scenario": env["CM_ENGINE_SCENARIO"],
        "batch": str(env["CM_ENGINE_BATCH"]),
        "lengths": env["CM_ENGINE_LENGTHS"] or LENGTHS.get(word.removesuffix("-v2"), ""),
        "compute_capabilities": capabilities(env),
        "config_ver": env["CM_ENGINE_CONFIG_VER"],
        "streams": int(env["CM_ENGINE_STREAMS"]),
        "workspace": int(env["CM_ENGINE_WORKSPACE"]),
        "timing_cache": os.path.abspath(path)
        if (path := env.get("CM_ENGINE_TIMING_CACHE"))
        else "",
    }


def vendor_word(env: Mapping[str, Any]) -> str:
    """The benchmark without its accuracy target: bert of bert-99.9, or the name of a file."""
    if env.get("CM_ML_MODEL_OWN_PATH"):
        return os.path.splitext(os.path.basename(str(env["CM_ML_MODEL_OWN_PATH"])))[0]
    return re.sub(r"-99(\.9)?$", "", str(env["CM_MLPERF_MODEL"]))


def capabilities(env: Mapping[str, Any]) -> list[str]:
    """Return the compute capabilities to build for: the requested ones, else those of the GPUs.

    Raises Error for a word that is no compute capability.
    """
    if env["CM_ENGINE_PRODUCT"] == STAND_IN:
        return []
    requested = str(env.get("CM_ENGINE_COMPUTE_CAPABILITY") or "")
    words = list(filter(None, requested.split(",")))
    wrong = next((word for word in words if not CAPABILITY.fullmatch(word)), None)
    if wrong is not None:
        hint = "give numbers such as 7.5 (T4), 8.0 (A100), 8.6, 8.9 (L4)"
        raise Error("bad-value", f"--compute_capability: {wrong} is not one", hint=hint)
    return words or of_this_machine()


def of_this_machine() -> list[str]:
    """Return the compute capabilities of the local GPUs; raise Error where there is none."""
    capabilities_ = sorted({kind.get("compute_cap", "") for kind in nvidia.kinds()} - {"", "[N/A]"})
    if not capabilities_:
        raise Error(
            "needs-input",
            "there is no NVIDIA GPU here, and nothing says which one the engine is for",
            hint="add --compute_capability=7.5 (T4), 8.0 (A100), 8.6 or 8.9 (L4); with "
            "the variation _stand-in nothing is built",
        )
    return capabilities_


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Check the files and set what scripts that use a model look at."""
    env = i["env"]
    facts = ml_models.offer(env, os.getcwd())
    env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"] = facts["weight_transformations"]
    env["CM_ENGINE_FILE_WITH_PATH"] = env["CM_ML_MODEL_FILE_WITH_PATH"]
    env["CM_ENGINE_BUILDER"] = facts["engine"]["builder"]
    return {"return": 0, "version": facts["sha256"][:12]}
