"""Say what to cut into features, and hand out the arrays that src/preprocess.py has written."""

from __future__ import annotations

import json
import os
from typing import Any

from cmbench.errors import Error

# Features of the whole dev set, which is what runs of the rules have.
QSL_COUNT = "10833"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Name the file of questions; the training part exists in the tiny form only."""
    env = i["env"]
    env["CM_SQUAD_QSL_COUNT"] = ""
    if env.get("CM_DATASET_FORM") == "synthetic":
        return {"return": 0}
    if env["CM_DATASET_TYPE"] == "training":
        if env.get("CM_DATASET_FORM") != "tiny":
            raise Error(
                "not-available",
                "there are no features of SQuAD's training part here",
                hint="ask for the held-out part, or for the tiny form: add ,_tiny to the tags",
            )
        questions = env["CM_DATASET_SQUAD_TRAIN_PATH"]
    else:
        questions = env["CM_DATASET_SQUAD_VAL_PATH"]
        if env.get("CM_DATASET_FORM") == "tiny":
            env["CM_SQUAD_QSL_COUNT"] = QSL_COUNT
    env["CM_SQUAD_QUESTIONS"] = questions
    return {"return": 0, "relies_on": [questions, env["CM_DATASET_SQUAD_VOCAB_PATH"]]}


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
    env["CM_DATASET_PREPROCESSED_FORM"] = env.get("CM_DATASET_FORM") or "full"
    env["CM_DATASET_SIZE"] = str(facts["count"])
    env["CM_DATASET_SQUAD_TOKENIZED_PATH"] = folder
    return {"return": 0}
