"""Porter's stemmer with the extensions that ROUGE is customarily computed with.

M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980. The extensions are those of
NLTK, on which published ROUGE figures rest: a list of irregular words, short words in "-ies" and
"-ied", and three more suffixes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

Rule = tuple[str, str, Callable[[str], bool]]

IRREGULAR = {
    **dict.fromkeys(("sky", "skies"), "sky"),
    **dict.fromkeys(("inning", "innings"), "inning"),
    **dict.fromkeys(("outing", "outings"), "outing"),
    **dict.fromkeys(("canning", "cannings"), "canning"),
    **{word: word for word in ("news", "howe", "proceed", "exceed", "succeed")},
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
}


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of a word in small letters."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (_plural, _past, _final_y, _long_suffix, _suffix, _last_suffix, _final_e, _final_l):
        word = step(word)
    return word


def _consonant(word: str, place: int) -> bool:
    if word[place] == "y":
        return place == 0 or not _consonant(word, place - 1)
    return word[place] not in "aeiou"


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    kinds = [_consonant(word, place) for place in range(len(word))]
    return sum(1 for before, after in pairwise(kinds) if after and not before)


def _positive(word: str) -> bool:
    return _measure(word) > 0


def _above_one(word: str) -> bool:
    return _measure(word) > 1


def _has_vowel(word: str) -> bool:
    return any(not _consonant(word, place) for place in range(len(word)))


def _double(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _consonant(word, len(word) - 1)


def _short(word: str) -> bool:
    """Whether it ends as "hop" does, or is as "at" is."""
    if len(word) == 2:
        return not _consonant(word, 0) and _consonant(word, 1)
    return (
        len(word) >= 3
        and _consonant(word, len(word) - 3)
        and not _consonant(word, len(word) - 2)
        and _consonant(word, len(word) - 1)
        and word[-1] not in "wxy"
    )


def _apply(word: str, rules: Sequence[Rule]) -> str:
    """Use the first rule whose suffix fits; if its condition does not hold, nothing changes."""
    for suffix, other, condition in rules:
        if word.endswith(suffix):
            rest = word.removesuffix(suffix)
            return rest + other if condition(rest) else word
    return word


def _plural(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    for suffix, other in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(suffix):
            return word.removesuffix(suffix) + other
    return word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _positive(word[:-3]) else word
    for suffix in ("ed", "ing"):
        rest = word.removesuffix(suffix)
        if rest != word and _has_vowel(rest):
            return _repaired(rest)
    return word


def _repaired(word: str) -> str:
    """What stood before "-ed" or "-ing" with the letters that these swallow."""
    for suffix in ("at", "bl", "iz"):
        if word.endswith(suffix):
            return word + "e"
    if _double(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _short(word) else word


def _final_y(word: str) -> str:
    rest = word[:-1]
    if word.endswith("y") and len(rest) > 1 and _consonant(rest, len(rest) - 1):
        return rest + "i"
    return word


LONG_SUFFIXES = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
)
SUFFIXES = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
BEFORE_ION = ("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent")
AFTER_ION = ("ou", "ism", "ate", "iti", "ous", "ive", "ize")


def _long_suffix(word: str) -> str:
    if word.endswith("alli") and _positive(word[:-4]):
        return _long_suffix(word[:-2])
    rules: list[Rule] = [(suffix, other, _positive) for suffix, other in LONG_SUFFIXES]
    rules.append(("logi", "log", lambda rest: _positive(rest + "l")))
    return _apply(word, rules)


def _suffix(word: str) -> str:
    return _apply(word, [(suffix, other, _positive) for suffix, other in SUFFIXES])


def _last_suffix(word: str) -> str:
    rules: list[Rule] = [(suffix, "", _above_one) for suffix in BEFORE_ION]
    rules.append(("ion", "", lambda rest: _above_one(rest) and rest[-1] in "st"))
    rules += [(suffix, "", _above_one) for suffix in AFTER_ION]
    return _apply(word, rules)


def _final_e(word: str) -> str:
    rest = word[:-1]
    if not word.endswith("e"):
        return word
    measure = _measure(rest)
    return rest if measure > 1 or (measure == 1 and not _short(rest)) else word


def _final_l(word: str) -> str:
    return word[:-1] if word.endswith("ll") and _above_one(word[:-1]) else word
