"""What the scripts of object detectors share: they differ only in what they say of a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cmbench.lib import ml_models


def prepare(i: Mapping[str, Any]) -> dict[str, Any]:
    """Put the tiny model into the cache entry or train it again; a full one is a dependency.

    Reads ``CM_ML_MODEL_FORM`` and ``CM_DETECTOR_RETRAIN``.
    """
    env = i["env"]
    if env["CM_DETECTOR_RETRAIN"] == "yes":
        answer: dict[str, Any] = i["automation"].run_native_script(
            {"run_script_input": i["run_script_input"], "env": env, "script_name": "retrain"}
        )
        return answer
    if env.get("CM_ML_MODEL_FORM") == "tiny":
        shipped = os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny")
        ml_models.hand_out(shipped, os.getcwd())
    return {"return": 0}


def finish(i: Mapping[str, Any], full: Mapping[str, Any]) -> dict[str, Any]:
    """Verify the model and tell env about it; ``full`` are the facts of a downloaded one.

    Reads ``CM_DETECTOR_DOWNLOADED``, the file that the download has left.
    """
    env = i["env"]
    folder = os.getcwd()
    if env.get("CM_ML_MODEL_FORM") != "tiny":
        source = env["CM_DETECTOR_DOWNLOADED"]
        name = os.path.basename(source)
        link = os.path.join(folder, name)
        if not os.path.lexists(link):
            os.symlink(source, link)
        ml_models.describe(folder, {**full, "file": name})
    facts = ml_models.offer(env, folder)
    return {"return": 0, "version": facts["sha256"][:12]}
