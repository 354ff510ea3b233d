"""Whisper in PyTorch, for training; weights are called as in Hugging Face's checkpoints."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from modelzoo.whisper.size import WhisperSize


class Attention(nn.Module):
    """Multi-head attention; keys have no bias."""

    def __init__(self, size: WhisperSize) -> None:
        super().__init__()
        self._heads = size.heads
        self.q_proj = nn.Linear(size.width, size.width)
        self.k_proj = nn.Linear(size.width, size.width, bias=False)
        self.v_proj = nn.Linear(size.width, size.width)
        self.out_proj = nn.Linear(size.width, size.width)

    def forward(self, x: Tensor, source: Tensor, is_causal: bool = False) -> Tensor:
        """Return the attention of ``x`` [n, t, width] to ``source`` [n, s, width]."""
        parts = (self.q_proj(x), self.k_proj(source), self.v_proj(source))
        split = [part.unflatten(-1, (self._heads, -1)).transpose(1, 2) for part in parts]
        mixed = nn.functional.scaled_dot_product_attention(
            split[0], split[1], split[2], is_causal=is_causal
        )
        projected: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(-2))
        return projected


class SoundLayer(nn.Module):
    """A layer of the encoder."""

    def __init__(self, size: WhisperSize) -> None:
        super().__init__()
        self.self_attn = Attention(size)
        self.self_attn_layer_norm = nn.LayerNorm(size.width)
        self.fc1 = nn.Linear(size.width, size.inner)
        self.fc2 = nn.Linear(size.inner, size.width)
        self.final_layer_norm = nn.LayerNorm(size.width)

    def attend(self, x: Tensor, is_causal: bool) -> Tensor:
        """Add the self-attention of the states."""
        states = self.self_attn_layer_norm(x)
        return x + self.self_attn(states, states, is_causal)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Add the feed-forward part."""
        inner = nn.functional.gelu(self.fc1(self.final_layer_norm(x)))
        added: Tensor = x + self.fc2(inner)
        return added

    def forward(self, x: Tensor) -> Tensor:
        """States [n, t, width] through the layer."""
        return self.feed_forward(self.attend(x, is_causal=False))


class TextLayer(SoundLayer):
    """A layer of the decoder, which attends to the states of the sound too: see ``decode``."""

    def __init__(self, size: WhisperSize) -> None:
        super().__init__(size)
        self.encoder_attn = Attention(size)
        self.encoder_attn_layer_norm = nn.LayerNorm(size.width)

    def decode(self, x: Tensor, sound: Tensor) -> Tensor:
        """States [n, t, width] through the layer."""
        x = self.attend(x, is_causal=True)
        return self.feed_forward(x + self.encoder_attn(self.encoder_attn_layer_norm(x), sound))


def sinusoids(count: int, width: int) -> Tensor:
    """Return the positions [count, width] of the encoder: sines, then cosines."""
    speeds = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
    angles = torch.arange(count)[:, None] * speeds[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class WhisperEncoder(nn.Module):
    """Features [n, bands, t] to states [n, t / 2, width]."""

    def __init__(self, size: WhisperSize) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(size.bands, size.width, 3, padding=1)
        self.conv2 = nn.Conv1d(size.width, size.width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(size.places, size.width)
        self.embed_positions.weight = nn.Parameter(
            sinusoids(size.places, size.width), requires_grad=False
        )
        self.layers = nn.ModuleList(SoundLayer(size) for _ in range(size.encoder_layers))
        self.layer_norm = nn.LayerNorm(size.width)

    def forward(self, features: Tensor) -> Tensor:
        """Return the states of the sound."""
        x = nn.functional.gelu(self.conv1(features))
        x = nn.functional.gelu(self.conv2(x)).transpose(1, 2) + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        states: Tensor = self.layer_norm(x)
        return states


class WhisperDecoder(nn.Module):
    """Tokens [n, t] and states of the sound to scores [n, t, vocabulary]."""

    def __init__(self, size: WhisperSize) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocabulary, size.width)
        self.embed_positions = nn.Embedding(size.texts, size.width)
        for table in (self.embed_tokens, self.embed_positions):
            nn.init.normal_(table.weight, std=0.02)
        self.layers = nn.ModuleList(TextLayer(size) for _ in range(size.decoder_layers))
        self.layer_norm = nn.LayerNorm(size.width)

    def forward(self, tokens: Tensor, sound: Tensor) -> Tensor:
        """Return the scores of the next tokens."""
        x = self.embed_tokens(tokens) + self.embed_positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            assert isinstance(layer, TextLayer)
            x = layer.decode(x, sound)
        scores: Tensor = self.layer_norm(x) @ self.embed_tokens.weight.T
        return scores


class Whisper(nn.Module):
    """Both parts; their weights are called ``model.encoder...`` and ``model.decoder...``."""

    def __init__(self, size: WhisperSize) -> None:
        super().__init__()
        self.model = nn.ModuleDict(
            {"encoder": WhisperEncoder(size), "decoder": WhisperDecoder(size)}
        )
