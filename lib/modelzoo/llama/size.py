"""The shape of a Llama: what ``config.json`` of a checkpoint says, and its weights.

Source of the defaults: the published configuration of Llama 3.1 8B.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modelzoo.program import ProgramError

CONFIG = "config.json"
# Bytes of a number of float16.
HALF = 2
# Of a configuration that is older than the key, as Llama 2's is.
OLD_THETA = 10000.0
# How Llama 3.1 slows the rotary embedding down for contexts beyond 8192 tokens.
LLAMA_3_SCALING: Mapping[str, Any] = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass(frozen=True, slots=True)
class LlamaSize:
    """The shape of the network; ``scaling`` of the rotary embedding is empty where there is none.

    ``tied``: the embedding of the tokens is the output layer too.
    """

    vocabulary: int = 128256
    width: int = 4096
    inner: int = 14336
    layers: int = 32
    heads: int = 32
    key_heads: int = 8
    context: int = 131072
    theta: float = 500000.0
    epsilon: float = 1e-5
    tied: bool = False
    scaling: tuple[tuple[str, Any], ...] = tuple(LLAMA_3_SCALING.items())

    @property
    def head_width(self) -> int:
        """Return the numbers of one head for one token."""
        return self.width // self.heads

    @property
    def token_bytes(self) -> int:
        """Return the bytes of the keys and values of one token, as float16."""
        return 2 * self.layers * self.key_heads * self.head_width * HALF

    def config(self, *, begin: int, ends: list[int]) -> dict[str, Any]:
        """Return ``config.json``; ``begin`` and ``ends`` are special tokens."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head_width,
            "max_position_embeddings": self.context,
            "rope_theta": self.theta,
            "rope_scaling": dict(self.scaling) or None,
            "rms_norm_eps": self.epsilon,
            "tie_word_embeddings": self.tied,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": begin,
            "eos_token_id": ends if len(ends) > 1 else ends[0],
            "torch_dtype": "float32",
        }

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all weights by name in a checkpoint, in the order of the network."""
        width, keys = self.width, self.key_heads * self.head_width
        by_name: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocabulary, width)
        }
        for layer in range(self.layers):
            name = f"model.layers.{layer}"
            by_name |= {
                f"{name}.input_layernorm.weight": (width,),
                f"{name}.self_attn.q_proj.weight": (width, width),
                f"{name}.self_attn.k_proj.weight": (keys, width),
                f"{name}.self_attn.v_proj.weight": (keys, width),
                f"{name}.self_attn.o_proj.weight": (width, width),
                f"{name}.post_attention_layernorm.weight": (width,),
                f"{name}.mlp.gate_proj.weight": (self.inner, width),
                f"{name}.mlp.up_proj.weight": (self.inner, width),
                f"{name}.mlp.down_proj.weight": (width, self.inner),
            }
        by_name["model.norm.weight"] = (width,)
        return by_name if self.tied else by_name | {"lm_head.weight": (self.vocabulary, width)}

    @property
    def parameters(self) -> int:
        """Return the number of weights."""
        return sum(map(math.prod, self.shapes().values()))

    def parameters_of(self, layers: int) -> int:
        """Return the number of weights with so many layers."""
        return replace(self, layers=layers).parameters


def read_size(folder: Path) -> LlamaSize:
    """Return the shape that ``config.json`` names; raise ProgramError for another network."""
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["model_type"] != "llama":
            raise ProgramError(f"{path} describes a {config['model_type']}, no llama")
        # transformers 5 writes both into one object.
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        scaled = rope.get("rope_type", "default") != "default"
        names = ("rope_type", *(name for name in LLAMA_3_SCALING if name != "rope_type"))
        return LlamaSize(
            vocabulary=int(config["vocab_size"]),
            width=int(config["hidden_size"]),
            inner=int(config["intermediate_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            key_heads=int(config["num_key_value_heads"]),
            context=int(config["max_position_embeddings"]),
            theta=float(config.get("rope_theta") or rope.get("rope_theta") or OLD_THETA),
            epsilon=float(config["rms_norm_eps"]),
            tied=bool(config.get("tie_word_embeddings")),
            scaling=tuple((name, rope[name]) for name in names) if scaled else (),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProgramError(f"{path} does not describe a Llama: {error!r}") from error
