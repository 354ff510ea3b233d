"""summary_results.json of a published round: the rows of the official checker's summary."""

from __future__ import annotations

from pathlib import Path

from cmbench_results.readers import ReadFault, ReadItems
from cmbench_results.readers.experiments import rows
from cmbench_results.readers.published import merged

FILE = "summary_results.json"


def read(path: Path, benchmark_round: str = "") -> ReadItems:
    """Return the results of that file."""
    faults: list[ReadFault] = []
    results = list(merged(rows(path if path.is_file() else path / FILE, faults)))
    return iter([*results, *faults])
