"""Hand out a BERT for SQuAD: downloaded, the shipped tiny one, one trained or built here."""

from __future__ import annotations

import os
from typing import Any

from cmbench.lib import ml_models
from cmbench.lib.programs import run_program

# F1 of the float model that the rules refer to, and the share of it that bert-99 must reach.
REFERENCE_F1 = 90.874
TARGET_SHARE = 0.99
INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("output_start_logits", "output_end_logits")
LENGTH = 384


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Put a model into the cache entry, or ask for the download of one."""
    env = i["env"]
    form = env.get("CM_ML_MODEL_FORM")
    if form == "synthetic" or env["CM_BERT_RETRAIN"] == "yes":
        program = "synthetic" if form == "synthetic" else "retrain"
        return run_program(i, program)
    if form == "tiny":
        shipped = os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny")
        ml_models.hand_out(shipped, os.getcwd())
        return {"return": 0}
    env["CM_BERT_DOWNLOAD"] = "yes"
    return {"return": 0}


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
    source = env["CM_BERT_DOWNLOADED"]
    name = os.path.basename(source)
    link = os.path.join(folder, name)
    if not os.path.lexists(link):
        os.symlink(source, link)
    ml_models.describe(
        folder,
        {
            "name": "bert_large_squad",
            "file": name,
            "precision": env["CM_ML_MODEL_PRECISION"],
            "inputs": [{"name": each, "dtype": "int64", "shape": [LENGTH]} for each in INPUTS],
            "outputs": [{"name": each, "dtype": "float32", "shape": [LENGTH]} for each in OUTPUTS],
            "accuracy": {
                "metric": "F1",
                "unit": "%",
                "reference": REFERENCE_F1,
                "target": REFERENCE_F1 * TARGET_SHARE,
            },
        },
    )
