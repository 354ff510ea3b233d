"""Hand out a ResNet-50: the shipped tiny one, one trained again, or one without knowledge."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib import ml_models


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put the model and its facts into the cache entry."""
    env = i["env"]
    form = env.get("CM_ML_MODEL_FORM")
    if form not in ("tiny", "synthetic"):
        raise Error(
            "not-available",
            "the full ResNet-50 is not supported yet, only its tiny and its synthetic form",
            hint="ask for the tiny form: --tags=get,ml-model,resnet50,_tiny",
        )
    if form == "synthetic" or env["CM_RESNET50_RETRAIN"] == "yes":
        program = "synthetic" if form == "synthetic" else "retrain"
        answer: dict[str, Any] = i["automation"].run_native_script(
            {"run_script_input": i["run_script_input"], "env": env, "script_name": program}
        )
        return answer
    shipped = os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny")
    ml_models.hand_out(shipped, os.getcwd())
    return {"return": 0}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    facts = ml_models.offer(env, os.getcwd())
    env["CM_ML_MODEL_IMAGE_HEIGHT"] = str(facts["inputs"][0]["shape"][1])
    env["CM_ML_MODEL_IMAGE_WIDTH"] = str(facts["inputs"][0]["shape"][2])
    return {"return": 0, "version": facts["sha256"][:12]}
