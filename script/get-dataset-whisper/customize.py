"""Choose what Whisper's data set is made of, and export the arrays that were written."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import datasets

MANIFEST = "dev-all-repack.json"
MLCOMMONS = (
    "fetch it with MLCommons's r2-downloader from "
    "inference.mlcommons-storage.org/metadata/whisper-dataset.uri, leave _preprocessed out (it is "
    "then made of LibriSpeech), or use _tiny"
)


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error for MLCommons's data set where the user has not said where it is."""
    env = i["env"]
    is_made = env.get("CM_DATASET_FORM") or env["CM_DATASET_WHISPER_SOURCE"] != "mlcommons"
    if not is_made and not env.get("CM_DATASET_WHISPER_PATH"):
        text = "MLCommons gives this data set out with its own downloader: no --repacked=FOLDER"
        raise Error("data-needed", text, hint=MLCOMMONS)
    return {"return": 0}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the arguments of the program that writes the arrays."""
    env = i["env"]
    refuse(i)
    count = env["CM_DATASET_WHISPER_COUNT"]
    if env.get("CM_DATASET_FORM") == "small":
        files = [os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "small", "texts.json")]
        words = ["--texts", *files]
    elif env.get("CM_DATASET_FORM"):
        files = [env["CM_DATASET_LIBRISPEECH_DEV_CLEAN_PATH"]]
        words = ["--part", *files, "--qsl-count", count]
    elif env["CM_DATASET_WHISPER_SOURCE"] == "mlcommons":
        folder = os.path.abspath(os.path.expanduser(env["CM_DATASET_WHISPER_PATH"]))
        files = [os.path.join(folder, MANIFEST)]
        if not os.path.isfile(files[0]):
            raise Error("data-needed", f"there is no {files[0]}", hint=MLCOMMONS)
        words = ["--manifest", *files, "--expect", count]
    else:
        files = [env[f"CM_DATASET_LIBRISPEECH_DEV_{part}_PATH"] for part in ("CLEAN", "OTHER")]
        words = ["--parts", *files, "--expect", count]
    datasets.write_arguments(env, [*words, "--name", env["CM_DATASET"]])
    return {"return": 0, "relies_on": files}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set the folder and the facts of the arrays."""
    env = i["env"]
    result = datasets.hand_out(env, form="full")
    env["CM_DATASET_WHISPER_PATH"] = env["CM_DATASET_PREPROCESSED_PATH"]
    return result
