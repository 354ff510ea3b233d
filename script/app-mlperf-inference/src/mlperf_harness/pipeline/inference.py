"""One caller's work on one batch, without LoadGen: what calibration measures and runs use."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends.base import Array, Predictor
from ..benchmarks.base import Benchmark


class Inference:
    """Samples in, results out; owns its buffers, so each caller has its own."""

    def __init__(self, benchmark: Benchmark, predictor: Predictor, capacity: int) -> None:
        self._inputs = benchmark.inputs(capacity)
        self._predictor = predictor
        self._postprocess = benchmark.postprocess

    def run(self, indices: Sequence[int] | Array, results: Array) -> None:
        """Write the results of these samples into the first rows of ``results``."""
        outputs = self._predictor.predict(self._inputs.feeds(indices))
        self._postprocess(outputs, results[: len(indices)])
