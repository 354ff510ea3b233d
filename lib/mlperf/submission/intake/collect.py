"""Runs of other programs as benchmarks of a tree; all missing facts are one error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlperf import catalog
from mlperf.catalog import Scenario
from mlperf.harness.settings import ACCURACY, PERFORMANCE

from .. import names, truncate
from ..errors import HELP, SubmissionError
from ..sources import (
    MEASUREMENTS,
    README,
    USER_CONF,
    BenchmarkRun,
    CollectedRuns,
    Document,
    ScenarioSources,
)
from . import clues, upstream
from .confs import user_conf
from .log_folders import LogFolder, mapping, others, places, trees

Parts = Mapping[str, LogFolder]


@dataclass(frozen=True, slots=True)
class RunOverrides:
    """Facts that override or complete those of the logs; empty texts are unset."""

    system: str = ""
    benchmark: str = ""
    scenario: str = ""
    division: str = ""
    round: str = ""
    measurements: Path | None = None
    code: Path | None = None


class MissingInputError(SubmissionError):
    """Facts that the logs lack; ``runs`` are the benchmarks as far as they are known."""

    runs: tuple[BenchmarkRun, ...] = ()


def collect(folder: Path, handed: RunOverrides, skipped: Sequence[Path] = ()) -> CollectedRuns:
    """Return the runs below ``folder``, without those of our own harness (``skipped``).

    Raises SubmissionError naming every missing option, or two runs of one scenario.
    """
    log_folders = list(places(folder, skipped))
    notes = tuple(
        f"{path.relative_to(folder).as_posix()} is left out: it is {what}"
        for path, what in (
            *((tree, "a submission tree") for tree in trees(folder)),
            *others(folder, skipped),
        )
    )
    made = (
        RunCollector(folder, handed).collect_runs(log_folders) if log_folders else CollectedRuns()
    )
    return made.joined(CollectedRuns((), notes))


@dataclass(slots=True)
class RunCollector:
    """Sort runs by benchmark; record the missing options and notes."""

    root: Path
    handed: RunOverrides
    round: str = ""
    options: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def collect_runs(self, runs: Sequence[LogFolder]) -> CollectedRuns:
        """Return every benchmark on every system; raise SubmissionError where facts are missing."""
        self.round = self.handed.round or clues.round_of(place.log for place in runs)
        if not self.round:
            self._need("--round=ROUND", "the round, as no log carries the seeds of one")
        groups: dict[tuple[str, str], dict[str, dict[str, LogFolder]]] = {}
        for place in runs:
            system, benchmark, scenario = self._belongs(place)
            parts = groups.setdefault((system, benchmark), {}).setdefault(scenario, {})
            if place.part in parts:
                raise self._twice(parts[place.part], place)
            parts[place.part] = place
        benchmark_runs = [self._benchmark(*key, scenarios) for key, scenarios in groups.items()]
        if self.options:
            problem = self._questions()
            problem.runs = tuple(benchmark_runs)
            raise problem
        return CollectedRuns(tuple(benchmark_runs), tuple(self.notes))

    def _need(self, option: str, what: str) -> str:
        """Record a missing option; return the empty text in its stead."""
        self.options.setdefault(option, what)
        return ""

    def _questions(self) -> MissingInputError:
        list_of_options = "; ".join(f"{what}: {option}" for option, what in self.options.items())
        text = f"the logs in {self.root} do not tell everything; needed is {list_of_options}"
        return MissingInputError(text, HELP, "needs-input", self.options)

    def _twice(self, first: LogFolder, second: LogFolder) -> SubmissionError:
        one, other = (self._shown(log_folder) for log_folder in (first, second))
        return SubmissionError(
            f"{one} and {other} are both a {first.part} run of the same scenario",
            "give a --results_dir that holds one of them",
            "needs-input",
        )

    def _shown(self, place: LogFolder) -> str:
        return place.folder.relative_to(self.root).as_posix()

    def _belongs(self, place: LogFolder) -> tuple[str, str, str]:
        """Return system, benchmark and scenario; note the reason of those inferred from the log."""
        reasons: list[str] = []
        scenario = self._scenario(place, reasons)
        benchmark = self.handed.benchmark or place.benchmark
        if not benchmark and scenario and self.round:
            benchmark = self._guessed(place, scenario, reasons)
        what = f"the name of the system of {self._shown(place)}, which becomes that of its folder"
        system = self.handed.system or place.system or self._need("--system=NAME", what)
        if reasons:
            list_of_reasons = " and ".join(reasons)
            self.notes.append(f"{self._shown(place)}: the {place.part} run of {list_of_reasons}")
        return system, benchmark, spelt(scenario)

    def _scenario(self, place: LogFolder, reasons: list[str]) -> str:
        """Return the scenario by option or path; else by the log, which adds a reason."""
        scenario = self.handed.scenario or place.scenario
        if scenario:
            return scenario
        if place.logged is None:
            return self._need("--scenario=SCENARIO", "the scenario")
        reasons.append(f"{place.logged}, as LoadGen logs it")
        return str(place.logged)

    def _guessed(self, place: LogFolder, scenario: str, reasons: list[str]) -> str:
        """Return the benchmark by the size of its data set; record the reason, or the option."""
        size = place.log.number(clues.SAMPLES) or 0
        candidates = clues.benchmarks(place.log, scenario, self.round)
        if len(candidates) == 1:
            name = candidates[0].name
            reason = f"{name}, as only its data set has {size:.0f} samples in v{self.round}"
            reasons.append(reason)
            return name
        which = " or ".join(spec.name for spec in candidates) or "none that v" + self.round + " has"
        reason = f"the benchmark (with {size:.0f} samples it is {which})"
        return self._need("--model=NAME", reason)

    def _benchmark(
        self, system: str, benchmark: str, scenarios: Mapping[str, Parts]
    ) -> BenchmarkRun:
        """One benchmark on one system."""
        beside = tuple(dict.fromkeys(self._beside(scenarios.values())))
        device = upstream.device(beside, system)
        division = self.handed.division or upstream.owned(beside, "division")
        own = mapped(beside, benchmark)
        return BenchmarkRun(
            sut=system,
            benchmark=benchmark,
            round=self.round,
            division=division or self._need("--division=closed or open", "the division"),
            category=upstream.owned(beside, "system_type"),
            device=device,
            scenarios={name: self._sources(parts) for name, parts in scenarios.items()},
            code=self._code(beside, benchmark, system),
            calibration=f"- {benchmark} on {system}: see its code and README.md.",
            facts={**upstream.of_device(device), **upstream.facts(beside)},
            mapping={benchmark: own} if own else {},
        )

    def _beside(self, scenarios: Iterable[Parts]) -> Iterator[Path]:
        """Yield folders that may hold facts of runs: those of the logs and those above them."""
        for place in (place for parts in scenarios for place in parts.values()):
            above = (place.home, place.home.parent, place.home.parent.parent)
            for folder in (place.folder, *place.folder.parents):
                if folder.is_relative_to(self.root) or (place.system and folder in above):
                    yield folder

    def _code(self, beside: Sequence[Path], benchmark: str, system: str) -> Document:
        folder, name = self.handed.code, names.official(benchmark)
        if folder is None:
            note = f"the code of {name} is only named in the tree: --code=FOLDER puts it there"
            self.notes.append(note)
            return upstream.code(beside, benchmark, system)
        if not folder.is_dir():
            raise SubmissionError(f"there is no folder {folder}", "check --code")
        return folder

    def _sources(self, parts: Parts) -> ScenarioSources:
        known = {name: parts[name] for name in (PERFORMANCE, ACCURACY) if name in parts}
        first = next(iter((known or parts).values()))
        logs = {name: log_folder.folder for name, log_folder in known.items()}
        self._look_at_accuracy(parts)
        tests = (name for name in parts if name.startswith("TEST"))
        return ScenarioSources(
            home=first.home,
            performance=logs.get(PERFORMANCE, first.home / PERFORMANCE / "run_1"),
            accuracy=logs.get(ACCURACY, first.home / ACCURACY),
            tests={name: parts[name].home / name for name in tests},
            documents=self._documents((*logs.values(), first.home), first, parts),
        )

    def _look_at_accuracy(self, parts: Parts) -> None:
        right = parts.get(ACCURACY)
        if right is not None and not (right.folder / truncate.TEXT).is_file():
            self.notes.append(
                f"{self._shown(right)} has no {truncate.TEXT}: put what the accuracy script of "
                f"the benchmark prints of {truncate.LOG} into it"
            )

    def _documents(
        self, folders: Sequence[Path], first: LogFolder, parts: Parts
    ) -> Mapping[str, Document]:
        """Return the documents next to the logs, or documents written from the logs."""
        described = self.handed.measurements or upstream.measurements(folders)
        if described is None:
            what = f"the description of the model ({MEASUREMENTS}: precision, weights and so on)"
            self._need("--measurements=FILE", what)
        return {
            MEASUREMENTS: described or "",
            USER_CONF: beside_logs((*_of_settings(folders[0]), *reversed(folders)), USER_CONF)
            or user_conf(first.log),
            README: beside_logs(folders, README) or readme(parts),
        }


def spelt(scenario: str) -> str:
    """Return a scenario as LoadGen writes its name."""
    known_scenario = Scenario.of_folder(scenario)
    return str(known_scenario) if known_scenario else scenario


def mapped(beside: Iterable[Path], benchmark: str) -> str:
    """Return the benchmark that a user's own model is compared with; empty for other models."""
    if catalog.find(benchmark) is not None:
        return ""
    official_names = (mapping(folder).get(benchmark, "") for folder in beside)
    return next((to for to in official_names if to), "")


def _of_settings(run: Path) -> tuple[Path, ...]:
    """Return the folders with the settings of a run; the harness writes its logs one below."""
    return (run, run.parent) if run.name.startswith("run_") else (run,)


def beside_logs(folders: Iterable[Path], name: str) -> Path | None:
    """A document that lies with the logs and is not empty."""
    paths = (folder / name for folder in folders)
    return next((path for path in paths if path.is_file() and path.stat().st_size), None)


def readme(parts: Parts) -> str:
    """Return a README.md of the facts of runs that came without one."""
    lines = ["# Logs of LoadGen, as they were written", ""]
    for name, place in parts.items():
        values = place.log.values
        version, at = values.get("loadgen_version", "?"), values.get("test_datetime", "?")
        sut = json.dumps(values.get("sut_name", ""))
        lines.append(f"- {name}: LoadGen {version}, {at}, system under test {sut}")
    return "\n".join([*lines, ""])
