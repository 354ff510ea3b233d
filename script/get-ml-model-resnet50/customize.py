"""Provide a ResNet-50: downloaded, tiny (shipped or trained again), or without knowledge."""

from __future__ import annotations

import os
from typing import Any

from modelzoo.hooks import ml_models

FULL: dict[str, Any] = ml_models.published(__file__)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a tiny or a synthetic model into the cache entry; the full one is a dependency."""
    answer: dict[str, Any] = ml_models.prepare(i, i["env"]["CM_RESNET50_RETRAIN"])
    ml_models.as_framework(i)
    return answer


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    folder = os.getcwd()
    if env.get("CM_ML_MODEL_FORM") not in ("tiny", "synthetic"):
        full = ml_models.published(__file__, env.get("CM_ML_MODEL_FRAMEWORK", ""))
        ml_models.describe_linked(folder, full, env["CM_RESNET50_DOWNLOADED"])
    facts = ml_models.offer(env, folder)
    env["CM_ML_MODEL_IMAGE_HEIGHT"] = str(facts["inputs"][0]["shape"][1])
    env["CM_ML_MODEL_IMAGE_WIDTH"] = str(facts["inputs"][0]["shape"][2])
    return {"return": 0, "version": facts["sha256"][:12]}
