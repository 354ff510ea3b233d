"""Say what to preprocess, and hand out the arrays that src/preprocess.py has written."""

from __future__ import annotations

import json
import os
from typing import Any

from cmbench.errors import Error


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Name the list of images of the wanted part, or say that the full set is not there yet."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "synthetic":
        return {"return": 0}
    if env.get("CM_DATASET_FORM") != "tiny":
        raise Error(
            "not-available",
            "the full ImageNet data set is not supported yet, only its tiny and synthetic forms",
            hint="ask for the tiny form: --tags=get,preprocessed,dataset,imagenet,_tiny",
        )
    if env["CM_DATASET_TYPE"] == "training":
        images_map = os.path.join(env["CM_DATASET_TRAIN_PATH"], "train_map.txt")
    else:
        images_map = os.path.join(env["CM_DATASET_PATH"], "val_map.txt")
    env["CM_DATASET_IMAGES_MAP"] = images_map
    return {"return": 0, "relies_on": [images_map]}


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
    env["CM_DATASET_PREPROCESSED_FORM"] = env["CM_DATASET_FORM"]
    env["CM_DATASET_SIZE"] = str(facts["count"])
    return {"return": 0}
