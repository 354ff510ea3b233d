"""Provide a Llama 2: the tiny Llama, one made here, or a checkpoint converted."""

from __future__ import annotations

import os
from typing import Any

from cmbench.lib import capacity
from modelzoo.hooks import ml_models
from modelzoo.hooks.llamas import LlamaHooks
from modelzoo.llama.published import LLAMA2_70B

HOOKS = LlamaHooks(LLAMA2_70B, capacity)
refuse, postprocess = HOOKS.refuse, HOOKS.postprocess


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Take the tiny Llama of Llama 3's script, or do what that one does."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") != "tiny":
        return HOOKS.preprocess(i)
    ml_models.hand_out(env["CM_ML_MODEL_PATH"], os.getcwd())
    return {"return": 0}
