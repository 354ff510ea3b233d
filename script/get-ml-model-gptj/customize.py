"""Hand out a GPT-J: the shipped tiny one, one trained again, the user's files, or a download."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import ml_models

# ROUGE-1 of the reference.
FULL_ACCURACY = "42.9865"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") == "tiny":
        return _tiny(i)
    if env.get("CM_GPTJ_MODEL_PATH"):
        folder = os.path.abspath(os.path.expanduser(env["CM_GPTJ_MODEL_PATH"]))
        return {"return": 0, "relies_on": [os.path.join(folder, ml_models.FACTS)]}
    if env["CM_ML_MODEL_FRAMEWORK"] != "pytorch":
        raise Error(
            "not-available",
            "MLCommons gives out the weights of GPT-J (24 GB) for PyTorch only",
            hint="give the folder of an ONNX export with --model_path=FOLDER, get the weights "
            "with _pytorch, or use the tiny form: --tags=get,ml-model,gptj,_tiny",
        )
    if not env.get("GPTJ_CHECKPOINT_PATH"):
        env["CM_GPTJ_DOWNLOAD"] = "yes"
        return {"return": 0}
    config = os.path.join(os.path.expanduser(env["GPTJ_CHECKPOINT_PATH"]), "config.json")
    if not os.path.isfile(config):
        raise Error(
            "model-file",
            f"there is no {config}",
            hint="give the folder of the checkpoint, with config.json in it",
        )
    return {"return": 0, "relies_on": [os.path.abspath(config)]}


def _tiny(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    if env["CM_GPTJ_RETRAIN"] == "yes":
        answer: dict[str, Any] = i["automation"].run_native_script(
            {"run_script_input": i["run_script_input"], "env": env, "script_name": "retrain"}
        )
        return answer
    ml_models.hand_out(os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny"), os.getcwd())
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the files and set what scripts that use a model look at."""
    env = i["env"]
    tiny, given = env.get("CM_ML_MODEL_FORM") == "tiny", env.get("CM_GPTJ_MODEL_PATH")
    if not tiny and not given:
        found = env.get("CM_GPTJ_EXTRACTED") or env["GPTJ_CHECKPOINT_PATH"]
        path = os.path.abspath(os.path.expanduser(found))
        env["GPTJ_CHECKPOINT_PATH"] = env["CM_ML_MODEL_FILE_WITH_PATH"] = path
        env["CM_ML_MODEL_PATH"] = path
        env["CM_ML_MODEL_ACCURACY"] = FULL_ACCURACY
        env["CM_ML_MODEL_RETRAINING"] = "no"
        env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"] = "no"
        env["CM_ML_MODEL_STARTING_WEIGHTS_FILENAME"] = os.path.basename(path)
        return {"return": 0}
    folder = os.getcwd() if tiny else os.path.abspath(os.path.expanduser(given))
    facts = ml_models.offer(env, folder)
    return {"return": 0, "version": facts["sha256"][:12]}
