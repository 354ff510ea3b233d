"""Provide a BERT for SQuAD: downloaded, the shipped tiny one, one trained or built here."""

from __future__ import annotations

import os
from typing import Any

from modelzoo.hooks import ml_models

# Its F1 is that of the float model that the rules refer to; bert-99 must reach 99 % of it.
FULL: dict[str, Any] = ml_models.published(__file__)


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    env = i["env"]
    answer: dict[str, Any] = ml_models.prepare(i, env["CM_BERT_RETRAIN"], "CM_BERT_DOWNLOAD")
    ml_models.as_framework(i)
    return answer


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify the file and set what scripts that use a model look at."""
    env = i["env"]
    folder = os.getcwd()
    if env.get("CM_BERT_DOWNLOAD") == "yes":
        full = ml_models.published(__file__, env.get("CM_ML_MODEL_FRAMEWORK", ""))
        full["precision"] = env["CM_ML_MODEL_PRECISION"]
        ml_models.describe_linked(folder, full, env["CM_BERT_DOWNLOADED"])
    facts = ml_models.offer(env, folder)
    env["CM_ML_MODEL_INPUT_IDS_NAME"] = facts["inputs"][0]["name"]
    env["CM_ML_MODEL_INPUT_MASK_NAME"] = facts["inputs"][1]["name"]
    env["CM_ML_MODEL_INPUT_SEGMENTS_NAME"] = facts["inputs"][2]["name"]
    env["CM_ML_MODEL_OUTPUT_START_LOGITS_NAME"] = facts["outputs"][0]["name"]
    env["CM_ML_MODEL_OUTPUT_END_LOGITS_NAME"] = facts["outputs"][1]["name"]
    return {"return": 0, "version": facts["sha256"][:12]}
