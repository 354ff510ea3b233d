"""Llama in PyTorch, for training; its weights have the names of Hugging Face's checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from modelzoo.llama.size import LlamaSize

INITIAL_SPREAD = 0.05
# Each rotated pair of numbers: sine and cosine [tokens, head width].
Rotation = tuple[Tensor, Tensor]


class LlamaAttention(nn.Module):
    """Grouped attention with rotary embedding."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        keys = size.key_heads * size.head_width
        self.head_width = size.head_width
        self.q_proj = nn.Linear(size.width, size.width, bias=False)
        self.k_proj = nn.Linear(size.width, keys, bias=False)
        self.v_proj = nn.Linear(size.width, keys, bias=False)
        self.o_proj = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: Tensor, rotation: Rotation) -> Tensor:
        """Return what attention adds to ``x`` [n, s, width]; a token sees those before it."""
        query, key, value = (
            self._heads(part, x) for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(
            _rotated(query, rotation),
            _rotated(key, rotation),
            value,
            is_causal=True,
            enable_gqa=True,
        )
        added: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(x.shape))
        return added

    def _heads(self, projection: nn.Module, x: Tensor) -> Tensor:
        states: Tensor = projection(x)
        return states.unflatten(2, (-1, self.head_width)).transpose(1, 2)


class LlamaGate(nn.Module):
    """The gated feed-forward part."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size.width, size.inner, bias=False)
        self.up_proj = nn.Linear(size.width, size.inner, bias=False)
        self.down_proj = nn.Linear(size.inner, size.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what it adds to ``x`` [n, s, width]."""
        added: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return added


class LlamaLayer(nn.Module):
    """Attention, then the feed-forward part, both of normalized states."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(size.width, size.epsilon)
        self.self_attn = LlamaAttention(size)
        self.post_attention_layernorm = nn.RMSNorm(size.width, size.epsilon)
        self.mlp = LlamaGate(size)

    def forward(self, x: Tensor, rotation: Rotation) -> Tensor:
        """Return the new states of ``x`` [n, s, width]."""
        x = x + self.self_attn(self.input_layernorm(x), rotation)
        states: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return states


class LlamaBody(nn.Module):
    """Everything but the output layer."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList([LlamaLayer(size) for _ in range(size.layers)])
        self.norm = nn.RMSNorm(size.width, size.epsilon)


class Llama(nn.Module):
    """States of tokens, and the scores of those that follow; the output layer is the embedding."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.size = size
        self.model = LlamaBody(size)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=INITIAL_SPREAD)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the normalized states [n, s, width] of ``tokens`` [n, s], padded on the right."""
        rotation = self._rotation(tokens.shape[1])
        x: Tensor = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, rotation)
        states: Tensor = self.model.norm(x)
        return states

    def scores(self, states: Tensor) -> Tensor:
        """Return the scores [..., vocabulary] of the tokens that follow these states."""
        return states @ self.model.embed_tokens.weight.t()

    def _rotation(self, count: int) -> Rotation:
        half = torch.arange(0, self.size.head_width, 2, dtype=torch.float32)
        speeds = self.size.theta ** (-half / self.size.head_width)
        angles = torch.outer(torch.arange(count, dtype=torch.float32), speeds).repeat(1, 2)
        return angles.sin(), angles.cos()


def _rotated(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotate the pairs of [n, heads, s, head width]: a number and the one half a head later."""
    first, second = x.chunk(2, dim=-1)
    sine, cosine = rotation
    return x * cosine + torch.cat((-second, first), dim=-1) * sine
