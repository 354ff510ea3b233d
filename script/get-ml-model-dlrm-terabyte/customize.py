"""Hand out a DLRM: the shipped tiny one, one trained again, the user's export, or a download."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import ml_models

FULL_ACCURACY = {"v1": "80.25", "v2": "80.31"}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") == "tiny":
        return _tiny(i)
    if env.get("CM_DLRM_MODEL_PATH"):
        folder = os.path.abspath(os.path.expanduser(env["CM_DLRM_MODEL_PATH"]))
        return {"return": 0, "relies_on": [os.path.join(folder, ml_models.FACTS)]}
    if not env["CM_PACKAGE_URL"]:
        raise Error(
            "not-available",
            "MLCommons gives out the weights of DLRM v2 (97 GB) for PyTorch only",
            hint="give the folder of an ONNX export with --model_path=FOLDER, get the weights "
            "with _pytorch, or use the tiny form: --tags=get,ml-model,dlrm,_tiny",
        )
    env["CM_DLRM_DOWNLOAD"] = "yes"
    return {"return": 0}


def _tiny(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    if env["CM_DLRM_RETRAIN"] == "yes":
        answer: dict[str, Any] = i["automation"].run_native_script(
            {"run_script_input": i["run_script_input"], "env": env, "script_name": "retrain"}
        )
        return answer
    script = env["CM_TMP_CURRENT_SCRIPT_PATH"]
    ml_models.hand_out(os.path.join(script, "tiny", env["CM_DLRM_VERSION"]), os.getcwd())
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the files and set what scripts that use a model look at."""
    env = i["env"]
    if env.get("CM_DLRM_DOWNLOAD") == "yes":
        _downloaded(env)
        return {"return": 0}
    folder = os.getcwd()
    if env.get("CM_ML_MODEL_FORM") != "tiny":
        folder = os.path.abspath(os.path.expanduser(env["CM_DLRM_MODEL_PATH"]))
    facts = ml_models.offer(env, folder)
    return {"return": 0, "version": facts["sha256"][:12]}


def _downloaded(env: dict[str, Any]) -> None:
    """Tell of downloaded weights; whether the harness can run them, their README says."""
    path = env.get("CM_DLRM_EXTRACTED") or env["CM_DLRM_DOWNLOADED"]
    version = env["CM_DLRM_VERSION"]
    if env["CM_ML_MODEL_FRAMEWORK"] == "onnx" and version == "v1":
        ml_models.offer(env, _describe_export(path))
        return
    env["CM_ML_MODEL_FILE_WITH_PATH"] = path
    env["CM_ML_MODEL_PATH"] = path if os.path.isdir(path) else os.path.dirname(path)
    env["CM_ML_MODEL_ACCURACY"] = FULL_ACCURACY[version]
    env["CM_ML_MODEL_RETRAINING"] = "no"
    env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"] = "no"
    env["CM_ML_MODEL_STARTING_WEIGHTS_FILENAME"] = os.path.basename(path)


def _describe_export(path: str) -> str:
    """Write model.json beside the extracted ONNX file of the first DLRM; returns its folder."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    found = sorted(name for name in os.listdir(folder) if name.endswith(".onnx"))
    if len(found) != 1:
        raise Error("model-file", f"expected one ONNX file in {folder}, found {len(found)}")
    several = {"dtype": "int64", "shape": [-1]}
    facts = {
        "name": "dlrm_v1",
        "file": found[0],
        "precision": "fp32",
        "inputs": [
            {"name": "dense_x", "dtype": "float32", "shape": [13]},
            {"name": "offsets", **several},
            {"name": "indices", **several},
        ],
        "outputs": [{"name": "pred", "dtype": "float32", "shape": [1]}],
        "options": {"layout": "feature-first"},
        "accuracy": {"metric": "AUC", "unit": "%", "reference": 80.25, "target": 79.4475},
    }
    ml_models.describe(folder, facts)
    return folder
