"""Hand out a BERT for SQuAD: downloaded, the shipped tiny one, one trained or built here."""

from __future__ import annotations

import os
from typing import Any

from cmbench.lib import siblings

ml_models = siblings.hooks(__file__, "ml_models")

# F1 of the float model that the rules refer to, and the share of it that bert-99 must reach.
REFERENCE_F1 = 90.874
TARGET_SHARE = 0.99
INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("output_start_logits", "output_end_logits")
LENGTH = 384


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    answer: dict[str, Any] = ml_models.prepare(i, i["env"]["CM_BERT_RETRAIN"], "CM_BERT_DOWNLOAD")
    return answer


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    folder = os.getcwd()
    if env.get("CM_BERT_DOWNLOAD") == "yes":
        _describe(env, folder)
    facts = ml_models.offer(env, folder)
    env["CM_ML_MODEL_INPUT_IDS_NAME"] = facts["inputs"][0]["name"]
    env["CM_ML_MODEL_INPUT_MASK_NAME"] = facts["inputs"][1]["name"]
    env["CM_ML_MODEL_INPUT_SEGMENTS_NAME"] = facts["inputs"][2]["name"]
    env["CM_ML_MODEL_OUTPUT_START_LOGITS_NAME"] = facts["outputs"][0]["name"]
    env["CM_ML_MODEL_OUTPUT_END_LOGITS_NAME"] = facts["outputs"][1]["name"]
    return {"return": 0, "version": facts["sha256"][:12]}


def _describe(env: dict[str, Any], folder: str) -> None:
    """Write model.json for the downloaded file, which is linked into the entry."""
    bounds = {"reference": REFERENCE_F1, "target": REFERENCE_F1 * TARGET_SHARE}
    full = {
        "name": "bert_large_squad",
        "precision": env["CM_ML_MODEL_PRECISION"],
        "inputs": [{"name": each, "dtype": "int64", "shape": [LENGTH]} for each in INPUTS],
        "outputs": [{"name": each, "dtype": "float32", "shape": [LENGTH]} for each in OUTPUTS],
        "accuracy": {"metric": "F1", "unit": "%", **bounds},
    }
    ml_models.describe_linked(folder, full, env["CM_BERT_DOWNLOADED"])
