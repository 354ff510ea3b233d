"""Finding finished runs in a folder of results."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf.catalog import SCENARIOS
from mlperf.harness import records
from mlperf.harness.errors import HarnessError
from mlperf.harness.reporting.results import Results, ResultTree
from mlperf.harness.settings import ACCURACY, FIND, PERFORMANCE

from . import claims, intake, system, texts
from .errors import SubmissionError
from .layouts import folders
from .sources import BenchmarkRun, CollectedRuns, ScenarioSources

SUFFIX = "_results"
VALID = "valid"
# Our harness writes it where a call has come to its end.
WHOLE = "results.json"


def collect(folder: Path, handed: intake.RunOverrides | None = None) -> CollectedRuns:
    """Return the finished benchmarks below ``folder``: a results_dir or its ``valid_results``.

    Runs of other programs count too; ``handed`` has the user's facts about them.
    Raises SubmissionError when there are none, or two of the same scenario of a tree.
    """
    begun = [(tree, sorted(tree.root.glob("*/*/result.json"))) for tree in _trees(folder)]
    own = [(tree, made) for tree, made in begun if made]
    whole = [tree for tree, _ in own if (tree.root / WHOLE).is_file()]
    interrupted = [_interrupted(tree.root, made) for tree, made in own if tree not in whole]
    skipped = [tree.root for tree, _ in own]
    options = handed or intake.RunOverrides()
    collected = CollectedRuns()
    for runs_ in map(_finished, whole):
        collected = collected.joined(runs_)
    for styled in _styled(folder) or [folder]:
        collected = collected.joined(intake.collect(styled, options, skipped))
    if not collected.runs:
        raise _nothing(folder, collected, interrupted)
    claims.check(collected.runs, folder)
    notes = (
        *_left_out(folder),
        *claims.renamed(collected.runs),
        *(run.note for run in interrupted),
    )
    return collected.joined(CollectedRuns((), notes))


def _nothing(
    folder: Path, collected: CollectedRuns, interrupted: Sequence[InterruptedRun]
) -> SubmissionError:
    """Return the error for a folder without finished runs."""
    if interrupted:
        first = interrupted[0]
        message = f"the runs of {first.name} were interrupted; there are {first.left}"
        hint = f"finish them, these are kept: {first.command}"
    else:
        message = f"no finished results in {folder}" + "".join(
            f"; {note}" for note in collected.notes
        )
        hint = (
            "give the --results_dir of a run-mlperf,inference command, and let that command end; "
            "or a folder with logs of LoadGen (mlperf_log_detail.txt)"
        )
    return SubmissionError(message, hint, "no-results")


def facts(run: BenchmarkRun, gpus: system.Gpus = tuple) -> Mapping[str, system.FieldValue]:
    """Return the facts of the system of a run, as ``system.describe`` takes them."""
    return system.of_results(run.results, gpus) if run.results else run.facts


def _trees(folder: Path) -> Iterator[ResultTree]:
    """The folders of benchmarks of our own harness: begun ones, and whole ones at any depth."""
    for styled in _styled(folder):
        style = styled.name.removesuffix(SUFFIX)
        whole = (path.parent for path in styled.glob(f"*/*/**/{WHOLE}"))
        begun = (tree for machine in folders(styled) for tree in folders(machine))
        for benchmark in sorted({*whole, *begun}):
            system = benchmark.parent.relative_to(styled)
            # Hidden folders are what killed calls have left.
            if not any(part.startswith(".") for part in (*system.parts, benchmark.name)):
                yield ResultTree(styled.parent, style, str(system), benchmark.name)


def _finished(tree: ResultTree) -> CollectedRuns:
    """Return the runs of a benchmark, and notes on those that are left out."""
    try:
        results = records.read(Results, tree.root / WHOLE)
    except HarnessError as error:
        name = f"{tree.root.parent.name}/{tree.root.name}"
        return CollectedRuns((), (f"{name} is left out: {error}",))
    foreign = _foreign(results)
    scenarios = tuple(name for name in _scenarios(tree) if name not in foreign)
    run = BenchmarkRun(
        sut=results.sut,
        benchmark=results.benchmark,
        round=results.round,
        division=results.division,
        category=results.category,
        device=results.device,
        scenarios={name: ScenarioSources.of_harness(tree.scenario(name)) for name in scenarios},
        code=texts.code(results),
        calibration=texts.calibrated(results),
        results=results,
    )
    return CollectedRuns((run,), tuple(foreign.values()))


@dataclass(frozen=True, slots=True)
class InterruptedRun:
    """A benchmark that was interrupted: its finished runs, and the command that resumes it."""

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


def _interrupted(root: Path, made: Sequence[Path]) -> InterruptedRun:
    modes: dict[str, list[str]] = {}
    for path in made:
        modes.setdefault(path.parts[-3], []).append(path.parts[-2])
    left = [
        f"{scenario}: {', '.join(names)}"
        + "".join(f", no {mode}" for mode in (PERFORMANCE, ACCURACY) if mode not in names)
        for scenario, names in modes.items()
    ]
    last = max(made, key=lambda path: path.stat().st_mtime)
    circumstances = records.read_json(last).get("circumstances") or {}
    command = str(
        circumstances.get("command") or "the same run-mlperf,inference command again, with"
    )
    command = re.sub(r" --results_dir[= ]\S+", "", command)
    command += f" --results_dir={shlex.quote(str(root.parents[2]))}"
    return InterruptedRun(f"{root.parent.name}/{root.name}", "; ".join(left), command)


def _styled(folder: Path) -> list[Path]:
    """The folders of results to read: valid_results alone, where it is there."""
    if not folder.is_dir():
        raise SubmissionError(f"there is no folder {folder}", "check --results_dir", "no-results")
    if folder.name.endswith(SUFFIX):
        return [folder]
    below = _below(folder)
    return [path for path in below if path.name == VALID + SUFFIX] or below


def _below(folder: Path) -> list[Path]:
    return [path for path in folders(folder) if path.name.endswith(SUFFIX)]


def _left_out(folder: Path) -> Iterator[str]:
    """Yield a note on the folders next to valid_results, the only one that is read."""
    others = [] if folder.name.endswith(SUFFIX) else _below(folder)
    left = [path.name for path in others if path not in _styled(folder)]
    if left:
        message = f"only {VALID + SUFFIX} is read, not {' and '.join(left)}"
        yield f"{message}; --results_dir with the folder itself reads another one"


def _foreign(results: Results) -> dict[str, str]:
    """Return the scenarios with a run of another model, precision or the like, with a note."""
    return {
        run.scenario: f"{results.benchmark} {run.scenario} is left out: its {run.mode} is of "
        f"another configuration ({'; '.join(run.differs)}); make it again with the last command"
        for run in results.others
        if run.mode != FIND
    }


def _scenarios(tree: ResultTree) -> tuple[str, ...]:
    """Those that were measured, whether well or not."""
    return tuple(
        scenario
        for scenario in SCENARIOS
        if tree.performance(scenario) is not None or tree.accuracy(scenario) is not None
    )
