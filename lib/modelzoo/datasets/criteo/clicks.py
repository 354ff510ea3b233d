"""A world of advertisements and people in which the probability of a click is known.

A shown advertisement has 13 counts and 26 categories, as in Criteo's click logs. Planted effects
make up the log-odds of a click: one of every count, one of every category, and one of pairs of
categories that only a model with interactions can see. As the true probability of every click is
known, so is the AUC that no model can exceed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DENSE = 13
# Number of values of the 26 categories.
ROWS = (
    90,
    40,
    60,
    30,
    24,
    12,
    80,
    50,
    16,
    70,
    45,
    64,
    10,
    20,
    36,
    75,
    8,
    28,
    56,
    18,
    84,
    66,
    54,
    32,
    22,
    14,
)
WORLD_SEED = 23
EFFECT_WIDTH = 3
PAIRS = ((0, 6), (1, 9), (2, 15), (3, 20), (7, 11), (10, 21), (14, 18), (22, 23))
MISSING = 0.03
CLICK_OFFSET = -1.6

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clicks:
    """``counts`` [n, 13] with -1 where missing, ``categories`` [n, 26], the truth, the label."""

    counts: Integers
    categories: Integers
    probability: Floats
    label: Integers


@dataclass(frozen=True, slots=True)
class ClickModel:
    """The planted effects; the same for every data set that is drawn."""

    of_counts: Floats
    of_values: tuple[Floats, ...]
    of_pairs: tuple[tuple[Floats, Floats], ...]


def world() -> ClickModel:
    """The one world, from its fixed seed."""
    random = np.random.default_rng(WORLD_SEED)
    return ClickModel(
        of_counts=random.normal(0, 0.25, DENSE),
        of_values=tuple(random.normal(0, 0.2, rows) for rows in ROWS),
        of_pairs=tuple(
            (
                random.normal(0, 0.6, (ROWS[first], EFFECT_WIDTH)),
                random.normal(0, 0.6, (ROWS[second], EFFECT_WIDTH)),
            )
            for first, second in PAIRS
        ),
    )


def _popular(random: np.random.Generator, rows: int, count: int) -> Integers:
    """Values of a category, a few of them much more often than others."""
    share = 1.0 / (np.arange(rows) + 5.0)
    bounds = np.cumsum(share / share.sum())
    return np.minimum(np.searchsorted(bounds, random.random(count)), rows - 1).astype(np.int64)


def draw(count: int, seed: int) -> Clicks:
    """``count`` shown advertisements; the same seed gives the same ones."""
    random = np.random.default_rng(seed)
    effects = world()
    counts = np.floor(np.exp(random.normal(1.5, 1.2, (count, DENSE)))).astype(np.int64)
    counts[random.random((count, DENSE)) < MISSING] = -1
    categories = np.stack([_popular(random, rows, count) for rows in ROWS], axis=1)
    odds = CLICK_OFFSET + (np.log1p(np.maximum(counts, 0)) - 1.6) @ effects.of_counts
    for column, effect in enumerate(effects.of_values):
        odds += effect[categories[:, column]]
    for (first, second), (left, right) in zip(PAIRS, effects.of_pairs, strict=True):
        odds += (left[categories[:, first]] * right[categories[:, second]]).sum(axis=1)
    probability = 1.0 / (1.0 + np.exp(-odds))
    label = (random.random(count) < probability).astype(np.int64)
    return Clicks(counts, categories, probability, label)


def auc(label: Integers, score: Floats) -> float:
    """The share of pairs of a click and a non-click that ``score`` puts in the right order.

    For scores without ties: the true probabilities of random advertisements.
    """
    rank = np.empty(len(score))
    rank[np.argsort(score, kind="stable")] = np.arange(1, len(score) + 1)
    clicks = int(label.sum())
    others = len(label) - clicks
    return float((rank[label == 1].sum() - clicks * (clicks + 1) / 2) / (clicks * others))
