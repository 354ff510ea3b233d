"""Hand out a 3D U-Net: downloaded, tiny (shipped or trained again), or without knowledge."""

from __future__ import annotations

import os
from typing import Any

from cmbench.lib import ml_models
from cmbench.lib.programs import run_program

SIDE = 128
FULL: dict[str, Any] = {
    "name": "3d-unet",
    "precision": "fp32",
    "inputs": [{"name": "input", "dtype": "float32", "shape": [1, SIDE, SIDE, SIDE]}],
    "outputs": [{"name": "output", "dtype": "float32", "shape": [3, SIDE, SIDE, SIDE]}],
    "options": {
        "regions": {"kidney": [1], "tumor": [2]},
        "overlap": 0.5,
        "windows_per_call": 1,
    },
    "accuracy": {"metric": "mean DICE", "unit": "", "reference": 0.8617, "target": 0.853083},
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    env = i["env"]
    form = env.get("CM_ML_MODEL_FORM")
    if form == "synthetic" or env["CM_UNET_RETRAIN"] == "yes":
        program = "synthetic" if form == "synthetic" else "retrain"
        return run_program(i, program)
    if form == "tiny":
        ml_models.hand_out(os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny"), os.getcwd())
        return {"return": 0}
    env["CM_UNET_DOWNLOAD"] = "yes"
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    folder = os.getcwd()
    if env.get("CM_UNET_DOWNLOAD") == "yes":
        name = ml_models.linked(env["CM_UNET_DOWNLOADED"], folder)
        ml_models.describe(folder, {**FULL, "file": name})
    elif env.get("CM_ML_MODEL_FORM") == "synthetic":
        ml_models.describe(folder, ml_models.synthetic(FULL))
    facts = ml_models.offer(env, folder)
    return {"return": 0, "version": facts["sha256"][:12]}
