"""Choose the questions to preprocess, and export the arrays that preprocessing has written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cmbench.lib import named_paths
from modelzoo.hooks import datasets

# Features of the whole dev set, which is what runs of the rules have.
QSL_COUNT = "10833"
# What the entries of the rules' two lists are.
LISTED = {"one": "features", "two": "questions"}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Name the file of questions and, to calibrate in the full form, the rules' list."""
    env = i["env"]
    env["CM_SQUAD_QSL_COUNT"] = env["CM_SQUAD_LIST"] = env["CM_SQUAD_LISTED"] = ""
    env["CM_SQUAD_TOKENIZED"] = tokenized(env)
    if env.get("CM_DATASET_FORM") == "synthetic":
        return {"return": 0}
    tiny = env.get("CM_DATASET_FORM") == "tiny"
    training = env["CM_DATASET_TYPE"] == "training"
    if tiny and training:
        questions = env["CM_DATASET_SQUAD_TRAIN_PATH"]
    else:
        questions = env["CM_DATASET_SQUAD_VAL_PATH"]
    env["CM_SQUAD_QUESTIONS"] = questions
    relies_on = [questions, env["CM_DATASET_SQUAD_VOCAB_PATH"]]
    if tiny and not training:
        env["CM_SQUAD_QSL_COUNT"] = QSL_COUNT
    elif training and not tiny:
        env["CM_SQUAD_LIST"] = env["CM_MLPERF_SQUAD_CALIBRATION_LIST_FILE_WITH_PATH"]
        env["CM_SQUAD_LISTED"] = LISTED[env["CM_DATASET_SQUAD_CALIBRATION_SET"]]
        relies_on.append(env["CM_SQUAD_LIST"])
    return {"return": 0, "relies_on": relies_on}


def tokenized(env: Mapping[str, Any]) -> str:
    """Return the folder of the user's for the inputs as int32; empty where none is named.

    What stands in for SQuAD has one of its own. Raises Error for a link into the cache.
    """
    scratch = env.get("CM_SQUAD_SCRATCH_PATH")
    if not scratch or env["CM_DATASET_TYPE"] != "validation":
        return ""
    form = env.get("CM_DATASET_FORM")
    name = f"squad_tokenized_{form}" if form else "squad_tokenized"
    folder = os.path.join(os.path.abspath(scratch), "preprocessed_data", name)
    named_paths.require_own(folder)
    return folder


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    training = env["CM_DATASET_TYPE"] == "training"
    if not training:
        env["CM_DATASET_SQUAD_TOKENIZED_PATH"] = os.getcwd()
    return datasets.hand_out(env, training=training, form="full")
