"""What the scripts of data sets share: facts of what a program has made, and the env about it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

# As many as a detector is quantized with, of the 500 on the rules' list.
CALIBRATION = "128"


def read_facts(folder: str) -> dict[str, Any]:
    """Return dataset.json of ``folder``."""
    with open(os.path.join(folder, "dataset.json"), encoding="utf-8") as file:
        facts: dict[str, Any] = json.load(file)
    return facts


def hand_out(
    env: MutableMapping[str, Any], *, training: bool = False, form: str = "", folder: str = ""
) -> dict[str, Any]:
    """Export preprocessed arrays to ``env`` and return the result of a hook.

    Arrays for ``training`` or calibration are no data set that is judged. ``form`` is what the full
    one is called; ``folder`` is the cache entry unless it is given.
    """
    folder = folder or os.getcwd()
    if training:
        env["CM_DATASET_PREPROCESSED_TRAINING_PATH"] = folder
        return {"return": 0}
    env["CM_DATASET_PREPROCESSED_PATH"] = folder
    env["CM_DATASET_PREPROCESSED_FORM"] = env.get("CM_DATASET_FORM") or form
    env["CM_DATASET_SIZE"] = str(read_facts(folder)["count"])
    return {"return": 0}


def arrays(i: Mapping[str, Any], form: str = "") -> dict[str, Any]:
    """Export the arrays of the part ``CM_DATASET_TYPE``: the hook ``postprocess``."""
    env = i["env"]
    return hand_out(env, training=env["CM_DATASET_TYPE"] != "validation", form=form)


def full_arrays(i: Mapping[str, Any]) -> dict[str, Any]:
    """The same where the form that has no name is called full."""
    return arrays(i, "full")


def made_of_cases(i: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays are worth nothing without the cases that they were made of."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "synthetic":
        return {"return": 0}
    return {"return": 0, "relies_on": [env["CM_DATASET_CASES_FILE_PATH"]]}


def detection_pictures(i: Mapping[str, Any]) -> dict[str, Any]:
    """Name the images for a detector; too few are repeated, those for calibration never.

    Sets ``CM_DETECTION_COUNT``, ``CM_DETECTION_QSL_COUNT`` and ``CM_DETECTION_LIST``. Writes the
    options of the program that ``run.sh`` starts.
    """
    env = i["env"]
    form = env.get("CM_DATASET_FORM")
    calibrates = env["CM_DATASET_TYPE"] == "calibration"
    listed = calibrates and not form
    env["CM_DETECTION_COUNT"] = env.get("CM_DETECTION_COUNT") or (CALIBRATION if listed else "0")
    repeated = env.get("CM_DETECTION_QSL_COUNT") or "0"
    env["CM_DETECTION_QSL_COUNT"] = "0" if calibrates else repeated
    env["CM_DETECTION_LIST"] = env["CM_CALIBRATION_LIST_FILE_WITH_PATH"] if listed else ""
    words = ["--input", env["CM_DETECTION_INPUT"], "--side", env["CM_DATASET_INPUT_SQUARE_SIDE"]]
    words += ["--name", env["CM_DATASET"], "--count", env["CM_DETECTION_COUNT"]]
    words += ["--qsl_count", env["CM_DETECTION_QSL_COUNT"]]
    if form == "synthetic":
        write_arguments(env, words)
        return {"return": 0}
    source = "CM_CALIBRATION" if listed else "CM_DATASET"
    listing = env["CM_DETECTION_LIST"] or env["CM_DATASET_ANNOTATIONS_FILE_PATH"]
    images = env[f"{source}_IMAGES_PATH"]
    words += ["--list" if listed else "--annotations", listing, "--images", images]
    write_arguments(env, words)
    return {"return": 0, "relies_on": [listing, images]}


def write_arguments(env: Mapping[str, Any], words: list[str]) -> None:
    """Write the command line that ``run.sh`` gives to its program."""
    with open(os.path.join(env["CM_TMP_RUN_DIR"], "arguments"), "w", encoding="utf-8") as file:
        file.write("".join(f"{word}\0" for word in words))
