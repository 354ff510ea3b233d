"""A small data set repeated: a run then has as many samples as the rules require."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..backends.base import Predictor
from ..backends.generation import AnswerStream
from ..jobs import AccuracyFigure
from .base import Array, Benchmark, Solver, StreamingSolver


class RepeatedBenchmark:
    """``benchmark`` with ``count`` samples: sample ``k`` is its sample ``k`` modulo its own count.

    Only for forms that are never submitted; results.json has both numbers.
    """

    def __init__(self, benchmark: Benchmark, count: int) -> None:
        self._benchmark = benchmark
        self._own = benchmark.sample_count
        self.rules = benchmark.rules
        self.sample_count = count
        self.outputs: Mapping[str, tuple[str, ...]] = benchmark.outputs
        self.result = benchmark.result
        self.sample_tensors = tuple(getattr(benchmark, "sample_tensors", ()))
        self.work_bytes = int(getattr(benchmark, "work_bytes", 0))
        self.feeds_back = bool(getattr(benchmark, "feeds_back", False))
        self.fills_up = bool(getattr(benchmark, "fills_up", False))
        self.costs: Array | None = None
        if benchmark.costs is not None:
            self.costs = benchmark.costs[np.arange(count) % self._own]

    def load(self, indices: Sequence[int]) -> None:
        """See ``base.Benchmark``; a sample that comes several times is loaded once."""
        own = np.asarray(indices, dtype=np.int64) % self._own
        first = np.sort(np.unique(own, return_index=True)[1])
        self._benchmark.load(own[first].tolist())

    def unload(self) -> None:
        """See ``base.Benchmark``."""
        self._benchmark.unload()

    def gathered(self, indices: Sequence[int] | Array) -> Iterable[Mapping[str, Array]]:
        """See ``base.Benchmark``."""
        return self._benchmark.gathered(np.asarray(indices) % self._own)

    def hold(self, indices: Sequence[int] | Array, samples: Sequence[Mapping[str, Array]]) -> None:
        """See ``base.Benchmark``."""
        self._benchmark.hold(np.asarray(indices) % self._own, samples)

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> Solver:
        """See ``base.Benchmark``."""
        solver = self._benchmark.solver(predictors, capacity)
        folded = _FoldedStream if self.rules.generates else _Folded
        return folded(solver, self._own)

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """See ``base.Benchmark``."""
        return self._benchmark.accuracy(answers, samples % self._own)


class _Folded:
    def __init__(self, solver: Solver, own: int) -> None:
        self._solver = solver
        self._own = own

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``base.Solver``."""
        self._solver.solve(np.asarray(indices) % self._own, results, sizes)


class _FoldedStream(_Folded):
    _solver: StreamingSolver

    def stream(self, indices: Sequence[int] | Array, stream: AnswerStream) -> None:
        """See ``base.StreamingSolver``."""
        self._solver.stream(np.asarray(indices) % self._own, stream)
