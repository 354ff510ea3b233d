"""Provide a Llama 3: the shipped tiny one, one made here, or a checkpoint converted."""

from __future__ import annotations

from cmbench.lib import capacity
from modelzoo.hooks.llamas import LlamaHooks
from modelzoo.llama.published import LLAMA3_8B

HOOKS = LlamaHooks(LLAMA3_8B, capacity)
refuse, preprocess, postprocess = HOOKS.refuse, HOOKS.preprocess, HOOKS.postprocess
