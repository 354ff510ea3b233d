"""Check that the files exist, and export the model and its samples."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from modelzoo.hooks import datasets, ml_models


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Name the files whose contents count."""
    env = i["env"]
    if not env.get("CM_ML_MODEL_OWN_PATH"):
        hint = "name the ONNX file: --model_path=FILE"
        raise Error("needs-input", "no model is named", hint=hint)
    files = []
    for option, key in (
        ("model_path", "CM_ML_MODEL_OWN_PATH"),
        ("data_path", "CM_ML_MODEL_OWN_DATA"),
    ):
        if env[key]:
            env[key] = os.path.abspath(os.path.expanduser(env[key]))
            files.append(env[key])
            if not os.path.isfile(env[key]):
                hint = f"check the path given as --{option}"
                raise Error("file-not-found", f"there is no file {env[key]}", hint=hint)
    return {"return": 0, "relies_on": files}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and export the model and its samples."""
    env = i["env"]
    facts = ml_models.offer(env, os.getcwd())
    if facts["options"]["fixed_batch"]:
        # The graph takes one sample at a time and nothing else.
        env["CM_MLPERF_LOADGEN_MAX_BATCHSIZE"] = "1"
    # Weights outside of the graph are the user's too, and only links to them are here.
    weights = [os.path.realpath(data_file["file"]) for data_file in ml_models.data_of(facts)]
    answer = datasets.hand_out(env, form="own")
    return {**answer, "version": facts["sha256"][:12], "relies_on": weights}
