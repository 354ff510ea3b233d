"""Export the vocabulary: the downloaded one, or that of the tiny BERT."""

from __future__ import annotations

import os
import shutil
from typing import Any


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Set where the vocabulary lies."""
    env = i["env"]
    if env.get("CM_DATASET_FORM") == "tiny":
        path = os.path.join(os.getcwd(), "vocab.txt")
        shutil.copyfile(os.path.join(env["CM_TMP_CURRENT_SCRIPT_PATH"], "tiny", "vocab.txt"), path)
        env["CM_DATASET_SQUAD_VOCAB_PATH"] = path
    env["CM_ML_MODEL_BERT_VOCAB_FILE_WITH_PATH"] = env["CM_DATASET_SQUAD_VOCAB_PATH"]
    return {"return": 0}
