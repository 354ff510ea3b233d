"""Hand out a ResNet-50: downloaded, tiny (shipped or trained again), or without knowledge."""

from __future__ import annotations

import os
from typing import Any

from cmbench.lib import siblings

ml_models = siblings.hooks(__file__, "ml_models")

SIDE = 224
CLASSES = 1001
FULL: dict[str, Any] = {
    "name": "resnet50",
    "precision": "fp32",
    "inputs": [{"name": "input_tensor:0", "dtype": "float32", "shape": [3, SIDE, SIDE]}],
    "outputs": [
        {"name": "ArgMax:0", "dtype": "int64", "shape": []},
        {"name": "softmax_tensor:0", "dtype": "float32", "shape": [CLASSES]},
    ],
    # Class 0 is the background, which no image of the data set has.
    "options": {"label_offset": 1},
    "accuracy": {"metric": "top-1", "unit": "%", "reference": 76.46, "target": 75.6954},
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a tiny or a synthetic model into the cache entry; the full one is a dependency."""
    answer: dict[str, Any] = ml_models.prepare(i, i["env"]["CM_RESNET50_RETRAIN"])
    return answer


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    folder = os.getcwd()
    if env.get("CM_ML_MODEL_FORM") not in ("tiny", "synthetic"):
        ml_models.describe_linked(folder, FULL, env["CM_RESNET50_DOWNLOADED"])
    facts = ml_models.offer(env, folder)
    env["CM_ML_MODEL_IMAGE_HEIGHT"] = str(facts["inputs"][0]["shape"][1])
    env["CM_ML_MODEL_IMAGE_WIDTH"] = str(facts["inputs"][0]["shape"][2])
    return {"return": 0, "version": facts["sha256"][:12]}
