"""Published figures are those of their logs, where checkouts of both are pointed at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmbench_results import readers
from cmbench_results.values import ENERGY, LOGS, POWER, BenchmarkResult, ResultMetric

# A checkout of mlcommons/cm4mlperf-results, and ROUND=TREE, with spaces between: checkouts of
# mlcommons/inference_results_vROUND.
PUBLISHED, TREES = "MLPERF_PUBLISHED", "MLPERF_RESULTS"
ALIKE = 1e-5  # summaries are rounded


def results(place: Path, benchmark_round: str = "") -> Iterator[BenchmarkResult]:
    found = readers.read(readers.kind_of(place), place, benchmark_round)
    return (each for each in found if isinstance(each, BenchmarkResult))


def alike(
    mine: BenchmarkResult, theirs: BenchmarkResult
) -> Iterator[tuple[ResultMetric, ResultMetric]]:
    """What both tell of power and energy."""
    for name in (POWER, ENERGY):
        one, two = mine.figure(name), theirs.figure(name)
        if one and two:
            yield one, two


def equal(one: float, two: float) -> bool:
    return abs(one - two) <= ALIKE * two


def test_logs_give_the_published_figures() -> None:
    if not (os.environ.get(PUBLISHED) and os.environ.get(TREES)):
        pytest.skip(f"{PUBLISHED} and {TREES} name no checkouts of published results")
    published = {each.key: each for each in results(Path(os.environ[PUBLISHED]))}
    for told in os.environ[TREES].split():
        benchmark_round, _, root = told.partition("=")
        compared, others = 0, []
        for mine in results(Path(root), benchmark_round):
            theirs = published.get(mine.key)
            if theirs is None or not theirs.value or not mine.value or mine.figures_from != LOGS:
                continue
            compared += 1
            pairs = [(mine.value, theirs.value)]
            pairs += [(one.value, two.value) for one, two in alike(mine, theirs)]
            others += [(mine.workload, *each) for each in pairs if not equal(*each)]
        print(f"{benchmark_round}: {compared} figures")
        assert compared > 100
        assert others == []
