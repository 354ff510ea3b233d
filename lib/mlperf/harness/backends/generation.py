"""What backends of language models have in common: prompts in, answers out as they come."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..errors import HarnessError
from .base import Array, Feeds, Predictor

TOKEN = np.dtype(np.int64)
# LoadGen takes the time of a token from those after the first: it calls a run of shorter answers
# VALID, with no tokens per second.
LEAST_TOKENS = 2
SHORT = "check the end tokens of the model, and that the prompts are made for it"


class AnswerListener(Protocol):
    """A receiver of what happens to the answers of a batch, by their rows."""

    def begin(self, rows: Sequence[int]) -> None:
        """Take note that the first token of these is there."""

    def end(self, rows: Sequence[int]) -> None:
        """Take note that these are complete."""


class Unheard:
    """A listener for answers that nobody times, such as those of a warm-up."""

    def begin(self, rows: Sequence[int]) -> None:
        """See ``AnswerListener``."""

    def end(self, rows: Sequence[int]) -> None:
        """See ``AnswerListener``."""


class AnswerStream:
    """The answers of one batch while a backend generates them.

    ``tokens`` int64 [n, most] and ``sizes`` [n], in bytes, are written here. ``samples`` [n] are
    their numbers in the data set. Where not ``first_is_timed`` a backend may give the first token
    together with the others.
    """

    def __init__(
        self,
        samples: Sequence[int] | Array,
        tokens: Array,
        sizes: Array,
        listener: AnswerListener,
        first_is_timed: bool = True,
    ) -> None:
        self.first_is_timed = first_is_timed
        self.most = int(tokens.shape[1])
        self._samples = samples
        self._tokens = tokens
        self._sizes = sizes
        self._listener = listener

    def begin(self, rows: Sequence[int], first: Sequence[int] | Array) -> None:
        """Pass on the first token of these rows."""
        self._tokens[rows, 0] = first
        self._listener.begin(rows)

    def end(self, row: int, answer: Sequence[int] | Array) -> None:
        """Pass on a whole answer, which begins with the token that was passed on.

        Raises HarnessError for an answer that LoadGen would not count.
        """
        count = len(answer)
        if not LEAST_TOKENS <= count <= self.most:
            raise HarnessError(self._wrong_length(row, count), SHORT)
        self._tokens[row, :count] = answer
        self._sizes[row] = TOKEN.itemsize * count
        self._listener.end((row,))

    def end_alike(self, rows: Sequence[int], answers: Array) -> None:
        """Pass on answers [n, count] that are equally long, as ``end`` does."""
        count = answers.shape[1]
        if not LEAST_TOKENS <= count <= self.most:
            raise HarnessError(self._wrong_length(rows[0], count), SHORT)
        self._tokens[rows, :count] = answers
        self._sizes[rows] = TOKEN.itemsize * count
        self._listener.end(rows)

    def _wrong_length(self, row: int, count: int) -> str:
        tokens = f"{count} token{'s' * (count != 1)}"
        return (
            f"sample {int(self._samples[row])} was answered with {tokens}, and "
            f"{LEAST_TOKENS} to {self.most} are needed"
        )


class TokenGenerator(Predictor):
    """One worker's way to a language model; see ``base.Predictor``."""

    @abstractmethod
    def generate(self, prompts: Sequence[Array], stream: AnswerStream) -> None:
        """Answer these prompts (token numbers) greedily, each in the row of its place.

        ``stream`` gets the first token of an answer as soon as it is there, and the answer when
        it is complete: up to and with an end token, or ``stream.most`` tokens. Raises HarnessError
        for what cannot be answered.
        """

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """Raise HarnessError: no benchmark of tensors runs on it."""
        raise HarnessError("this backend generates tokens, and computes nothing else")
