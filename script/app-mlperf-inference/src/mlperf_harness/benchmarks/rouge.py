"""ROUGE-1, ROUGE-2 and ROUGE-L of two texts, with stems, as F1.

C.-Y. Lin, ROUGE: A Package for Automatic Evaluation of Summaries, 2004.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from .stemming import stem

METRICS = ("rouge1", "rouge2", "rougeL")
NO_WORD = re.compile(r"[^a-z0-9]+")
# Shorter words keep their form.
STEMMED_FROM = 4


def words(text: str) -> list[str]:
    """The stems of a text: letters and digits of ASCII only, everything else divides."""
    found = NO_WORD.sub(" ", text.lower()).split()
    return [stem(word) if len(word) >= STEMMED_FROM else word for word in found]


def scores(reference: str, answer: str) -> tuple[float, float, float]:
    """The three figures, in the order of ``METRICS``, each between 0 and 1."""
    wanted, given = words(reference), words(answer)
    longest = common_subsequence(wanted, given)
    return (
        _overlap(wanted, given, 1),
        _overlap(wanted, given, 2),
        f1(longest, len(wanted), len(given)),
    )


def _overlap(wanted: Sequence[str], given: Sequence[str], size: int) -> float:
    def grams(row: Sequence[str]) -> Counter[tuple[str, ...]]:
        return Counter(tuple(row[at : at + size]) for at in range(len(row) - size + 1))

    first, second = grams(wanted), grams(given)
    return f1((first & second).total(), first.total(), second.total())


def f1(common: int, wanted: int, given: int) -> float:
    """The harmonic mean of precision and recall; 0 when nothing is common."""
    return 2 * common / (wanted + given) if common else 0.0


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest row of words that both have in the same order."""
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, 1):
            above = row[place]
            row[place] = before + 1 if word == other else max(above, row[place - 1])
            before = above
    return row[-1]
