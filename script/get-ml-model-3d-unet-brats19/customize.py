"""Hand out a 3D U-Net for brains: downloaded, tiny, trained again, or without knowledge."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import ml_models
from cmbench.lib.programs import run_program

WINDOW = (224, 224, 160)
FULL: dict[str, Any] = {
    "name": "3d-unet-brats19",
    "precision": "fp32",
    "inputs": [{"name": "input", "dtype": "float32", "shape": [4, *WINDOW]}],
    "outputs": [{"name": "output", "dtype": "float32", "shape": [4, *WINDOW]}],
    "options": {
        "regions": {"whole tumor": [1, 2, 3], "tumor core": [2, 3], "enhancing tumor": [3]},
        "absent_region": "left out",
        "windows_per_call": 1,
    },
    "accuracy": {"metric": "mean DICE", "unit": "", "reference": 0.853, "target": 0.84447},
}
# The network's 31.2 million weights; the rest of the file is its graph.
WEIGHTS_BYTES = 124_795_904
GRAPH_BYTES = 2_000_000
RECORD = "https://zenodo.org/record/3928973"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    env = i["env"]
    form = env.get("CM_ML_MODEL_FORM")
    if form == "synthetic" or env["CM_BRATS_UNET_RETRAIN"] == "yes":
        program = "synthetic" if form == "synthetic" else "retrain"
        return run_program(i, program)
    if form == "tiny":
        ml_models.hand_out(os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny"), os.getcwd())
        return {"return": 0}
    env["CM_BRATS_UNET_DOWNLOAD"] = "yes"
    return {"return": 0}


def check_size(path: str) -> None:
    """Raise Error when a file cannot be the full model: no checksum of it was ever published."""
    size = os.path.getsize(path)
    if WEIGHTS_BYTES <= size <= WEIGHTS_BYTES + GRAPH_BYTES:
        return
    raise Error(
        "model-file",
        f"{path} has {size} bytes; the full model has {WEIGHTS_BYTES} bytes of weights and "
        f"at most {GRAPH_BYTES} more",
        hint=f"get 224_224_160.onnx from {RECORD} yourself and give it with "
        "--adr.dae.local_path=FILE",
    )


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    folder = os.getcwd()
    if env.get("CM_BRATS_UNET_DOWNLOAD") == "yes":
        source = env["CM_BRATS_UNET_DOWNLOADED"]
        check_size(source)
        name = ml_models.linked(source, folder)
        ml_models.describe(folder, {**FULL, "file": name})
    facts = ml_models.offer(env, folder)
    return {"return": 0, "version": facts["sha256"][:12]}
