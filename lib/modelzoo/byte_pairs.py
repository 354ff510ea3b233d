"""Byte-level byte-pair tokenizers: the letters of bytes, and a small one made of given words.

Source of the alphabet and of the merging: GPT-2's tokenizer, whose file format is that of
Hugging Face's ``tokenizer.json``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

BEGIN, END = "<|begin_of_text|>", "<|end_of_text|>"
SPECIAL = (BEGIN, END)
# Words with the blank before them, marks, and other blanks; for texts without digits it splits as
# GPT-2's pattern does.
WORD = re.compile(r" ?[^\W\d_]+| ?[^\s\w]+|\s")


def _bytes_of_letters() -> dict[str, int]:
    """Return the bytes of the printable letters of a byte-level tokenizer."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + place): byte for place, byte in enumerate(others)}


LETTERS = _bytes_of_letters()
_LETTER_OF = {byte: letter for letter, byte in LETTERS.items()}


# Of tokenizers of sentence pieces: a blank, a byte, and what stands for other letters.
BLANK, BYTE, UNKNOWN = "\u2581", re.compile("<0x([0-9A-F]{2})>"), "<unk>"
PIECE_SPECIAL = (UNKNOWN, "<s>", "</s>")


def sentence_piece_of(name: str) -> str:
    """Return the bytes of a token of sentence pieces as Latin-1; special tokens have none.

    >>> sentence_piece_of("\u2581the"), sentence_piece_of("<0x0A>"), sentence_piece_of("</s>")
    (' the', '\\n', '')
    """
    if name in PIECE_SPECIAL:
        return ""
    if byte := BYTE.fullmatch(name):
        return chr(int(byte[1], 16))
    return name.replace(BLANK, " ").encode().decode("latin-1")


def piece_of(name: str) -> str:
    """Return the bytes of a token as Latin-1; special tokens have none."""
    if name.startswith("<|") and name.endswith("|>"):
        return ""
    return "".join(chr(LETTERS[letter]) for letter in name if letter in LETTERS)


def letters_of(word: str) -> tuple[str, ...]:
    """Return the letters of the bytes of a word."""
    return tuple(_LETTER_OF[byte] for byte in word.encode())


@dataclass(frozen=True)
class BytePairTokenizer:
    """Tokens in the order of their numbers: special ones, bytes, and those of ``merges``."""

    merges: tuple[tuple[str, str], ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of all tokens."""
        return (*SPECIAL, *(_LETTER_OF[byte] for byte in range(256)), *map("".join, self.merges))

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Return the number of every token."""
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _ranks(self) -> Mapping[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def _known(self) -> dict[str, list[int]]:
        return {}

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without special ones."""
        return [token for word in WORD.findall(text) for token in self._word(word)]

    def _word(self, word: str) -> list[int]:
        if word not in self._known:
            parts = letters_of(word)
            while pairs := [pair for pair in _pairs(parts) if pair in self._ranks]:
                parts = _merged(parts, min(pairs, key=self._ranks.__getitem__))
            self._known[word] = [self.numbers[part] for part in parts]
        return self._known[word]

    def document(self) -> dict[str, Any]:
        """Return the contents of ``tokenizer.json``."""
        begin = {"SpecialToken": {"id": BEGIN, "type_id": 0}}
        first = {"Sequence": {"id": "A", "type_id": 0}}
        second = {"Sequence": {"id": "B", "type_id": 1}}
        template = {
            "type": "TemplateProcessing",
            "single": [begin, first],
            "pair": [begin, first, second],
            "special_tokens": {BEGIN: {"id": BEGIN, "ids": [0], "tokens": [BEGIN]}},
        }
        special = dict(enumerate(SPECIAL))
        return tokenizer_document(special, self.numbers, self.merges, BYTE_LEVEL, template)


FLAGS = ("single_word", "lstrip", "rstrip", "normalized")
BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}


def tokenizer_document(
    special: Mapping[int, str],
    numbers: Mapping[str, int],
    merges: Iterable[Sequence[str]],
    pre_tokenizer: Mapping[str, Any],
    post_processor: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the contents of ``tokenizer.json`` of byte pairs, as the package tokenizers reads it.

    ``special`` are the tokens that no text makes, by number; ``numbers`` are those of all.
    """
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": name, "special": True, **dict.fromkeys(FLAGS, False)}
            for number, name in special.items()
        ],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": dict(numbers),
            "merges": [list(pair) for pair in merges],
        },
    }


def made_of(texts: Iterable[str], most: int) -> BytePairTokenizer:
    """Return a tokenizer with at most ``most`` merges, the most frequent pair first.

    The same texts give the same tokenizer: of equally frequent pairs the least counts.
    """
    counts = Counter(word for text in texts for word in WORD.findall(text))
    words = {letters_of(word): count for word, count in counts.items()}
    merges: list[tuple[str, str]] = []
    while len(merges) < most:
        pairs: Counter[tuple[str, str]] = Counter()
        for parts, count in words.items():
            for pair in _pairs(parts):
                pairs[pair] += count
        if not pairs:
            break
        pair = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(pair)
        words = {_merged(parts, pair): count for parts, count in words.items()}
    return BytePairTokenizer(tuple(merges))


def _pairs(parts: Sequence[str]) -> Iterable[tuple[str, str]]:
    return pairwise(parts)


def _merged(parts: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    made: list[str] = []
    place = 0
    while place < len(parts):
        if parts[place : place + 2] == pair:
            made.append("".join(pair))
            place += 2
        else:
            made.append(parts[place])
            place += 1
    return tuple(made)
