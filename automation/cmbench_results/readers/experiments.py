"""Published results in the format of mlcommons/cm4mlperf-results: lists in cm-result.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cmbench_results.readers import ReadFault, ReadItems, files, rows_of, unread
from cmbench_results.readers.published import IncompleteError, merged, result
from cmbench_results.values import BenchmarkResult

FILE = "cm-result.json"


def read(root: Path, benchmark_round: str = "") -> ReadItems:
    """Return the results of all such files below ``root``.

    One result may stand in several files, with its power in a row of its own.
    """
    faults: list[ReadFault] = []
    results = list(
        merged(row_result for path in files(root, (FILE,)) for row_result in rows(path, faults))
    )
    return iter([*results, *faults])


def rows(path: Path, faults: list[ReadFault]) -> Iterator[BenchmarkResult]:
    """Yield the rows of one file as results; what cannot be read is added to ``faults``."""
    try:
        read_rows = rows_of(path)
    except (OSError, ValueError) as problem:
        faults.append(unread(path, problem))
        return
    for number, row in enumerate(read_rows, 1):
        row_result = _result(row)
        if isinstance(row_result, str):
            faults.append(ReadFault(f"{path}, row {number}", row_result))
        else:
            yield row_result


def _result(row: object) -> BenchmarkResult | str:
    """Return the result of a row, or why it is not one."""
    if not isinstance(row, Mapping):
        return "a row is not an object"
    try:
        return result(row)
    except IncompleteError as problem:
        return str(problem)
