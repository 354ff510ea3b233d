"""A backend that computes nothing: what remains is the cost of the harness and of LoadGen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..settings import GraphSpec, TensorSpec
from .base import Array, Backend, Feeds, Predictor, empty_batch
from .generation import TOKEN, AnswerStream, TokenGenerator

NULL_TOKENS = 16


class NullPredictor(Predictor):
    """Answers zeros from arrays that it allocates once."""

    def __init__(self, outputs: Sequence[TensorSpec]) -> None:
        self._outputs = outputs
        self._zeros: list[Array] = []

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """Zeros of the right shape, whatever comes in."""
        count = len(next(iter(feeds.values())))
        if not self._zeros or len(self._zeros[0]) < count:
            self._zeros = list(empty_batch(self._outputs, count).values())
        return [zeros[:count] for zeros in self._zeros]


class NullGenerator(TokenGenerator):
    """Answers every prompt with the token 1, ``NULL_TOKENS`` times or as often as is allowed."""

    def generate(self, prompts: Sequence[Array], stream: AnswerStream) -> None:
        """See ``generation.TokenGenerator``."""
        rows = range(len(prompts))
        answers = np.ones((len(prompts), min(NULL_TOKENS, stream.most)), TOKEN)
        stream.begin(rows, answers[:, 0])
        stream.end_alike(rows, answers)


class Null(Backend):
    """The null backend; it runs on any device because it never touches one."""

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``; the model file is not read."""
        if [tensor.name for tensor in graph.outputs] == ["tokens"]:
            return [NullGenerator() for _ in range(workers)]
        wanted = [next(t for t in graph.outputs if t.name == name) for name in outputs]
        return [NullPredictor(wanted) for _ in range(workers)]

    def versions(self) -> dict[str, str]:
        """There is no library behind it."""
        return {}
