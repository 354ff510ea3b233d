"""What a benchmark is: samples, the way into the model, the way out, and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlperf.catalog import BenchmarkSpec

from ..backends.base import Predictor
from ..backends.generation import AnswerStream
from ..jobs import AccuracyFigure
from ..settings import TensorSpec

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Result:
    """The bytes that LoadGen logs for one sample: one row of an array.

    With ``variable`` a row of ``shape`` is the longest possible answer, and an answer may use
    only the first bytes of its row. With ``counted`` the last number of a row is no part of the
    answer, but how many tokens it has.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    variable: bool = False
    counted: bool = False

    def rows(self, count: int) -> Array:
        """Room for the results of ``count`` samples: zeros [count, *shape]."""
        return np.zeros((count, *self.shape), dtype=self.dtype)

    @property
    def row_bytes(self) -> int:
        """Bytes of one whole row."""
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))


class Solver(Protocol):
    """One worker's way from samples to results; it owns buffers, so each worker has its own."""

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """Write the result of every sample into its row of ``results`` [n, *Result.shape].

        ``sizes`` [n] takes the bytes used of every row when the result is ``variable``.
        """


class StreamingSolver(Solver, Protocol):
    """The solver of a benchmark whose model generates tokens."""

    def stream(self, indices: Sequence[int] | Array, stream: AnswerStream) -> None:
        """Pass on the answers of these samples as they come; see ``TokenGenerator.generate``."""


class Inputs(Protocol):
    """Takes samples out of the loaded ones; one per worker, because it owns buffers."""

    def feeds(self, indices: Sequence[int] | Array) -> Mapping[str, Array]:
        """Return the model's inputs [n, ...] for these n samples, valid until the next call."""


class OneCall:
    """The solver of most benchmarks: the model is called once for a batch.

    ``postprocess(outputs, results, sizes)`` turns what comes out of the model into results.
    """

    def __init__(
        self,
        inputs: Inputs,
        predictor: Predictor,
        postprocess: Callable[[Sequence[Array], Array, Array], None],
    ) -> None:
        self.inputs = inputs
        self.predictor = predictor
        self.postprocess = postprocess

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``Solver``."""
        outputs = self.predictor.predict(self.inputs.feeds(indices))
        self.postprocess(outputs, results, sizes)


class Benchmark(Protocol):
    """One task on one data set with one model.

    ``outputs`` names what is asked of every graph of the model. ``costs`` [sample_count] is how
    much work each sample is, in any unit (tokens), where samples differ in that; else None. One
    whose samples take much memory while they are computed has ``work_bytes`` too, the bytes of one.
    ``feeds_back`` is true where an answer of the model decides what it is fed next, ``fills_up``
    where the samples of a batch are filled up to the longest of them.

    ``sample_tensors``, ``gathered`` and ``hold`` let samples lie on one machine and the model on
    another; a benchmark without them is measured on one.
    """

    rules: BenchmarkSpec
    sample_count: int
    outputs: Mapping[str, tuple[str, ...]]
    result: Result
    costs: Array | None
    sample_tensors: tuple[TensorSpec, ...]

    def load(self, indices: Sequence[int]) -> None:
        """Bring these samples into memory; the untimed part of a run."""

    def unload(self) -> None:
        """Let go of the loaded samples."""

    def gathered(self, indices: Sequence[int] | Array) -> Iterable[Mapping[str, Array]]:
        """Return these loaded samples in their order as ``sample_tensors``, each [n, *shape].

        Those of one size may come together; all n are those of ``indices`` at last. Raises
        IndexError for one that is not loaded.
        """

    def hold(self, indices: Sequence[int] | Array, samples: Sequence[Mapping[str, Array]]) -> None:
        """Have these samples [n, *shape], as ``gathered`` gave them, instead of all others."""

    def solver(self, predictors: Mapping[str, Predictor], capacity: int) -> Solver:
        """Return a worker's solver for at most ``capacity`` samples at a time.

        ``predictors`` holds one per graph of the model.
        """

    def accuracy(self, answers: Sequence[bytes], samples: Array) -> AccuracyFigure:
        """Return the figure of these answers, as LoadGen logged them.

        ``samples`` [n] says which sample of the data set each answer is for: all of them in
        order, or several rounds of them. Raises HarnessError for an answer of another kind.
        """
