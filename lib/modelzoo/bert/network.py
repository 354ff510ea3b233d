"""The tiny BERT: the inputs and outputs of BERT-large for SQuAD around two small layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 64
HEADS = 4
LAYERS = 2
REACH = 24
MASKED = -1e4


class BertAttention(nn.Module):
    """Self-attention with a learned bias per distance up to ``REACH``."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.distance = nn.Parameter(torch.zeros(HEADS, 2 * REACH + 1))

    def forward(self, x: Tensor, absent: Tensor, steps: Tensor) -> Tensor:
        """``x`` [n, t, WIDTH]; ``absent`` [n, 1, 1, t] is added; ``steps`` [t, t] are indices."""
        n, t = x.shape[0], x.shape[1]
        q, k, v = self.mixed(x).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        weights = torch.softmax(scores + self.distance[:, steps] + absent, dim=-1)
        mixed: Tensor = self.out((weights @ v).transpose(1, 2).reshape(n, t, WIDTH))
        return mixed


class BertLayer(nn.Module):
    """Attention and a feed-forward part, both with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = BertAttention()
        self.first = nn.LayerNorm(WIDTH)
        self.second = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, absent: Tensor, steps: Tensor) -> Tensor:
        """Same shape in and out."""
        x = x + self.attention(self.first(x), absent, steps)
        out: Tensor = x + self.narrow(functional.relu(self.wide(self.second(x))))
        return out


class TinyBert(nn.Module):
    """Token numbers in, a start and an end logit for each token out.

    A model of this size does not find out by itself in a minute that a question and its answer
    share words. So beside a token's own embedding stands whether the token occurs in the other
    segment as well, computed here from the very inputs that BERT has.
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, WIDTH)
        self.segment = nn.Embedding(2, WIDTH)
        self.shared = nn.Embedding(2, WIDTH)
        self.layers = nn.ModuleList(BertLayer() for _ in range(LAYERS))
        self.last = nn.LayerNorm(WIDTH)
        self.spans = nn.Linear(WIDTH, 2)

    def forward(self, ids: Tensor, mask: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        """All inputs [n, t] int64; two outputs [n, t] float32."""
        real = mask.unsqueeze(1) * mask.unsqueeze(2)
        same = (ids.unsqueeze(1) == ids.unsqueeze(2)).to(torch.int64) * real
        other = (segments.unsqueeze(1) != segments.unsqueeze(2)).to(torch.int64)
        shared = (same * other).amax(dim=2)
        x = self.token(ids) + self.segment(segments) + self.shared(shared)
        absent = ((1 - mask).to(x.dtype) * MASKED).unsqueeze(1).unsqueeze(1)
        places = torch.arange(ids.shape[1], device=ids.device)
        steps = (places.unsqueeze(0) - places.unsqueeze(1)).clamp(-REACH, REACH) + REACH
        for layer in self.layers:
            x = layer(x, absent, steps)
        logits = self.spans(self.last(x)) + absent.squeeze(1).transpose(1, 2)
        return logits[..., 0], logits[..., 1]
