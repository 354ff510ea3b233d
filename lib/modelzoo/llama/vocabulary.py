"""The tokens of a model: their names, kinds and merges, out of ``tokenizer.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelzoo import byte_pairs, tokenizer_files
from modelzoo.program import ProgramError

FILE = tokenizer_files.FILE
# Kinds of tokens in llama.cpp's files.
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens in the order of their numbers.

    ``splitting`` is llama.cpp's name of the pattern that splits a text into words; it is empty for
    a tokenizer of sentence pieces, which has no such pattern. ``adds_begin`` says whether a text
    gets the token of the beginning.
    """

    names: Sequence[str]
    kinds: Sequence[int]
    merges: Sequence[str]
    splitting: str
    begin: int
    ends: tuple[int, ...]
    adds_begin: bool = True


def of_document(
    document: Mapping[str, Any], size: int, splitting: str, begin: int, ends: tuple[int, ...]
) -> Vocabulary:
    """Return the vocabulary of a ``tokenizer.json``, filled up to ``size`` tokens."""
    model = document["model"]
    added = {entry["id"]: entry for entry in document["added_tokens"]}
    by_number = {number: name for name, number in model["vocab"].items()}
    by_number |= {number: entry["content"] for number, entry in added.items()}
    names = [by_number.get(number, f"[unused{number}]") for number in range(size)]
    kinds = [_kind(number, by_number, added, not splitting) for number in range(size)]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    return Vocabulary(names, kinds, merges, splitting, begin, ends)


def read(folder: Path, size: int, splitting: str, begin: int, ends: tuple[int, ...]) -> Vocabulary:
    """Return the vocabulary of a checkpoint; raise ProgramError where it has none."""
    path = folder / FILE
    try:
        return of_document(tokenizer_files.read_document(path), size, splitting, begin, ends)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProgramError(f"{path} is no tokenizer of byte pairs: {error!r}") from error


def scores_of(vocabulary: Vocabulary) -> list[float]:
    """Return how early llama.cpp joins each token's letters; the greatest come first.

    Sentence pieces that were trained as byte pairs stand in the order in which they are joined,
    after special tokens and bytes.
    """
    joined = [at for at, kind in enumerate(vocabulary.kinds) if kind == NORMAL]
    scores = [0.0] * len(vocabulary.names)
    for rank, at in enumerate(joined):
        scores[at] = -float(rank)
    return scores


def _kind(number: int, known: Mapping[int, str], added: Mapping[int, Any], pieces: bool) -> int:
    if number not in known:
        return UNUSED
    if pieces and known[number] == byte_pairs.UNKNOWN:
        return UNKNOWN
    if pieces and byte_pairs.BYTE.fullmatch(known[number]):
        return BYTE
    return CONTROL if number in added and added[number].get("special") else NORMAL
