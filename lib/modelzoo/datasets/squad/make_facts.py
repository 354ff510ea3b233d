"""Write questions about made-up people in the layout of SQuAD v1.1, the same for the same seed.

A context is a list of plain facts; every question asks for one of them, and its answer is a span
of the context. Names, towns and trades are composed of syllables, so that a word piece
vocabulary cuts them into several pieces, and the people of the held-out part are in no context of
the training part. Lengths vary as those of SQuAD do: most contexts are short, some are longer than
a model takes at once.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelzoo import program

VERSION = "1"
VOWELS = {
    **dict.fromkeys("bdlmnrt", "aeiou"),
    **dict.fromkeys("fksv", "aeio"),
    **dict.fromkeys("pz", "aeo"),
    "g": "aeou",
}
SYLLABLES = [first + vowel for first in sorted(VOWELS) for vowel in VOWELS[first]]
ENDINGS = {"name": ("n", "r", "s", "l"), "place": ("stad", "burg", "ville"), "thing": ("x", "k")}

# The relation in a fact, and the question for its value.
RELATIONS = (
    ("lives in", "Where does {name} live?", "place"),
    ("works at", "Where does {name} work?", "place"),
    ("plays the", "What does {name} play?", "thing"),
    ("likes", "Who does {name} like?", "name"),
)
SEEDS = {"train": 20_000, "dev": 90_000}
SIZES = {"train": 64, "dev": 600}


@dataclass(frozen=True, slots=True)
class Fact:
    """A person, a relation and its value."""

    name: str
    relation: int
    value: str

    @property
    def sentence(self) -> str:
        """The fact in words."""
        return f"{self.name} {RELATIONS[self.relation][0]} {self.value}."

    @property
    def question(self) -> str:
        """Return the question for the value."""
        return RELATIONS[self.relation][1].format(name=self.name)


def word(generator: random.Random, kind: str) -> str:
    """A capitalized word of two or three syllables and an ending."""
    count = generator.choice((2, 2, 3))
    stem = "".join(generator.choice(SYLLABLES) for _ in range(count))
    return (stem + generator.choice(ENDINGS[kind])).capitalize()


def value(generator: random.Random, kind: str) -> str:
    """What a fact ends with: one word, or two for people."""
    if kind == "name":
        return f"{word(generator, 'name')} {word(generator, 'name')}"
    return word(generator, kind) if kind == "place" else word(generator, kind).lower()


def facts(generator: random.Random, count: int) -> list[Fact]:
    """``count`` different facts about few people; some of those share their first name."""
    people: list[str] = []
    firsts = [word(generator, "name") for _ in range(max(2, count // 5))]
    while len(people) < max(2, count // 3):
        name = f"{generator.choice(firsts)} {word(generator, 'name')}"
        if name not in people:
            people.append(name)
    pairs = [(name, relation) for name in people for relation in range(len(RELATIONS))]
    chosen = generator.sample(pairs, count)
    return [Fact(name, kind, value(generator, RELATIONS[kind][2])) for name, kind in chosen]


def paragraph(generator: random.Random, number: str, questions: int) -> dict[str, Any]:
    """A context and questions about it, as SQuAD writes them down."""
    count = min(52, 4 + int(generator.gammavariate(2.2, 3.7)))
    known = facts(generator, count)
    context = " ".join(fact.sentence for fact in known)
    question_entries = []
    for index, fact in enumerate(generator.sample(known, min(questions, count))):
        start = context.index(fact.sentence) + len(fact.sentence) - len(fact.value) - 1
        answers = [{"answer_start": start, "text": fact.value}]
        question_entries.append(
            {"id": f"{number}-{index}", "question": fact.question, "answers": answers}
        )
    return {"context": context, "qas": question_entries}


def part(name: str, contexts: int, seed: int, questions: int = 1) -> dict[str, Any]:
    """A whole part (``train`` or ``dev``): one article with ``contexts`` paragraphs."""
    generator = random.Random(seed)
    paragraphs = [paragraph(generator, f"{name}-{number}", questions) for number in range(contexts)]
    return {"version": "1.1", "data": [{"title": f"tiny {name}", "paragraphs": paragraphs}]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write train-v1.1.json and dev-v1.1.json into the named folder."""
    out: Path = program.parser(__doc__).parse_args(arguments).out
    for name, size in SIZES.items():
        text = json.dumps(part(name, size, SEEDS[name]), indent=1) + "\n"
        (out / f"{name}-v1.1.json").write_text(text, encoding="utf-8")
    print(f"{SIZES['dev']} questions and {SIZES['train']} for training written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
