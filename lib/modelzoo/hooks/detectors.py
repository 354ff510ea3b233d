"""What the scripts of object detectors share: they differ only in what they say of a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from modelzoo.hooks import ml_models

published = ml_models.published


def prepare(i: dict[str, Any]) -> dict[str, Any]:
    """Put the tiny model into the cache entry or make one; a full one is a dependency.

    Reads ``CM_ML_MODEL_FORM`` and ``CM_DETECTOR_RETRAIN``.
    """
    env = i["env"]
    return ml_models.prepare(i, env["CM_DETECTOR_RETRAIN"])


def finish(i: Mapping[str, Any], full: Mapping[str, Any]) -> dict[str, Any]:
    """Verify the model and export it to env; ``full`` are the facts of a downloaded one.

    Reads ``CM_DETECTOR_DOWNLOADED``, the downloaded file.
    """
    env = i["env"]
    folder = os.getcwd()
    form = env.get("CM_ML_MODEL_FORM")
    if form == ml_models.SYNTHETIC:
        ml_models.describe(folder, ml_models.synthetic(full))
    elif form != "tiny":
        ml_models.describe_linked(folder, full, env["CM_DETECTOR_DOWNLOADED"])
    return ml_models.finish(env)
