"""The accuracy of two logs over the same samples, for a test of compliance."""

from __future__ import annotations

from pathlib import Path

import numpy

from ..benchmarks import registry as benchmarks
from ..errors import HarnessError
from ..jobs import ComparisonFigures, LogComparison
from .accuracy_log import read_logged


def compare(request: LogComparison) -> ComparisonFigures:
    """Both figures; raises HarnessError when the accuracy run lacks a sample of the test."""
    benchmark = benchmarks.create(request.benchmark, Path(request.dataset), request.model)
    test = dict(read_logged(Path(request.test)))
    baseline = dict(read_logged(Path(request.baseline)))
    missing = [index for index in test if index not in baseline]
    if missing:
        raise HarnessError(f"{request.baseline} lacks sample {missing[0]}")
    indices = sorted(test)
    samples = numpy.asarray(indices, dtype=numpy.int64)
    return ComparisonFigures(
        benchmark.accuracy([baseline[index] for index in indices], samples),
        benchmark.accuracy([test[index] for index in indices], samples),
    )
