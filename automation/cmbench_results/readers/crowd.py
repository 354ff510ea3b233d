"""The published results of one contributor on a server of volunteers: a result per line."""

from __future__ import annotations

from pathlib import Path

from cmbench_results.readers import ReadFault, ReadItems, text_of, unread
from cmbench_results.values import BenchmarkResult, MalformedError, from_json

RESULTS = "crowd.jsonl"


def read(path: Path, benchmark_round: str = "") -> ReadItems:
    """Its results, as the server has recomputed them."""
    try:
        lines = text_of(path / RESULTS).splitlines()
    except (OSError, ValueError) as problem:
        yield unread(path, problem)
        return
    for number, line in enumerate(lines, 1):
        yield _result(f"{path}, line {number}", line)


def _result(where: str, line: str) -> BenchmarkResult | ReadFault:
    try:
        return from_json(line)
    except MalformedError as problem:
        return ReadFault(where, str(problem))
