"""Provide an RNN-T: the shipped tiny one, one trained or built here, or MLPerf's converted."""

from __future__ import annotations

import os
from typing import Any

from cmbench.errors import Error
from cmbench.lib.programs import run_program
from cmbench.lib.yes_no import is_yes
from modelzoo.hooks import ml_models

# 100 % less the word error rate of 7.452 %.
FULL_ACCURACY = "92.548"


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of MLPerf's weights."""
    env = i["env"]
    if own := ml_models.prepare_own(i, "CM_RNNT"):
        return own
    # Only the graphs are exported here: with PyTorch the file is used as it is.
    env["CM_RNNT_CONVERT"] = "no" if env["CM_ML_MODEL_FRAMEWORK"] == "pytorch" else "yes"
    env["CM_RNNT_OTHER_SIZE"] = "yes" if is_yes(env.get("CM_RNNT_OTHER_SIZE")) else ""
    if not env.get("CM_RNNT_CHECKPOINT"):
        env["CM_RNNT_DOWNLOAD"] = "yes"
        return {"return": 0}
    path = os.path.abspath(os.path.expanduser(env["CM_RNNT_CHECKPOINT"]))
    if not os.path.isfile(path):
        raise Error(
            "model-file",
            f"--checkpoint={path} is not a file",
            hint="give the .pt file of MLPerf's reference, or leave --checkpoint out to fetch it",
        )
    env["CM_RNNT_DOWNLOADED"] = path
    return {"return": 0, "relies_on": [path]}


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Convert the download, verify the files and export them."""
    env = i["env"]
    if env.get("CM_RNNT_CONVERT") == "no":
        return ml_models.as_it_is(env, env["CM_RNNT_DOWNLOADED"], FULL_ACCURACY)
    if env.get("CM_RNNT_CONVERT") == "yes":
        env["CM_RNNT_CHECKPOINT_FILE"] = env["CM_RNNT_DOWNLOADED"]
        run_program(i, "convert")
    return ml_models.finish_own(env, "CM_RNNT", "file")
