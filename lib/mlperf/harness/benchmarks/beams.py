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
class FinishedBeams:
    """Texts of one prompt that have ended: the mean log probability and the tokens of each."""

    texts: list[tuple[float, list[int]]] = field(default_factory=list)

    def add(self, total: float, tokens: list[int], width: int) -> None:
        """Keep it if it is among the ``width`` best; its end counts as a token."""
        self.texts.append((total / max(1, len(tokens) + 1), tokens))
        self.texts.sort(key=lambda text: -text[0])
        del self.texts[width:]


class BeamSearch:
    """The beams of so many prompts: ``tokens`` [left, width, n], ``totals`` [left, width].

    A prompt is left until it has ``width`` finished texts; all end with ``most`` tokens.
    """

    def __init__(self, prompts: int, options: BeamOptions) -> None:
        self.options = options
        self.tokens = np.zeros((prompts, options.width, 0), dtype=np.int64)
        self.totals = np.full((prompts, options.width), NEVER)
        self.totals[:, 0] = 0.0
        self._finished = [FinishedBeams() for _ in range(prompts)]
        self._left = np.arange(prompts)

    @property
    def done(self) -> bool:
        """Return whether nothing is left to do."""
        return not len(self._left) or self.tokens.shape[2] >= self.options.most

    def advance(self, logits: Array) -> Array:
        """Take the scores [left, width, vocabulary] of the next tokens and go on by one.

        Returns per beam that is left now, one prompt after the other, which of the beams
        before it continues. The new last tokens are those of ``tokens``.
        """
        beam, token, values = self._best_continuations(logits)
        each, going = np.arange(len(beam))[:, None], np.arange(self.options.width)[None]
        ends = token == self.options.end
        if ends.any():
            self._finish(beam, values, ends)
            left = np.flatnonzero([not self._full(prompt) for prompt in self._left.tolist()])
            each = left[:, None]
            going = np.argsort(ends[left], axis=1, kind="stable")[:, : self.options.width]
        beam, token, self.totals = beam[each, going], token[each, going], values[each, going]
        self.tokens = np.concatenate([self.tokens[each, beam], token[:, :, None]], axis=2)
        self._left = self._left[each[:, 0]]
        rows: Array = (self.options.width * each + beam).reshape(-1)
        return rows

    def _best_continuations(self, logits: Array) -> tuple[Array, Array, Array]:
        """Return the best of all prompts in descending order: beam, token, total [left, 2 width].

        They are twice the width: as many may end, and still ``width`` go on.
        """
        many = 2 * self.options.width
        logs = log_softmax(logits)
        if self.tokens.shape[2] < self.options.least:
            logs[:, :, self.options.end] = NEVER
        each = np.arange(len(logs))[:, None]
        totals = (self.totals[:, :, None] + logs).reshape(len(logs), -1)
        best = np.argpartition(totals, -many, axis=1)[:, -many:]
        best = best[each, np.argsort(-totals[each, best], axis=1, kind="stable")]
        beam, token = np.divmod(best, logs.shape[2])
        return beam, token, totals[each, best]

    def _full(self, prompt: int) -> bool:
        return len(self._finished[prompt].texts) == self.options.width

    def _finish(self, beam: Array, values: Array, ends: Array) -> None:
        width = self.options.width
        for row, place in zip(*np.nonzero(ends[:, :width]), strict=True):
            prompt = int(self._left[row])
            if not self._full(prompt) and values[row, place] > NEVER / 2:
                text = self.tokens[row, beam[row, place]].tolist()
                self._finished[prompt].add(float(values[row, place]), text, width)

    def best(self) -> list[list[int]]:
        """Return the best text of every prompt, without its end."""
        for row, prompt in enumerate(self._left):
            for total, tokens in zip(self.totals[row], self.tokens[row], strict=True):
                self._finished[prompt].add(float(total), tokens.tolist(), self.options.width)
        return [finished.texts[0][1] for finished in self._finished]


def log_softmax(logits: Array) -> Array:
    """Log probabilities along the last axis, in the shape of ``logits``."""
    result: Array = logits - logits.max(axis=-1, keepdims=True)
    result -= np.log(np.exp(result).sum(axis=-1, keepdims=True))
    return result
