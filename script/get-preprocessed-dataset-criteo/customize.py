"""Choose the logs or arrays to preprocess, and export the written arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from modelzoo.dlrm import table_sizes
from modelzoo.hooks import datasets

# Number of values per category of the tiny multi-hot form; the full form has up to 100.
TINY_HOT = "3,2,1,2,6,1,1,1,1,3,3,4,1,4,4,3,1,1,1,5,8,6,4,3,1,1"
ONE_HOT = ",".join(["1"] * 26)
BINARY = {"validation": "terabyte_processed_test.bin", "calibration": "terabyte_processed_val.bin"}
ARRAYS = ("day_23_dense.npy", "day_23_sparse_multi_hot.npz", "day_23_labels.npy")
# The rules calibrate with the first pairs of the second half of day 23; it begins at this pair.
SECOND_HALF, CALIBRATION = 89_137_319, 128_000
# So that the samples that a model is quantized with, 128 groups, are all of them.
GROUP, TINY_GROUP, GROUPS = 1000, 100, 128
SYNTHETIC_SEED = 8


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the program's arguments together."""
    env = i["env"]
    env["CM_CRITEO_PROGRAM"] = "preprocess"
    if env.get("CM_DATASET_FORM") == "synthetic":
        words, relied = synthetic(env), []
    elif env.get("CM_DATASET_FORM") == "tiny":
        day = os.path.join(env["CM_DATASET_PATH"], "day_23")
        several = env["CM_DATASET_CRITEO_MULTIHOT"] == "yes"
        words = ["--day", day, "--rows", env["CM_DATASET_ROWS"]]
        words += ["--hot", TINY_HOT if several else ONE_HOT]
        repeated = ["--qsl-count", env["CM_DATASET_CRITEO_QSL"]]
        words += ["--group-size", str(TINY_GROUP)] if calibrates(env) else repeated
        relied = [day]
    else:
        words, relied = real(env)
    datasets.write_arguments(env, [*words, "--name", env["CM_DATASET"]])
    return {"return": 0, "relies_on": relied}


def calibrates(env: Mapping[str, Any]) -> bool:
    """Whether the pairs are for ranges of values, and nothing is judged by them."""
    return bool(env["CM_CRITEO_PART"] == "calibration")


def real(env: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Arguments for MLCommons's arrays, and the files that they lie in.

    Raises Error when they are not given or not all there.
    """
    own_folder = env.get("CM_CRITEO_PREPROCESSED_PATH")
    several = env["CM_DATASET_CRITEO_MULTIHOT"] == "yes"
    binary = BINARY[env["CM_CRITEO_PART"]]
    source = "get MLCommons's preprocessed arrays of day 23 (mlcommons.org, DLRM)"
    if not several:
        source = f"make {binary} with the first DLRM's preprocessing (see the README)"
    if not own_folder:
        raise Error(
            "data-not-free",
            "Criteo's data cannot be fetched by a program: their licence has to be accepted",
            hint=f"{source} and give the folder with --dir=FOLDER, or use the tiny form: "
            "`--tags=get,preprocessed,dataset,criteo,_tiny`",
        )
    folder = os.path.abspath(os.path.expanduser(own_folder))
    names = ARRAYS if several else (binary,)
    files = [os.path.join(folder, name) for name in names]
    missing = [os.path.basename(path) for path in files if not os.path.isfile(path)]
    if missing:
        raise Error(
            "data-incomplete",
            f"{folder} lacks {', '.join(missing)}",
            hint=f"needed there: {', '.join(names)} (see the README of "
            "get-preprocessed-dataset-criteo)",
        )
    words = ["--arrays", folder] if several else ["--binary", files[0], "--rows", real_rows(env)]
    if calibrates(env):
        begin = SECOND_HALF if several else 0  # the second half is a file of its own
        words += ["--part", f"{begin},{CALIBRATION}", "--group-size", str(GROUP)]
    elif env["CM_DATASET_CRITEO_GROUPS"]:
        groups = os.path.abspath(os.path.expanduser(env["CM_DATASET_CRITEO_GROUPS"]))
        words += ["--groups", groups]
        files.append(groups)
    return words, files


def synthetic(env: dict[str, Any]) -> list[str]:
    """Arguments for noise in the shape of the real pairs."""
    env["CM_CRITEO_PROGRAM"] = "synthetic"
    words = ["--sizes", str(table_sizes.FILE), "--version", version(env)]
    words += ["--most-rows", str(env["CM_DLRM_MOST_ROWS"])]
    if calibrates(env):
        return [*words, "--seed", str(SYNTHETIC_SEED), "--groups", str(GROUPS), "--qsl-count", "0"]
    return [*words, "--qsl-count", env["CM_DATASET_CRITEO_QSL"]]


def version(env: dict[str, Any]) -> str:
    """Which DLRM the pairs are for."""
    return "v2" if env["CM_DATASET_CRITEO_MULTIHOT"] == "yes" else "v1"


def real_rows(env: dict[str, Any]) -> str:
    """Rows of the tables of the first DLRM."""
    rows = table_sizes.read_sizes()[version(env)]["rows"]
    return ",".join(str(table_rows) for table_rows in rows)


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    return datasets.hand_out(env, training=calibrates(env))
