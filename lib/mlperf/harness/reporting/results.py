"""Records of results, and the tree of folders in which complete runs are published."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlperf.catalog import Division, Scenario
from mlperf.rate_search import RateTrial

from .. import records
from ..errors import HarnessError
from ..host import HostFacts
from ..jobs import TimeSpent
from ..measuring.telemetry import Telemetry
from ..measuring.verdict import RuleViolation
from ..settings import ACCURACY, FIND, FLOAT32, PERFORMANCE, Options, Targets, WorkerShape

RESULT_FILE = "result.json"
# The backend of runs whose model is on other machines.
NETWORK = "network"
# What the machine did during a run, for charts.
MACHINE = "machine.json"
REPORTS = ("results.json", "summary.txt", "report.html")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One performance run. All but the last are kept as attempts/performance-<number>."""

    number: int
    validity: str
    value: float | None
    targets: Targets
    faults: tuple[RuleViolation, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What surrounded a run: the command, libraries, time, load, and the machine's telemetry.

    ``configuration`` is what must be equal in all runs that make up one result, ``overrides`` are
    the inputs of the user that bear on a performance run, by the names of ``Overrides``.
    ``computed_by`` is the backend's, see ``backends.base.Backend``.
    """

    measured_at: str
    versions: dict[str, str]
    load_before: float | None
    load_after: float | None
    command: str = ""
    telemetry: Telemetry | None = None
    configuration: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, float] = field(default_factory=dict, metadata=records.WHEN_GIVEN)
    computed_by: dict[str, str] = field(default_factory=dict, metadata=records.WHEN_GIVEN)


@dataclass(frozen=True, slots=True)
class TokenFigures:
    """The tokens of a performance run: their rate, and percentiles of their latencies in ms.

    ``samples_per_s`` is the rate of answers. Offline has no latencies; a limit of None is one that
    the scenario does not have.
    """

    tokens_per_s: float | None
    samples_per_s: float | None
    ttft_ms: dict[str, float]
    tpot_ms: dict[str, float]
    ttft_limit_ms: float | None = None
    tpot_limit_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeResult:
    """A scenario that was run in one mode: the digest of its settings, and the rules it breaks."""

    fingerprint: str
    scenario: Scenario
    faults: tuple[RuleViolation, ...]
    circumstances: Circumstances


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceResult(ModeResult):
    """The last attempt at a scenario; ``value`` is in ``unit``, latencies are in ms."""

    style: str
    validity: str
    metric: str
    meaning: str
    unit: str
    value: float | None
    targets: Targets
    shape: WorkerShape
    queries: int | None
    duration_s: float | None
    latencies_ms: dict[str, float]
    attempts: tuple[Attempt, ...]
    log_dir: str = ""
    tokens: TokenFigures | None = field(default=None, metadata=records.WHEN_GIVEN)
    spent: TimeSpent | None = field(default=None, metadata=records.WHEN_GIVEN)


@dataclass(frozen=True, slots=True)
class FurtherFigure:
    """Another figure of the same run with its target, and ``most`` where it must not be above."""

    metric: str
    unit: str
    value: float
    reference: float
    target: float
    reached: bool
    most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyResult(ModeResult):
    """The accuracy of all samples in a scenario, and the target it is held against.

    ``reached`` says whether all of them are, the ``further`` ones too. ``oracle`` is as in
    ``jobs.AccuracyFigure``.
    """

    metric: str
    unit: str
    value: float
    reference: float
    target: float
    reached: bool
    samples: int
    duplicates: int
    seconds: float
    log_dir: str = ""
    further: tuple[FurtherFigure, ...] = ()
    oracle: tuple[int, ...] | None = field(default=None, metadata=records.WHEN_GIVEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindResult(ModeResult):
    """What find-performance found for a scenario: ``value`` in ``unit``, None when nothing was.

    ``tries`` are the short runs of the Server search, ``stored`` the file that has the value now.
    """

    quantity: str
    value: float | None
    unit: str
    confirmed: bool
    tries: tuple[RateTrial, ...]
    stored: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplianceResult(ModeResult):
    """One compliance test of a scenario; ``lines`` say what was compared with what."""

    test: str
    passed: bool
    lines: tuple[str, ...]
    value: float | None
    reference: float | None
    unit: str
    seconds: float
    log_dir: str = ""


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """A scenario: the figures that count first, then all that is known of how they came about.

    What was not measured is None. ``value`` is in ``unit``, ``accuracy`` and its target in
    ``accuracy_unit``.
    """

    scenario: Scenario
    metric: str | None
    value: float | None
    unit: str | None
    validity: str | None
    reasons: tuple[str, ...]
    accuracy: float | None
    accuracy_target: float | None
    accuracy_unit: str | None
    accuracy_reached: bool | None
    performance_run: PerformanceResult | None
    accuracy_run: AccuracyResult | None
    find: FindResult | None = None
    compliance: tuple[ComplianceResult, ...] = ()

    def runs(self) -> tuple[tuple[str, Circumstances], ...]:
        """The modes in which it was run, a compliance test by its own name, and when and how."""
        sides = (
            (FIND, self.find),
            (PERFORMANCE, self.performance_run),
            (ACCURACY, self.accuracy_run),
            *((test.test, test) for test in self.compliance),
        )
        return tuple((mode, run.circumstances) for mode, run in sides if run is not None)

    def telemetry(self) -> tuple[tuple[str, Telemetry | None], ...]:
        """What the machine was like, by mode."""
        return tuple((mode, around.telemetry) for mode, around in self.runs())


def scenario_result(
    scenario: Scenario,
    run: PerformanceResult | None,
    figure: AccuracyResult | None,
    find: FindResult | None = None,
    compliance: tuple[ComplianceResult, ...] = (),
) -> ScenarioResult:
    """Join all sides of a scenario, as far as they were measured."""
    sides = (find, run, figure, *compliance)
    return ScenarioResult(
        scenario=scenario,
        metric=run.metric if run else None,
        value=run.value if run else None,
        unit=run.unit if run else None,
        validity=run.validity if run else None,
        reasons=tuple(fault.text for side in sides if side for fault in side.faults),
        accuracy=figure.value if figure else None,
        # A model of one's own has none, which its run calls 0.
        accuracy_target=(figure.target or None) if figure else None,
        accuracy_unit=figure.unit if figure else None,
        accuracy_reached=figure.reached if figure else None,
        performance_run=run,
        accuracy_run=figure,
        find=find,
        compliance=compliance,
    )


@dataclass(frozen=True, slots=True)
class ResultProblem:
    """A reason to reject results: the scenario and mode, the broken rule, and the advice."""

    scenario: Scenario
    mode: str
    fault: RuleViolation


@dataclass(frozen=True, slots=True)
class SessionCall:
    """The requested scenarios and modes of a call, and the runs (scenario, mode) that it made."""

    scenarios: tuple[str, ...]
    modes: tuple[str, ...]
    made: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class OtherRun:
    """A run in the same folder that is no part of the results: ``differs`` says in what."""

    scenario: Scenario
    mode: str
    measured_at: str
    differs: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class Results:
    """Scenarios and modes with everything needed to judge them.

    results.json covers all that its folder holds, the answer to a call what it requested.
    ``call`` is the one that wrote them; what it has not made was measured before.
    ``stand_in`` names the device that the processor replaced, if any.
    ``scenario_models`` has the digest of a model per scenario that has one of its own.
    ``seed`` is what LoadGen's seeds follow from where they are not those of the round.
    """

    format: int
    benchmark: str
    form: str
    backend: str
    device: str
    style: str
    division: Division
    round: str
    sut: str
    modes: tuple[str, ...]
    model: dict[str, Any]
    dataset: dict[str, Any]
    host: HostFacts
    versions: dict[str, str]
    calibration: dict[str, Any]
    results: tuple[ScenarioResult, ...]
    problems: tuple[ResultProblem, ...]
    folder: str
    seconds: float
    category: str = ""
    notes: tuple[str, ...] = ()
    sut_file: str = ""
    precision: str = FLOAT32
    call: SessionCall | None = None
    others: tuple[OtherRun, ...] = ()
    backend_options: Options = field(default_factory=dict, metadata=records.WHEN_GIVEN)
    device_facts: dict[str, str] = field(default_factory=dict, metadata=records.WHEN_GIVEN)
    stand_in: str = field(default="", metadata=records.WHEN_GIVEN)
    scenario_models: dict[str, str] = field(default_factory=dict, metadata=records.WHEN_GIVEN)
    seed: int = field(default=0, metadata=records.WHEN_GIVEN)

    @property
    def runtime(self) -> str:
        """What computes and its version, such as "onnxruntime 1.32.0"; over a network, how many."""
        nodes = self.device_facts.get("nodes", "") if self.backend == NETWORK else ""
        name = self.device_facts["backend"] if nodes else self.backend
        text = f"{name} {self.versions.get(name, '')}".strip()
        return f"{text} over the network on {nodes} node{'s' * (nodes != '1')}" if nodes else text

    def is_new(self, scenario: str, mode: str) -> bool:
        """Return whether the call itself made a run."""
        return self.call is None or (scenario, mode) in self.call.made


@contextmanager
def staging_folder(parent: Path, name: str) -> Iterator[Path]:
    """Yield a hidden folder of this process; remove it at the end if it still exists."""
    folder = parent / f".{name}.{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders(folders: Iterable[Path]) -> None:
    """Remove the staging folders whose process has ended: the remains of killed sessions."""
    for folder in folders:
        owner = folder.name.rpartition(".")[2]
        if folder.is_dir() and owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


class ResultTree:
    """``RESULTS/<style>_results/<SUT>/<benchmark>/<scenario>/<mode>``.

    A run is made in a hidden folder next to its place and renamed when it is complete, so that a
    run that was killed leaves nothing that could be taken for a result.
    """

    def __init__(self, results_dir: Path, style: str, sut: str, benchmark: str) -> None:
        self.root = results_dir / f"{style}_results" / sut / benchmark

    def scenario(self, scenario: str) -> Path:
        """Return the folder of a scenario."""
        return self.root / scenario.lower()

    def place(self, scenario: str, mode: str) -> Path:
        """Where the complete run of a scenario in a mode lies."""
        return self.scenario(scenario) / mode

    def prepare(self) -> None:
        """Make the folder, without the report of an earlier call and the remains of killed ones."""
        self.root.mkdir(parents=True, exist_ok=True)
        for name in REPORTS:
            (self.root / name).unlink(missing_ok=True)
        remove_stale_folders(self.root.glob("*/.*.*"))

    def publish(self, folder: Path, scenario: str, mode: str) -> Path:
        """Move a complete run to its final path, replacing an earlier one."""
        place = self.place(scenario, mode)
        old = place.with_name(f".{mode}.old.{os.getpid()}")
        if place.exists():
            place.rename(old)
        folder.rename(place)
        shutil.rmtree(old, ignore_errors=True)
        return place

    def keep_attempt(self, folder: Path, scenario: str, mode: str, number: int) -> Path:
        """Move an INVALID or failed run to ``attempts/<mode>-<number>``; return that folder."""
        kept = self.scenario(scenario) / "attempts" / f"{mode}-{number}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(exist_ok=True)
        folder.rename(kept)
        return kept

    def forget_attempts(self, scenario: str, mode: str) -> None:
        """Remove the attempts of an earlier session."""
        for kept in self.scenario(scenario).glob(f"attempts/{mode}-*"):
            shutil.rmtree(kept, ignore_errors=True)

    def performance(self, scenario: str) -> PerformanceResult | None:
        """Return a scenario's performance result; a file of another format counts as missing."""
        result: PerformanceResult | None = _load(
            PerformanceResult, self.place(scenario, PERFORMANCE), "run_1"
        )
        return result

    def accuracy(self, scenario: str) -> AccuracyResult | None:
        """Return the accuracy result of a scenario; a file of another format counts as missing."""
        result: AccuracyResult | None = _load(AccuracyResult, self.place(scenario, ACCURACY), ".")
        return result

    def find_result(self, scenario: str) -> FindResult | None:
        """What find-performance found in this tree."""
        try:
            return records.read(FindResult, self.place(scenario, FIND) / RESULT_FILE)
        except HarnessError:
            return None

    def compliance(self, scenario: str, test: str) -> ComplianceResult | None:
        """Return the result of a compliance test."""
        result: ComplianceResult | None = _load(
            ComplianceResult, self.place(scenario, test), "performance/run_1"
        )
        return result


def minute(measured_at: str) -> str:
    """Return a time as people write it."""
    return measured_at[:16].replace("T", " ")


def span(times: Iterable[str]) -> str:
    """From the first to the last of some times, as people write it."""
    ordered = sorted(minute(time) for time in times)
    first, last = ordered[0], ordered[-1]
    day = first[:11]
    return first if first == last else f"{first} to {last.removeprefix(day)}"


def accuracy_in_words(value: float, unit: str | None) -> str:
    """Return a figure of a metric for a table; one without a unit is a share of 1."""
    return f"{value:.2f} {unit}" if unit else f"{value:.4f}"


def _load(cls: type[Any], path: Path, logs: str) -> Any:
    try:
        data = records.read_json(path / RESULT_FILE)
        return records.decode(cls, {**data, "log_dir": str((path / logs).resolve())})
    except (HarnessError, TypeError):
        return None


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_accuracy_text(folder: Path, line: str, further: str = "") -> None:
    """accuracy.txt as submission checkers read it: the figure, and the hash of the whole log.

    ``further`` is a line between the two.
    """
    log = (folder / "mlperf_log_accuracy.json").read_bytes()
    lines = "".join(f"{each}\n" for each in (line, further) if each)
    text = f"{lines}hash={hashlib.sha256(log).hexdigest()}\n"
    (folder / "accuracy.txt").write_text(text, encoding="utf-8")
