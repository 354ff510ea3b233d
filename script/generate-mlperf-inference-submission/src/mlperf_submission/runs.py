"""Finding finished runs in a folder of results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlperf_harness import records
from mlperf_harness.errors import HarnessError
from mlperf_harness.results import Results, Tree
from mlperf_harness.rules import ORDER

from .errors import SubmissionError
from .layouts import folders

SUFFIX = "_results"
VALID = "valid"


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One benchmark on one system: what results.json tells, and the folders of its runs."""

    results: Results
    tree: Tree
    scenarios: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Everything in a folder of results, and what was left out and why."""

    runs: tuple[BenchmarkRun, ...]
    notes: tuple[str, ...]


def collect(folder: Path) -> Found:
    """The finished benchmarks below ``folder``: a results_dir or its ``valid_results``.

    Raises SubmissionError when there are none.
    """
    runs, notes = [], []
    for styled in _styled(folder):
        style = styled.name.removesuffix(SUFFIX)
        for system in folders(styled):
            for benchmark in folders(system):
                tree = Tree(styled.parent, style, system.name, benchmark.name)
                if not list(benchmark.glob("*/*/result.json")):
                    continue
                try:
                    results = records.read(Results, tree.root / "results.json")
                except HarnessError as error:
                    notes.append(f"{system.name}/{benchmark.name} is left out: {error}")
                    continue
                runs.append(BenchmarkRun(results, tree, _scenarios(tree)))
    if not runs:
        raise SubmissionError(
            f"no finished results in {folder}" + "".join(f"; {note}" for note in notes),
            "give the --results_dir of a run-mlperf,inference command, and let that command end",
            "no-results",
        )
    return Found(tuple(runs), tuple(notes))


def _styled(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SubmissionError(f"there is no folder {folder}", "check --results_dir", "no-results")
    if folder.name.endswith(SUFFIX):
        return [folder]
    below = [path for path in folders(folder) if path.name.endswith(SUFFIX)]
    valid = [path for path in below if path.name == VALID + SUFFIX]
    return valid or below


def _scenarios(tree: Tree) -> tuple[str, ...]:
    """Those that were measured, whether well or not."""
    return tuple(
        scenario
        for scenario in ORDER
        if tree.performance(scenario) is not None or tree.accuracy(scenario) is not None
    )
