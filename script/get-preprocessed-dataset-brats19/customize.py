"""Hand out the arrays that a program of src has written."""

from __future__ import annotations

import json
import os
from typing import Any


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """The arrays are worth nothing without the cases that they were made of."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "synthetic":
        return {"return": 0}
    return {"return": 0, "relies_on": [env["CM_DATASET_CASES_FILE_PATH"]]}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    folder = os.getcwd()
    with open(os.path.join(folder, "dataset.json"), encoding="utf-8") as file:
        facts = json.load(file)
    if env["CM_DATASET_TYPE"] == "training":
        env["CM_DATASET_PREPROCESSED_TRAINING_PATH"] = folder
        return {"return": 0}
    env["CM_DATASET_PREPROCESSED_PATH"] = folder
    env["CM_DATASET_PREPROCESSED_FORM"] = env.get("CM_DATASET_FORM", "")
    env["CM_DATASET_SIZE"] = str(facts["count"])
    return {"return": 0}
