"""The tiny form of CNN/DailyMail: generated articles in which tagged facts make up the summary.

An article is a row of sentences. Key sentences carry an ordinal ("first", "second", "third") and
stand in any order between sentences that are only noise; some of the noise has the form of a fact
too. The summary is the key sentences in the order of their ordinals. Words are spelled by a fixed
list, so that the vocabulary is known beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ORDINALS = ("first", "second", "third")
NOISE_OPENINGS = ("meanwhile", "elsewhere", "earlier", "later")
FILLERS = (
    "nobody knew why",
    "the weather stayed calm",
    "more news follows soon",
    "crowds gathered at noon",
)
VERBS = (
    "opened",
    "closed",
    "bought",
    "sold",
    "found",
    "lost",
    "praised",
    "painted",
    "visited",
    "repaired",
    "designed",
    "inspected",
)
HEADS = ("ba", "do", "ke", "li", "mu", "ra", "so", "ti")
TAILS = ("lan", "mer", "nov", "rik", "sto")
KINDS = ("n", "p", "t")
SPECIAL = ("<pad>", "<eos>", "<unk>")
PROMPT_END = ("summary", ":")


@dataclass(frozen=True, slots=True)
class NewsStory:
    """One article and its summary, as words separated by blanks."""

    article: str
    summary: str


def invented_names(kind: str) -> tuple[str, ...]:
    """Return the 40 names (``n``), towns (``p``) or objects (``t``) of the generated news."""
    ending = {"n": "", "p": "ville", "t": "ette"}[kind]
    return tuple(head + tail + ending for head in HEADS for tail in TAILS)


def vocabulary() -> tuple[str, ...]:
    """Every token in the order of its number: special ones, then the words."""
    words = {".", ",", "the", "in", *PROMPT_END, *ORDINALS, *NOISE_OPENINGS, *VERBS}
    for filler in FILLERS:
        words.update(filler.split())
    for kind in KINDS:
        words.update(invented_names(kind))
    return (*SPECIAL, *sorted(words))


def _fact(random: np.random.Generator) -> str:
    name, place, thing = (str(random.choice(invented_names(kind))) for kind in KINDS)
    return f"{name} {random.choice(VERBS)} the {thing} in {place} ."


def _noise(random: np.random.Generator) -> str:
    opening = random.choice(NOISE_OPENINGS)
    if random.random() < 0.5:
        return f"{opening} , {_fact(random)}"
    return f"{opening} , {random.choice(FILLERS)} ."


def story(random: np.random.Generator) -> NewsStory:
    """One random story with two or three key facts and one to three noise sentences."""
    ordinals = ORDINALS[: int(random.integers(2, 4))]
    keys = [f"{ordinal} , {_fact(random)}" for ordinal in ordinals]
    sentences = [*keys, *(_noise(random) for _ in range(int(random.integers(1, 4))))]
    order = random.permutation(len(sentences))
    return NewsStory(" ".join(sentences[k] for k in order), " ".join(keys))


def stories(count: int, seed: int) -> list[NewsStory]:
    """``count`` stories; the same seed gives the same ones."""
    random = np.random.default_rng(seed)
    return [story(random) for _ in range(count)]
