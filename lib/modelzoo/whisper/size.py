"""The shape of a Whisper, and its weights by name in a checkpoint of Hugging Face."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from modelzoo.graph import Array
from modelzoo.program import ProgramError

ENCODER, DECODER = "model.encoder", "model.decoder"
RATE, HOP = 16_000, 160
# Neighbouring feature vectors that the second convolution joins.
STRIDE = 2
ATTENTION = ("q", "k", "v", "out")


@dataclass(frozen=True, slots=True)
class WhisperSize:
    """Widths and numbers of layers; the defaults are those of large-v3.

    ``places`` are the states of the encoder for the whole window of sound, ``texts`` the most
    tokens of a text with those that start it.
    """

    width: int = 1280
    heads: int = 20
    encoder_layers: int = 32
    decoder_layers: int = 32
    inner: int = 5120
    bands: int = 128
    places: int = 1500
    texts: int = 448
    vocabulary: int = 51866

    @property
    def head_width(self) -> int:
        """Numbers of one head for one token."""
        return self.width // self.heads

    @property
    def window_s(self) -> float:
        """Seconds of sound that the encoder takes, padded with silence."""
        return self.places * STRIDE * HOP / RATE

    @property
    def parameters(self) -> int:
        """Return the number of all weights."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all weights by name."""
        width = self.width
        by_name = {
            f"{ENCODER}.conv1.weight": (width, self.bands, 3),
            f"{ENCODER}.conv1.bias": (width,),
            f"{ENCODER}.conv2.weight": (width, width, 3),
            f"{ENCODER}.conv2.bias": (width,),
            f"{ENCODER}.embed_positions.weight": (self.places, width),
            f"{DECODER}.embed_positions.weight": (self.texts, width),
            f"{DECODER}.embed_tokens.weight": (self.vocabulary, width),
        }
        for part, layers in ((ENCODER, self.encoder_layers), (DECODER, self.decoder_layers)):
            for layer in range(layers):
                name = f"{part}.layers.{layer}"
                by_name |= self._attention(f"{name}.self_attn")
                if part == DECODER:
                    by_name |= self._attention(f"{name}.encoder_attn")
                by_name |= {
                    f"{name}.fc1.weight": (self.inner, width),
                    f"{name}.fc1.bias": (self.inner,),
                    f"{name}.fc2.weight": (width, self.inner),
                    f"{name}.fc2.bias": (width,),
                }
                by_name |= self._norm(f"{name}.final_layer_norm")
            by_name |= self._norm(f"{part}.layer_norm")
        return by_name

    def _attention(self, name: str) -> dict[str, tuple[int, ...]]:
        """Return the weights of an attention and of the normalization before it."""
        shapes: dict[str, tuple[int, ...]] = {}
        for part in ATTENTION:
            shapes[f"{name}.{part}_proj.weight"] = (self.width, self.width)
            if part != "k":
                shapes[f"{name}.{part}_proj.bias"] = (self.width,)
        return shapes | self._norm(f"{name}_layer_norm")

    def _norm(self, name: str) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (self.width,), f"{name}.bias": (self.width,)}


class WhisperWeights(Protocol):
    """A source of weights."""

    def array(self, name: str) -> Array:
        """Return the weight of this name as float32, in the checkpoint's shape."""


KEYS = {
    "width": "d_model",
    "heads": "encoder_attention_heads",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "inner": "encoder_ffn_dim",
    "bands": "num_mel_bins",
    "places": "max_source_positions",
    "texts": "max_target_positions",
    "vocabulary": "vocab_size",
}


def size_of(config: Mapping[str, Any]) -> WhisperSize:
    """Return the size that a config.json names; raise ProgramError for another architecture."""
    if config.get("model_type") != "whisper":
        raise ProgramError(f"config.json is of a {config.get('model_type')}, not of a whisper")
    missing = [key for key in KEYS.values() if key not in config]
    if missing:
        raise ProgramError(f"config.json has no {missing[0]}")
    return WhisperSize(**{name: int(config[key]) for name, key in KEYS.items()})
