"""The word error rate of recognized speech."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Return the fewest words to put in, leave out or change to make one row of words the other."""
    row = list(range(len(hypothesis) + 1))
    for count, word in enumerate(reference, 1):
        before, row[0] = row[0], count
        for place, other in enumerate(hypothesis, 1):
            above = row[place]
            row[place] = min(above + 1, row[place - 1] + 1, before + (word != other))
            before = above
    return row[-1]


def errors_and_words(pairs: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """All errors, and all words that were said, over pairs of what was said and recognized."""
    errors = words = 0
    for said, recognized in pairs:
        wanted = said.split()
        errors += distance(wanted, recognized.split())
        words += len(wanted)
    return errors, words
