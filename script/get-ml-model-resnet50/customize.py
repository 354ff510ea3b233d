"""Hand out the shipped tiny ResNet-50, or train it again, and check that it is what it says."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any

from cmbench.errors import Error

FACTS = "model.json"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the model and its facts into the cache entry."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") != "tiny":
        raise Error(
            "not-available",
            "the full ResNet-50 is not supported yet, only its tiny form",
            hint="ask for the tiny form: --tags=get,ml-model,resnet50,_tiny",
        )
    if env["CM_RESNET50_RETRAIN"] == "yes":
        answer: dict[str, Any] = i["automation"].run_native_script(
            {"run_script_input": i["run_script_input"], "env": env, "script_name": "retrain"}
        )
        return answer
    shipped = os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny")
    for name in os.listdir(shipped):
        shutil.copyfile(os.path.join(shipped, name), name)
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    folder = os.getcwd()
    with open(FACTS, encoding="utf-8") as file:
        facts = json.load(file)
    path = os.path.join(folder, facts["file"])
    _verify(path, facts)
    env["CM_ML_MODEL_FILE_WITH_PATH"] = path
    env["CM_ML_MODEL_PATH"] = folder
    env["CM_ML_MODEL_FILE"] = facts["file"]
    env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"] = os.path.join(folder, FACTS)
    env["CM_ML_MODEL_ACCURACY"] = str(facts["accuracy"]["reference"])
    env["CM_ML_MODEL_ACCURACY_TARGET"] = str(facts["accuracy"]["target"])
    env["CM_ML_MODEL_INPUT_LAYER_NAME"] = facts["inputs"][0]["name"]
    env["CM_ML_MODEL_OUTPUT_LAYER_NAME"] = facts["outputs"][0]["name"]
    env["CM_ML_MODEL_IMAGE_HEIGHT"] = str(facts["inputs"][0]["shape"][1])
    env["CM_ML_MODEL_IMAGE_WIDTH"] = str(facts["inputs"][0]["shape"][2])
    env["CM_ML_MODEL_INPUT_DATA_TYPES"] = facts["precision"]
    env["CM_ML_MODEL_WEIGHT_DATA_TYPES"] = facts["precision"]
    env["CM_ML_MODEL_RETRAINING"] = "no"
    env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"] = "no"
    env["CM_ML_MODEL_STARTING_WEIGHTS_FILENAME"] = facts["file"]
    return {"return": 0, "version": facts["sha256"][:12]}


def _verify(path: str, facts: dict[str, Any]) -> None:
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != facts["sha256"]:
        raise Error(
            "checksum-mismatch",
            f"{path} has sha256 {found}, expected {facts['sha256']}",
            hint="restore the script's folder tiny/ from its repository, then run again",
        )
