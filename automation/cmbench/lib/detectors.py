"""What the scripts of object detectors share: they differ only in what they say of a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cmbench.lib import ml_models

SYNTHETIC = "synthetic"


def prepare(i: Mapping[str, Any]) -> dict[str, Any]:
    """Put the tiny model into the cache entry or make one; a full one is a dependency.

    Reads ``CM_ML_MODEL_FORM`` and ``CM_DETECTOR_RETRAIN``.
    """
    env = i["env"]
    form = env.get("CM_ML_MODEL_FORM")
    if form == SYNTHETIC or env["CM_DETECTOR_RETRAIN"] == "yes":
        program = SYNTHETIC if form == SYNTHETIC else "retrain"
        answer: dict[str, Any] = i["automation"].run_native_script(
            {"run_script_input": i["run_script_input"], "env": env, "script_name": program}
        )
        return {**answer, "relies_on": _programs(env["CM_TMP_CURRENT_SCRIPT_PATH"])}
    if form == "tiny":
        shipped = os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny")
        ml_models.hand_out(shipped, os.getcwd())
    return {"return": 0}


def _programs(script: str) -> list[str]:
    """What makes the models of all detectors lies in the folder of one: of ``script`` or beside."""
    folder = os.path.join(os.path.dirname(script), "get-ml-model-retinanet", "src")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".py"))


def finish(i: Mapping[str, Any], full: Mapping[str, Any]) -> dict[str, Any]:
    """Verify the model and tell env about it; ``full`` are the facts of a downloaded one.

    Reads ``CM_DETECTOR_DOWNLOADED``, the file that the download has left.
    """
    env = i["env"]
    folder = os.getcwd()
    form = env.get("CM_ML_MODEL_FORM")
    if form == SYNTHETIC:
        ml_models.describe(folder, ml_models.synthetic(full))
    elif form != "tiny":
        name = ml_models.linked(env["CM_DETECTOR_DOWNLOADED"], folder)
        ml_models.describe(folder, {**full, "file": name})
    facts = ml_models.offer(env, folder)
    return {"return": 0, "version": facts["sha256"][:12]}
