"""Finding finished runs in a folder of results."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_catalog import SCENARIOS
from mlperf_harness import records
from mlperf_harness.errors import HarnessError
from mlperf_harness.reporting.results import Results, Tree
from mlperf_harness.settings import ACCURACY, FIND, PERFORMANCE

from . import intake, system, texts
from .errors import SubmissionError
from .layouts import folders
from .sources import BenchmarkRun, Found, Sources

SUFFIX = "_results"
VALID = "valid"


def collect(folder: Path, handed: intake.Handed | None = None) -> Found:
    """The finished benchmarks below ``folder``: a results_dir or its ``valid_results``.

    Runs of other programs count too; ``handed`` is what a person says of them.
    Raises SubmissionError when there are none.
    """
    begun = [(tree, sorted(tree.root.glob("*/*/result.json"))) for tree in _trees(folder)]
    own = [(tree, made) for tree, made in begun if made]
    whole = [tree for tree, _ in own if (tree.root / "results.json").is_file()]
    interrupted = [_interrupted(tree.root, made) for tree, made in own if tree not in whole]
    skipped = [tree.root for tree, _ in own]
    told = handed or intake.Handed()
    found = Found()
    for each in map(_finished, whole):
        found = found.joined(each)
    for styled in _styled(folder) or [folder]:
        found = found.joined(intake.collect(styled, told, skipped))
    if not found.runs:
        raise _nothing(folder, found, interrupted)
    return found.joined(Found((), tuple(each.note for each in interrupted)))


def _nothing(folder: Path, found: Found, interrupted: Sequence[Interrupted]) -> SubmissionError:
    """Why there is nothing to make a tree of."""
    if interrupted:
        first = interrupted[0]
        told = f"the runs of {first.name} were interrupted; there are {first.left}"
        hint = f"finish them, these are kept: {first.command}"
    else:
        told = f"no finished results in {folder}" + "".join(f"; {note}" for note in found.notes)
        hint = (
            "give the --results_dir of a run-mlperf,inference command, and let that command end; "
            "or a folder with logs of LoadGen (mlperf_log_detail.txt)"
        )
    return SubmissionError(told, hint, "no-results")


def facts(run: BenchmarkRun, gpus: system.Gpus = tuple) -> Mapping[str, system.Value]:
    """What is known of the system of a run, as ``system.describe`` takes it."""
    return system.of_results(run.results, gpus) if run.results else run.facts


def _trees(folder: Path) -> Iterator[Tree]:
    for styled in _styled(folder):
        style = styled.name.removesuffix(SUFFIX)
        for machine in folders(styled):
            for benchmark in folders(machine):
                yield Tree(styled.parent, style, machine.name, benchmark.name)


def _finished(tree: Tree) -> Found:
    """The runs of a benchmark, and why some of them are left out."""
    try:
        results = records.read(Results, tree.root / "results.json")
    except HarnessError as error:
        name = f"{tree.root.parent.name}/{tree.root.name}"
        return Found((), (f"{name} is left out: {error}",))
    foreign = _foreign(results)
    scenarios = tuple(each for each in _scenarios(tree) if each not in foreign)
    run = BenchmarkRun(
        sut=results.sut,
        benchmark=results.benchmark,
        round=results.round,
        division=results.division,
        category=results.category,
        device=results.device,
        scenarios={each: Sources.of_harness(tree.scenario(each)) for each in scenarios},
        code=texts.code(results),
        calibration=texts.calibrated(results),
        results=results,
    )
    return Found((run,), tuple(foreign.values()))


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A benchmark whose call did not come to its end: what it has left, and the same call again."""

    name: str
    left: str
    command: str

    @property
    def note(self) -> str:
        """For people, where other benchmarks are whole."""
        return (
            f"{self.name} is left out, its runs were interrupted; there are {self.left}; "
            f"finish them, these are kept: {self.command}"
        )


def _interrupted(root: Path, made: Sequence[Path]) -> Interrupted:
    modes: dict[str, list[str]] = {}
    for path in made:
        modes.setdefault(path.parts[-3], []).append(path.parts[-2])
    left = [
        f"{scenario}: {', '.join(names)}"
        + "".join(f", no {mode}" for mode in (PERFORMANCE, ACCURACY) if mode not in names)
        for scenario, names in modes.items()
    ]
    last = max(made, key=lambda path: path.stat().st_mtime)
    told = records.read_json(last).get("circumstances") or {}
    command = str(told.get("command") or "the same run-mlperf,inference command again, with")
    command = re.sub(r" --results_dir[= ]\S+", "", command)
    command += f" --results_dir={shlex.quote(str(root.parents[2]))}"
    return Interrupted(f"{root.parent.name}/{root.name}", "; ".join(left), command)


def _styled(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SubmissionError(f"there is no folder {folder}", "check --results_dir", "no-results")
    if folder.name.endswith(SUFFIX):
        return [folder]
    below = [path for path in folders(folder) if path.name.endswith(SUFFIX)]
    valid = [path for path in below if path.name == VALID + SUFFIX]
    return valid or below


def _foreign(results: Results) -> dict[str, str]:
    """The scenarios with a run of another model, precision or the like, each with a note."""
    return {
        run.scenario: f"{results.benchmark} {run.scenario} is left out: its {run.mode} is of "
        f"another configuration ({'; '.join(run.differs)}); make it again with the last command"
        for run in results.others
        if run.mode != FIND
    }


def _scenarios(tree: Tree) -> tuple[str, ...]:
    """Those that were measured, whether well or not."""
    return tuple(
        scenario
        for scenario in SCENARIOS
        if tree.performance(scenario) is not None or tree.accuracy(scenario) is not None
    )
