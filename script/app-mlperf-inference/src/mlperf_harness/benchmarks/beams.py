"""Beam search over many prompts at once, without a model: scores in, tokens out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Below every true log probability, and still a number.
NEVER = -1e9


@dataclass(frozen=True, slots=True)
class BeamOptions:
    """How text is generated: ``width`` beams, ``least`` to ``most`` new tokens, ``end`` ends it."""

    width: int
    least: int
    most: int
    end: int


@dataclass(slots=True)
class Finished:
    """Texts of one prompt that have ended: the mean log probability and the tokens of each."""

    texts: list[tuple[float, list[int]]] = field(default_factory=list)

    def add(self, total: float, tokens: list[int], width: int) -> None:
        """Keep it if it is among the ``width`` best; its end counts as a token."""
        self.texts.append((total / max(1, len(tokens) + 1), tokens))
        self.texts.sort(key=lambda text: -text[0])
        del self.texts[width:]


class BeamSearch:
    """The beams of so many prompts: ``tokens`` [prompts, width, n], ``totals`` [prompts, width].

    All prompts go on until each has ``width`` finished texts or ``most`` tokens: a prompt that is
    done is carried along, because taking it out of a cache costs more than computing it.
    """

    def __init__(self, prompts: int, options: BeamOptions) -> None:
        self.options = options
        self.tokens = np.zeros((prompts, options.width, 0), dtype=np.int64)
        self.totals = np.full((prompts, options.width), NEVER)
        self.totals[:, 0] = 0.0
        self._finished = [Finished() for _ in range(prompts)]

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        long_enough = self.tokens.shape[2] >= self.options.most
        return long_enough or all(
            len(finished.texts) == self.options.width for finished in self._finished
        )

    def advance(self, logits: Array) -> Array:
        """Take the scores [prompts, width, vocabulary] of the next tokens and go on by one.

        Returns for each new beam [prompts, width] the old one that it continues. The new last
        tokens are those of ``tokens``.
        """
        width, end = self.options.width, self.options.end
        logs = log_softmax(logits)
        if self.tokens.shape[2] < self.options.least:
            logs[:, :, end] = NEVER
        prompts, vocabulary = logs.shape[0], logs.shape[2]
        totals = (self.totals[:, :, None] + logs).reshape(prompts, -1)
        # As many may end, and still ``width`` go on.
        best = np.argpartition(-totals, 2 * width - 1, axis=1)[:, : 2 * width]
        order = np.argsort(-np.take_along_axis(totals, best, axis=1), axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1)
        values = np.take_along_axis(totals, best, axis=1)
        beam, token = best // vocabulary, best % vocabulary
        ends = token == end
        self._finish(beam, values, ends)
        going = np.argsort(ends, axis=1, kind="stable")[:, :width]
        beam, token, self.totals = (
            np.take_along_axis(array, going, axis=1) for array in (beam, token, values)
        )
        kept = np.take_along_axis(self.tokens, beam[:, :, None], axis=1)
        self.tokens = np.concatenate([kept, token[:, :, None]], axis=2)
        return beam

    def _finish(self, beam: Array, values: Array, ends: Array) -> None:
        width = self.options.width
        for prompt, place in zip(*np.nonzero(ends[:, :width]), strict=True):
            finished = self._finished[prompt]
            if len(finished.texts) < width and values[prompt, place] > NEVER / 2:
                text = self.tokens[prompt, beam[prompt, place]].tolist()
                finished.add(float(values[prompt, place]), text, width)

    def best(self) -> list[list[int]]:
        """The best text of each prompt, without its end."""
        found = []
        for prompt, finished in enumerate(self._finished):
            if len(finished.texts) < self.options.width:
                for total, tokens in zip(self.totals[prompt], self.tokens[prompt], strict=True):
                    finished.add(float(total), tokens.tolist(), self.options.width)
            found.append(finished.texts[0][1])
        return found


def log_softmax(logits: Array) -> Array:
    """Log probabilities along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
