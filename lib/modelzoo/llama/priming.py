"""A start for the tiny Llama from which it soon learns to copy.

Copying needs two layers that fit together: one in which a token learns of those before it, and one
that looks for the place where the same tokens came before. From random weights most of a training
goes until both are there together. So two heads of the first layer begin by looking one and two
tokens back, and two of the second by comparing what they found; training changes all of it.
"""

from __future__ import annotations

import torch

from modelzoo.llama.network import INITIAL_SPREAD, Llama, LlamaAttention

# The first number of every token is this, so that a head can look at a distance alone.
CONSTANT = 0.3
# How sharply heads look at a distance, by the pairs of numbers that are rotated fastest.
SHARPNESS, FAST_PAIRS = 7.0, 3
# Pairs that are hardly rotated carry what is compared: so many numbers for a token, of two.
SLOW_PAIRS, CODE = 11, 11
COPY, COMPARE = 2 * INITIAL_SPREAD, 1.5


def prime(network: Llama) -> None:
    """Set parts of the first two layers of a network with at least two heads for a key."""
    with torch.no_grad():
        network.model.embed_tokens.weight[:, 0] = CONSTANT
        first, second = (layer.self_attn for layer in network.model.layers[:2])
        _look_back(network, first)
        _compare(network, first, second)


def _look_back(network: Llama, layer: LlamaAttention) -> None:
    size = network.size
    width, half = size.head_width, size.head_width // 2
    spread = ((CONSTANT**2 + (size.width - 1) * INITIAL_SPREAD**2) / size.width) ** 0.5
    strength = SHARPNESS * spread / CONSTANT
    speeds = size.theta ** (-torch.arange(FAST_PAIRS) / half)
    layer.k_proj.weight[:width] = 0
    layer.k_proj.weight[:FAST_PAIRS, 0] = strength
    for head, distance in enumerate((1, 2)):
        query = layer.q_proj.weight[head * width : (head + 1) * width]
        query.zero_()
        query[:FAST_PAIRS, 0] = strength * torch.cos(distance * speeds)
        query[half : half + FAST_PAIRS, 0] = -strength * torch.sin(distance * speeds)


def _compare(network: Llama, first: LlamaAttention, second: LlamaAttention) -> None:
    size = network.size
    width, half, codes = size.head_width, size.head_width // 2, 2 * CODE
    own = torch.randn(codes, size.width) / size.width**0.5
    own[:, 0] = 0
    earlier, _ = torch.linalg.qr(torch.randn(size.width, 2 * codes))
    earlier[0] = 0
    one_back, two_back = earlier.split(codes, dim=1)
    first.v_proj.weight[:width] = 0
    first.v_proj.weight[:codes] = own
    first.o_proj.weight[:, : 2 * width] = 0
    strength = COPY * (size.width / codes) ** 0.5
    first.o_proj.weight[:, :codes] = strength * one_back
    first.o_proj.weight[:, width : width + codes] = strength * two_back
    slow = [*range(half - SLOW_PAIRS, half), *range(width - SLOW_PAIRS, width)]
    newer, older = slow[:CODE], slow[CODE:]
    second.k_proj.weight[:width] = 0
    second.k_proj.weight[newer] = COMPARE * one_back.t()[:CODE]
    second.k_proj.weight[older] = COMPARE * two_back.t()[:CODE]
    for head in range(2):
        query = second.q_proj.weight[head * width : (head + 1) * width]
        query.zero_()
        query[newer] = 2 * COMPARE * own[:CODE]
        query[older] = COMPARE * one_back.t()[:CODE]
