"""Answers out of logits, and how right they are: the rules of SQuAD v1.1.

Facts: Rajpurkar et al., SQuAD (2016), and its evaluation: answers are compared in lower case
without punctuation and articles; exact match and F1 over words, the best over all right answers.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .base import Array

# How many places of either kind are tried, and the longest answer in tokens.
BEST = 20
LONGEST_ANSWER = 30

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class SquadExample:
    """A text and the answers that count as right."""

    context: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spans:
    """For every token of every feature the characters behind it; see the preprocessing script."""

    examples: Array
    starts: Array
    ends: Array
    central: Array

    @classmethod
    def read(cls, folder: Path) -> Spans:
        """Map the arrays of a preprocessed data set."""
        names = ("examples", "starts", "ends", "central")
        return cls(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in names))


def read_examples(folder: Path) -> list[SquadExample]:
    """Return the questions of a preprocessed data set."""
    rows: list[dict[str, Any]] = json.loads((folder / "examples.json").read_text(encoding="utf-8"))
    return [SquadExample(row["context"], tuple(row["answers"])) for row in rows]


def best_span(
    logits: Array, starts: Array, ends: Array, central: Array
) -> tuple[float, int, int] | None:
    """Score and characters of the best answer in one feature, from logits [tokens, 2]."""
    firsts = np.argsort(-logits[:, 0], kind="stable")[:BEST]
    lasts = np.argsort(-logits[:, 1], kind="stable")[:BEST]
    firsts = firsts[(starts[firsts] >= 0) & central[firsts]]
    lasts = lasts[ends[lasts] >= 0]
    lengths = lasts[None, :] - firsts[:, None] + 1
    scores = logits[firsts, 0][:, None] + logits[lasts, 1][None, :]
    scores = np.where((lengths >= 1) & (lengths <= LONGEST_ANSWER), scores, -np.inf)
    if not scores.size or np.isneginf(scores.max()):
        return None
    row, column = np.unravel_index(int(scores.argmax()), scores.shape)
    return float(scores[row, column]), int(starts[firsts[row]]), int(ends[lasts[column]])


def answers(
    logits: Iterator[Array], rows: Sequence[int], spans: Spans, examples: Sequence[SquadExample]
) -> dict[int, str]:
    """The answer to every example that has a feature among ``rows``; empty where there is none."""
    best: dict[int, tuple[float, int, int]] = {}
    requested: set[int] = set()
    for row, each in zip(rows, logits, strict=True):
        example = int(spans.examples[row])
        requested.add(example)
        span = best_span(each, spans.starts[row], spans.ends[row], spans.central[row])
        if span and (example not in best or span[0] > best[example][0]):
            best[example] = span
    return {
        number: examples[number].context[best[number][1] : best[number][2]]
        if number in best
        else ""
        for number in requested
    }


def normalize(text: str) -> str:
    """Lower case, without punctuation, articles and needless spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def f1(answer: str, right: str) -> float:
    """Harmonic mean of precision and recall over words, 0 to 1."""
    words, wanted = normalize(answer).split(), normalize(right).split()
    common = sum((Counter(words) & Counter(wanted)).values())
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def score(answers: dict[int, str], examples: Sequence[SquadExample]) -> tuple[float, float]:
    """Exact match and F1 in percent over the examples that were answered."""
    exact = sum(
        max(normalize(text) == normalize(right) for right in examples[number].answers)
        for number, text in answers.items()
    )
    shared = sum(
        max(f1(text, right) for right in examples[number].answers)
        for number, text in answers.items()
    )
    return 100.0 * exact / len(answers), 100.0 * shared / len(answers)
