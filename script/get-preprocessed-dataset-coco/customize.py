"""Say which pictures to preprocess, and hand out the arrays that preprocessing has written."""

from __future__ import annotations

import json
import os
from typing import Any

from cmbench.errors import Error


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """The tiny set is repeated until it has the rules' size; for calibration it is the only one."""
    env = i["env"]
    if env["CM_DATASET_TYPE"] == "calibration" and not env.get("CM_DATASET_FORM"):
        raise Error(
            "not-available",
            "the calibration pictures of the full data set are not supported yet: they are in its "
            "training part",
            hint="use float32, or the tiny form: add ,_tiny to the tags",
        )
    env["CM_DETECTION_COUNT"] = env.get("CM_DETECTION_COUNT") or "0"
    env["CM_DETECTION_QSL_COUNT"] = env.get("CM_DETECTION_QSL_COUNT") or "0"
    if env.get("CM_DATASET_FORM") == "synthetic":
        return {"return": 0}
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
