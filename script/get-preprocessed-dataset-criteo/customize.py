"""Say which logs or arrays to preprocess, and hand out what src/preprocess.py has written."""

from __future__ import annotations

import json
import os
from typing import Any

from cmbench.errors import Error

# How many values each category of the tiny multi-hot form has; the full form has up to 100.
TINY_HOT = "3,2,1,2,6,1,1,1,1,3,3,4,1,4,4,3,1,1,1,5,8,6,4,3,1,1"
ONE_HOT = ",".join(["1"] * 26)
ARRAYS = ("day_23_dense.npy", "day_23_sparse_multi_hot.npz", "day_23_labels.npy")


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the program's arguments together."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "tiny":
        day = os.path.join(env["CM_DATASET_PATH"], "day_23")
        several = env["CM_DATASET_CRITEO_MULTIHOT"] == "yes"
        words = ["--day", day, "--rows", env["CM_DATASET_ROWS"]]
        words += ["--hot", TINY_HOT if several else ONE_HOT]
        words += ["--qsl-count", env["CM_DATASET_CRITEO_QSL"]]
        relied = [day]
    else:
        words, relied = real(env)
    arguments = [*words, "--name", env["CM_DATASET"]]
    with open(os.path.join(env["CM_TMP_RUN_DIR"], "arguments"), "w", encoding="utf-8") as file:
        file.write("".join(f"{word}\0" for word in arguments))
    return {"return": 0, "relies_on": relied}


def real(env: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Arguments for MLCommons's arrays, and the files that they lie in."""
    given = env.get("CM_CRITEO_PREPROCESSED_PATH")
    if not given:
        raise Error(
            "data-not-free",
            "Criteo's data cannot be fetched by a program: their licence has to be accepted",
            hint="get MLCommons's preprocessed arrays of day 23 (mlcommons.org, DLRM) and give "
            "their folder with --dir=FOLDER, or use the tiny form: "
            "--tags=get,preprocessed,dataset,criteo,_tiny",
        )
    if env["CM_DATASET_CRITEO_MULTIHOT"] != "yes":
        raise Error(
            "not-available",
            "the full data set of the first DLRM (one value for each category) is not supported",
            hint="use --model=dlrm-v2-99, or the tiny form",
        )
    folder = os.path.abspath(os.path.expanduser(given))
    files = [os.path.join(folder, name) for name in ARRAYS]
    missing = [os.path.basename(path) for path in files if not os.path.isfile(path)]
    if missing:
        raise Error(
            "data-incomplete",
            f"{folder} lacks {', '.join(missing)}",
            hint=f"all of {', '.join(ARRAYS)} are needed there",
        )
    words = ["--arrays", folder]
    if env["CM_DATASET_CRITEO_GROUPS"]:
        groups = os.path.abspath(os.path.expanduser(env["CM_DATASET_CRITEO_GROUPS"]))
        words += ["--groups", groups]
        files.append(groups)
    return words, files


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    folder = os.getcwd()
    with open(os.path.join(folder, "dataset.json"), encoding="utf-8") as file:
        facts = json.load(file)
    env["CM_DATASET_PREPROCESSED_PATH"] = folder
    env["CM_DATASET_PREPROCESSED_FORM"] = env.get("CM_DATASET_FORM", "")
    env["CM_DATASET_SIZE"] = str(facts["count"])
    return {"return": 0}
