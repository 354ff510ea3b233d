"""The tokenizer of BERT (uncased): words by the rules of the paper's code, then word pieces.

Facts: Devlin et al., BERT (2018), and its published vocabulary. Every token keeps its position in
the text, so that an answer is cut out of the text itself.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LONGEST_WORD = 100
CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@dataclass(frozen=True, slots=True)
class WordToken:
    """A word or a piece of one, and the characters ``start`` to ``end`` of the text behind it."""

    text: str
    start: int
    end: int


def read_vocabulary(path: Path) -> dict[str, int]:
    """One token a line; its number is its line, counted from 0."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line.strip(): number for number, line in enumerate(lines)}


def words(text: str) -> Iterator[WordToken]:
    """Lower-case words without accents; every punctuation mark and Chinese character is a word."""
    letters: list[tuple[str, int]] = []
    for place, character in enumerate(text):
        for plain in _read(character):
            if plain is not None and not _stands_alone(plain):
                letters.append((plain, place))
                continue
            if letters:
                yield _word(letters)
                letters = []
            if plain is not None:
                yield WordToken(plain, place, place + 1)
    if letters:
        yield _word(letters)


def _word(letters: Sequence[tuple[str, int]]) -> WordToken:
    return WordToken("".join(letter for letter, _ in letters), letters[0][1], letters[-1][1] + 1)


def _read(character: str) -> Sequence[str | None]:
    """What a character of the text is read as: letters and marks, or None for a space."""
    if _is_dropped(character):
        return ()
    if character.isspace() or unicodedata.category(character) == "Zs":
        return (None,)
    return tuple(_plain(character))


def pieces(word: WordToken, vocabulary: Mapping[str, int]) -> list[WordToken]:
    """The longest pieces of the vocabulary from the left; ``[UNK]`` when they do not add up."""
    unknown = [WordToken("[UNK]", word.start, word.end)]
    text = word.text
    if len(text) > LONGEST_WORD:
        return unknown
    tokens = []
    begin = 0
    # Only where lower-casing kept the number of characters do pieces have their own positions.
    aligned = word.end - word.start == len(text)
    while begin < len(text):
        mark = "##" if begin else ""
        end = len(text)
        while end > begin and mark + text[begin:end] not in vocabulary:
            end -= 1
        if end == begin:
            return unknown
        span = (word.start + begin, word.start + end) if aligned else (word.start, word.end)
        tokens.append(WordToken(mark + text[begin:end], *span))
        begin = end
    return tokens


def tokenize(text: str, vocabulary: Mapping[str, int]) -> list[WordToken]:
    """All pieces of a text."""
    return [piece for word in words(text) for piece in pieces(word, vocabulary)]


def _plain(character: str) -> str:
    """Lower case without accents; may be empty or several characters."""
    split = unicodedata.normalize("NFD", character.lower())
    return "".join(one for one in split if unicodedata.category(one) != "Mn")


def _is_dropped(character: str) -> bool:
    if character in "\t\n\r":
        return False
    code = ord(character)
    return code in (0, 0xFFFD) or unicodedata.category(character) in ("Cc", "Cf")


def _is_chinese(character: str) -> bool:
    code = ord(character)
    return any(first <= code <= last for first, last in CJK)


def _stands_alone(character: str) -> bool:
    return _is_chinese(character) or _is_punctuation(character)


def _is_punctuation(character: str) -> bool:
    code = ord(character)
    ascii_mark = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_mark or unicodedata.category(character).startswith("P")
