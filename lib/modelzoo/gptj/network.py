"""The tiny decoder: a two-layer transformer with a key/value cache, small enough to ship.

The signature is that of a GPT-J export with cache: ``input_ids`` and ``attention_mask`` in,
``logits`` out, and the cache of all layers in one tensor each way. Keys are mixed with the keys of
the token before ("smeared"), so that one layer can find what followed a word earlier: without it
copying takes two layers to be found together, and ten times the training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class TinyDecoderSize:
    """The shape of the decoder; ``context`` is the most tokens of prompt and answer together."""

    vocabulary: int
    context: int = 112
    width: int = 64
    heads: int = 4
    layers: int = 2
    inner: int = 128

    @property
    def head_width(self) -> int:
        """Numbers of one head for one token."""
        return self.width // self.heads


class GptjLayer(nn.Module):
    """Attention with smeared keys, then a feed-forward block."""

    def __init__(self, size: TinyDecoderSize) -> None:
        super().__init__()
        self.heads, self.head_width = size.heads, size.head_width
        self.before_attention = nn.LayerNorm(size.width)
        self.before_inner = nn.LayerNorm(size.width)
        self.query_key_value = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)
        self.up = nn.Linear(size.width, size.inner)
        self.down = nn.Linear(size.inner, size.width)
        self.smear = nn.Parameter(torch.zeros(1, size.heads, 1, 1))

    def forward(
        self, x: Tensor, real: Tensor, mask: Tensor, past: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """New states of ``x`` [n, s, width], and the keys and values of all tokens.

        ``real`` [n, s] is 0 for padding, ``mask`` [n, 1, s, p + s] is added to the scores, ``past``
        are keys and values [n, heads, p, head width]. Padding leaves zeros in the cache, as if
        nothing were there: otherwise the first word would be smeared with it.
        """
        n, s = x.shape[0], x.shape[1]
        packed = self.query_key_value(self.before_attention(x))
        shaped = packed.reshape(n, s, 3, self.heads, self.head_width).permute(0, 2, 3, 1, 4)
        query = shaped[:, 0] / math.sqrt(self.head_width)
        new = shaped[:, 1:] * real[:, None, None, :, None]
        keys = torch.cat([past[0], new[:, 0]], dim=2)
        values = torch.cat([past[1], new[:, 1]], dim=2)
        # Scores with smeared keys are smeared scores, which are much smaller than all keys.
        scores = query @ keys.transpose(2, 3)
        earlier = torch.cat([torch.zeros_like(scores[..., :1]), scores[..., :-1]], dim=3)
        share = torch.sigmoid(self.smear)
        scores = (1 - share) * scores + share * earlier + mask
        mixed = (torch.softmax(scores, dim=-1) @ values).transpose(1, 2).reshape(n, s, -1)
        x = x + self.out(mixed)
        x = x + self.down(torch.relu(self.up(self.before_inner(x))))
        return x, (keys, values)


class TinyDecoder(nn.Module):
    """Next-token scores; the token embedding is also the output layer."""

    def __init__(self, size: TinyDecoderSize) -> None:
        super().__init__()
        self.size = size
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.layers = nn.ModuleList([GptjLayer(size) for _ in range(size.layers)])
        self.last = nn.LayerNorm(size.width)
        nn.init.normal_(self.tokens.weight, std=0.1)
        nn.init.normal_(self.positions.weight, std=0.02)

    def empty_past(self, count: int) -> Tensor:
        """The cache before the first token."""
        size = self.size
        return torch.zeros(count, 2 * size.layers, size.heads, 0, size.head_width)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, past: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Scores [n, s, vocabulary] of the tokens after ``input_ids`` [n, s], and the new cache.

        ``attention_mask`` [n, p + s] is 0 for padding, on the left; ``past`` is
        [n, 2 x layers, heads, p, head width].
        """
        s = input_ids.shape[1]
        places = torch.clamp(torch.cumsum(attention_mask, dim=1) - 1, min=0)
        total = attention_mask.shape[1]
        order = torch.arange(total)
        causal = order[None, :] <= order[total - s :, None]
        seen = causal[None] & (attention_mask[:, None, :] > 0)
        mask = torch.where(seen, 0.0, -1e4)[:, None]
        x = self.tokens(input_ids) + self.positions(places[:, total - s :])
        real = attention_mask[:, total - s :].to(x.dtype)
        presents: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            x, kept = layer(x, real, mask, (past[:, 2 * number], past[:, 2 * number + 1]))
            presents += kept
        return self.last(x) @ self.tokens.weight.t(), torch.stack(presents, dim=1)
