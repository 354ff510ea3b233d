"""Prompts of tokens, what people answered, and what answers of tokens spell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..errors import OTHER_TOKENIZER, HarnessError
from ..jobs import AccuracyFigure
from ..records import read_json
from . import rouge
from .base import Array

NAMES = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "rougeLsum": "ROUGE-Lsum",
    "gen_len": "gen_len",
}


class PromptSet:
    """The data set of a language model.

    Its folder holds ``prompts.npy`` int32 [tokens], ``offsets.npy`` int64 [prompts + 1],
    ``references.json`` and ``pieces.json`` (the bytes of every token, as Latin-1). The model knows
    ``vocabulary`` tokens, which may be more than the tokenizer has; those spell nothing.
    ``tokenizer`` is the digest of the tokenizer, empty in a set that names none. Raises
    HarnessError for a damaged folder, and for prompts of tokens that there are not.
    """

    def __init__(self, folder: Path, vocabulary: int = 0) -> None:
        facts = read_json(folder / "dataset.json")
        count, self.tokenizer = facts["count"], str(facts.get("tokenizer") or "")
        self._tokens = np.load(folder / "prompts.npy", mmap_mode="r")
        self._offsets = np.load(folder / "offsets.npy")
        self._references: list[str] = read_json(folder / "references.json")
        self._pieces: list[str] = read_json(folder / "pieces.json")
        self._check(folder, count)
        self.own_vocabulary = len(self._pieces)
        self._pieces += [""] * (vocabulary - len(self._pieces))
        self._check_tokens(folder)
        self.lengths = np.diff(self._offsets)

    def _check(self, folder: Path, count: int) -> None:
        offsets, references = self._offsets, len(self._references)
        if len(offsets) != count + 1 or references != count or offsets[-1] != len(self._tokens):
            raise HarnessError(
                f"{folder} is damaged: {len(offsets) - 1} prompts with {len(self._tokens)} tokens, "
                f"{references} references, {count} expected"
            )

    def _check_tokens(self, folder: Path) -> None:
        tokens, known = self._tokens, len(self._pieces)
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < known:
            raise HarnessError(
                f"the prompts of {folder} have tokens from {tokens.min()} to {tokens.max()}, the "
                f"model knows {known}: they were made with another tokenizer",
                OTHER_TOKENIZER,
            )

    def __len__(self) -> int:
        return len(self._references)

    def prompt(self, index: int) -> Array:
        """Return the tokens int64 [t] of a prompt."""
        part = self._tokens[self._offsets[index] : self._offsets[index + 1]]
        return np.asarray(part, dtype=np.int64)

    def text(self, tokens: Array) -> str:
        """Return what these tokens [t] spell."""
        spelled = "".join(self._pieces[token] for token in tokens.tolist())
        return spelled.encode("latin-1").decode("utf-8", errors="replace").strip()

    def read(self, sample: int, answer: bytes, dtype: np.dtype[np.signedinteger]) -> str:
        """Return what a logged answer spells; raises HarnessError for one that is no tokens."""
        if len(answer) % dtype.itemsize:
            raise HarnessError(f"sample {sample} was answered with {len(answer)} bytes, no tokens")
        tokens = np.frombuffer(answer, dtype=dtype)
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < len(self._pieces):
            raise HarnessError(f"sample {sample} was answered with tokens that there are not")
        return self.text(tokens)

    def rouge(
        self,
        answers: Sequence[bytes],
        samples: Array,
        dtype: np.dtype[np.signedinteger],
        metrics: Sequence[str] = rouge.METRICS,
        in_characters: bool = False,
    ) -> AccuracyFigure:
        """ROUGE in percent and the length of all answers; see ``base.Benchmark``.

        That is in tokens, or in characters of text; then the line has the tokens too.
        """
        scored = _cached(lambda sample, answer: self._scores(sample, answer, dtype, metrics))
        pairs = zip(answers, samples.tolist(), strict=True)
        scores = np.asarray([scored(sample, answer) for answer, sample in pairs])
        means = 100 * scores[:, :-1].mean(axis=0)
        figures = dict(zip(metrics, (round(float(mean), 4) for mean in means), strict=True))
        tokens = sum(len(answer) for answer in answers) // dtype.itemsize
        figures["gen_len"] = int(scores[:, -1].sum()) if in_characters else tokens
        counted = _counted(tokens, len(answers)) if in_characters else {}
        line = repr({**figures, "gen_num": len(answers), **counted})
        return AccuracyFigure(figures["rouge1"], line, len(answers), further=_named(figures))

    def _scores(
        self, sample: int, answer: bytes, dtype: np.dtype[np.signedinteger], metrics: Sequence[str]
    ) -> tuple[float, ...]:
        text = self.read(sample, answer, dtype)
        return (*rouge.scores(self._references[sample], text, tuple(metrics)), len(text))


Scores = tuple[float, ...]


def _cached(score: Callable[[int, bytes], Scores]) -> Callable[[int, bytes], Scores]:
    """Score equal answers once: a tiny set is issued several times over."""
    known: dict[tuple[int, bytes], Scores] = {}

    def scored(sample: int, answer: bytes) -> Scores:
        key = (sample, answer)
        if key not in known:
            known[key] = score(sample, answer)
        return known[key]

    return scored


def _counted(tokens: int, answers: int) -> dict[str, float]:
    """Return what the reference implementation says of the tokens of Llamas' answers."""
    return {"gen_tok_len": tokens, "tokens_per_sample": round(tokens / max(1, answers), 4)}


def _named(figures: Mapping[str, float]) -> dict[str, float]:
    return {NAMES[name]: float(value) for name, value in figures.items()}
