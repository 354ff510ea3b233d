"""The word error rate of recognized speech."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Words that may be written as one.
MOST_JOINED = 3


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


def with_joined_words(
    said: Sequence[str], heard: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return both rows of words, where up to three that the other has as one are joined.

    Words are taken in pairs from the beginning, as the reference implementation of Whisper does.
    """
    left, right = 0, 0
    rows: tuple[list[str], list[str]] = ([], [])
    while left < len(said) and right < len(heard):
        one, other = _joined(said[left : left + MOST_JOINED], heard[right : right + MOST_JOINED])
        rows[0].append("".join(said[left : left + one]))
        rows[1].append("".join(heard[right : right + other]))
        left, right = left + one, right + other
    return (*rows[0], *said[left:]), (*rows[1], *heard[right:])


def _joined(said: Sequence[str], heard: Sequence[str]) -> tuple[int, int]:
    """Return how many words of both belong together, at the beginning of two rows."""
    for count in range(1, MOST_JOINED + 1):
        if "".join(said[:count]) == heard[0]:
            return min(count, len(said)), 1
        if "".join(heard[:count]) == said[0]:
            return 1, min(count, len(heard))
    return 1, 1
