"""Say which pictures to preprocess, and hand out the arrays that src/preprocess.py has written."""

from __future__ import annotations

import json
import os
from typing import Any

# As many as a model is quantized with, of the 500 on the rules' list.
CALIBRATION = "128"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Name the pictures; too few for the rules are repeated, those for calibration never."""
    env = i["env"]
    form = env.get("CM_DATASET_FORM")
    calibrates = env["CM_DATASET_TYPE"] == "calibration"
    listed = calibrates and not form
    env["CM_DETECTION_COUNT"] = env.get("CM_DETECTION_COUNT") or (CALIBRATION if listed else "0")
    repeated = env.get("CM_DETECTION_QSL_COUNT") or "0"
    env["CM_DETECTION_QSL_COUNT"] = "0" if calibrates else repeated
    env["CM_DETECTION_LIST"] = env["CM_CALIBRATION_LIST_FILE_WITH_PATH"] if listed else ""
    if form == "synthetic":
        return {"return": 0}
    if listed:
        relies_on = [env["CM_DETECTION_LIST"], env["CM_CALIBRATION_IMAGES_PATH"]]
    else:
        relies_on = [env["CM_DATASET_ANNOTATIONS_FILE_PATH"], env["CM_DATASET_IMAGES_PATH"]]
    return {"return": 0, "relies_on": relies_on}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    folder = os.getcwd()
    with open(os.path.join(folder, "dataset.json"), encoding="utf-8") as file:
        facts = json.load(file)
    if env["CM_DATASET_TYPE"] == "calibration":
        env["CM_DATASET_PREPROCESSED_TRAINING_PATH"] = folder
        return {"return": 0}
    env["CM_DATASET_PREPROCESSED_PATH"] = folder
    env["CM_DATASET_PREPROCESSED_FORM"] = env.get("CM_DATASET_FORM") or "full"
    env["CM_DATASET_SIZE"] = str(facts["count"])
    return {"return": 0}
