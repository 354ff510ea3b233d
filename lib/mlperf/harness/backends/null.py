"""A backend that computes nothing: what remains is the cost of the harness and of LoadGen."""

from __future__ import annotations

from collections.abc import Sequence

from ..settings import GraphSpec, TensorSpec
from .base import Array, Backend, Feeds, Predictor, empty_batch


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


class Null(Backend):
    """The null backend; it runs on any device because it never touches one."""

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``; the model file is not read."""
        wanted = [next(t for t in graph.outputs if t.name == name) for name in outputs]
        return [NullPredictor(wanted) for _ in range(workers)]

    def versions(self) -> dict[str, str]:
        """There is no library behind it."""
        return {}
