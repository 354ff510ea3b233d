"""Write the request to the harness's quantizer, and export the quantized model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.lib.yes_no import is_yes
from mlperf.catalog import files_of
from modelzoo.hooks import ml_models

NEEDED = {
    "CM_ML_MODEL_FACTS_FILE_WITH_PATH": "a model with its facts (get,ml-model,...)",
    "CM_CALIBRATION_DATASET_PATH": "a preprocessed data set for calibration",
    "CM_MLPERF_MODEL": "the name of the benchmark",
}


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Write the paths of the model, the samples and the result."""
    env = i["env"]
    for key, what in NEEDED.items():
        if not env.get(key):
            raise Error(
                "missing-input",
                f"there is nothing to quantize: {what} is needed ({key})",
                hint="this step is a part of: `cm run script --tags=run-mlperf,inference "
                "--model=resnet50 --precision=int8`",
            )
    config = os.path.join(env["CM_TMP_RUN_DIR"], "quantize.json")
    request = {
        "benchmark": env["CM_MLPERF_MODEL"],
        "facts": env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"],
        "dataset": env["CM_CALIBRATION_DATASET_PATH"],
        "samples": int(env["CM_QUANTIZE_SAMPLES"]),
        "folder": os.getcwd(),
        "signed": is_yes(env.get("CM_QUANTIZE_SIGNED")),
        "weight_bits": _weight_bits(env),
    }
    with open(config, "w", encoding="utf-8") as file:
        json.dump(request, file, indent=2)
    env["CM_QUANTIZE_CONFIG"] = config
    facts = os.path.join(env["CM_CALIBRATION_DATASET_PATH"], "dataset.json")
    # Ranges come from what the benchmark makes of its samples.
    said = files_of(env["CM_MLPERF_MODEL"], env.get("CM_MLPERF_PLUGINS", ""))
    return {"return": 0, "relies_on": [facts, *map(str, said)]}


def _weight_bits(env: Mapping[str, Any]) -> int:
    """How many bits of a weight this processor multiplies without an overflow of its sums."""
    is_exact = is_yes(env.get("CM_HOST_CPU_INT8"))
    return 8 if is_exact or env.get("CM_HOST_CPU_ARCHITECTURE") != "x86_64" else 7


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Check the files and set what scripts that use a model look at."""
    env = i["env"]
    facts = ml_models.offer(env, os.getcwd())
    env["CM_ML_MODEL_WEIGHT_TRANSFORMATIONS"] = facts["weight_transformations"]
    if is_yes(env.get("CM_QUANTIZE_SIGNED")):
        model = os.path.splitext(env["CM_ML_MODEL_FILE_WITH_PATH"])[0]
        env["CM_QUANTIZE_CALIBRATION_CACHE"] = f"{model}.cache"
    return {"return": 0, "version": facts["sha256"][:12]}
