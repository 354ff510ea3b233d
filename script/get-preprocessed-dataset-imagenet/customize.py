"""Choose the images to preprocess, and export the arrays that preprocessing has written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.lib import named_paths
from modelzoo.hooks import datasets


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Name the images of the wanted part and the folder that the arrays go into."""
    env = i["env"]
    env["CM_DATASET_PREPROCESSED_OUT"] = out = place(env)
    form = env.get("CM_DATASET_FORM")
    if form == "synthetic":
        return {"return": 0}
    if form == "tiny":
        if env["CM_DATASET_TYPE"] == "training":
            images_map = os.path.join(env["CM_DATASET_TRAIN_PATH"], "train_map.txt")
        else:
            images_map = os.path.join(env["CM_DATASET_PATH"], "val_map.txt")
        env["CM_DATASET_IMAGES_MAP"] = images_map
        return {"return": 0, "relies_on": [images_map]}
    relies_on = full(env)
    if out != os.getcwd():
        named_paths.require_own(out)
        os.makedirs(out, exist_ok=True)
    return {"return": 0, "relies_on": relies_on}


def place(env: Mapping[str, Any]) -> str:
    """Return the folder of the arrays: the cache entry, or one of the user's per part."""
    store = env.get("CM_IMAGENET_STORE")
    if not store or env.get("CM_DATASET_FORM"):
        return os.getcwd()
    part = "calibration" if env["CM_DATASET_TYPE"] == "training" else "validation"
    return os.path.join(os.path.abspath(os.path.expanduser(store)), part)


def full(env: dict[str, Any]) -> list[str]:
    """Export lists and images of the full set; return the paths that the arrays rely on.

    Raises Error for a number of calibration images, and for a scratch space whose folder for
    single images is a link into the cache.
    """
    scratch = env.get("CM_IMAGENET_SCRATCH_PATH")
    if scratch:
        named_paths.require_own(os.path.join(scratch, "preprocessed_data", "imagenet"))
    env["CM_DATASET_IMAGES_MAP"] = env["CM_DATASET_AUX_LABELS_FILE_WITH_PATH"]
    env["CM_DATASET_IMAGES_FOLDER"] = env["CM_DATASET_IMAGENET_VAL_PATH"]
    relies_on = [env["CM_DATASET_IMAGES_FOLDER"]]
    env["CM_DATASET_IMAGES_ONLY"] = env["CM_DATASET_IMAGES_COUNT"] = ""
    if env["CM_DATASET_TYPE"] == "training":
        if env.get("CM_IMAGENET_FIRST"):
            raise Error(
                "bad-value",
                f"_size.{env['CM_IMAGENET_FIRST']} and _calibration contradict each other: the "
                "rules name the images to calibrate with",
                hint="leave out one of the two",
            )
        env["CM_DATASET_IMAGES_ONLY"] = env["CM_MLPERF_IMAGENET_CALIBRATION_LIST_FILE_WITH_PATH"]
    else:
        env["CM_DATASET_IMAGES_COUNT"] = env.get("CM_IMAGENET_FIRST", "")
    return relies_on


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    folder = env["CM_DATASET_PREPROCESSED_OUT"]
    names = [] if folder == os.getcwd() else ["dataset.json", *datasets.read_facts(folder)["files"]]
    training = env["CM_DATASET_TYPE"] == "training"
    answer = datasets.hand_out(env, training=training, form="full", folder=folder)
    return {**answer, "relies_on": [os.path.join(folder, name) for name in names]}
