"""Hand out an RNN-T: the shipped tiny one, one trained again, the user's export, or a download."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import ml_models

# 100 % less the word error rate of 7.452 %.
FULL_ACCURACY = "92.548"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") == "tiny":
        return _tiny(i)
    if env.get("CM_RNNT_MODEL_PATH"):
        folder = os.path.abspath(os.path.expanduser(env["CM_RNNT_MODEL_PATH"]))
        return {"return": 0, "relies_on": [os.path.join(folder, ml_models.FACTS)]}
    if not env["CM_PACKAGE_URL"]:
        raise Error(
            "not-available",
            "MLCommons gives out the weights of RNN-T for PyTorch only",
            hint="give the folder of an ONNX export with --model_path=FOLDER, get the weights "
            "with _pytorch, or use the tiny form: --tags=get,ml-model,rnnt,_tiny",
        )
    env["CM_RNNT_DOWNLOAD"] = "yes"
    return {"return": 0}


def _tiny(i: dict[str, Any]) -> dict[str, Any]:
    env = i["env"]
    if env["CM_RNNT_RETRAIN"] == "yes":
        answer: dict[str, Any] = i["automation"].run_native_script(
            {"run_script_input": i["run_script_input"], "env": env, "script_name": "retrain"}
        )
        return answer
    ml_models.hand_out(os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny"), os.getcwd())
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the files and set what scripts that use a model look at."""
    env = i["env"]
    if env.get("CM_RNNT_DOWNLOAD") == "yes":
        path = env["CM_RNNT_DOWNLOADED"]
        env["CM_ML_MODEL_FILE_WITH_PATH"] = path
        env["CM_ML_MODEL_PATH"] = os.path.dirname(path)
        env["CM_ML_MODEL_ACCURACY"] = FULL_ACCURACY
        env["CM_ML_MODEL_RETRAINING"] = "no"
        env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"] = "no"
        env["CM_ML_MODEL_STARTING_WEIGHTS_FILENAME"] = os.path.basename(path)
        return {"return": 0}
    folder = os.getcwd()
    if env.get("CM_ML_MODEL_FORM") != "tiny":
        folder = os.path.abspath(os.path.expanduser(env["CM_RNNT_MODEL_PATH"]))
    facts = ml_models.offer(env, folder)
    return {"return": 0, "version": facts["sha256"][:12]}
