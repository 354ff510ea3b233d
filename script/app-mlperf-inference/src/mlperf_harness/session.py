"""One call of the harness: calibrate once, then one process for every scenario and mode."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import detail_log, host, process, records, report, summary, targets
from .calibration import Calibration, Request
from .detail_log import METRICS, DetailLog, figures
from .errors import HarnessError
from .outcome import Outcome
from .progress import Progress
from .results import (
    RESULT_FILE,
    Attempt,
    Results,
    Tree,
    private_folder,
    scenario_result,
    sweep,
    write_accuracy_text,
)
from .settings import (
    ACCURACY,
    OFFLINE,
    PERFORMANCE,
    SERVER,
    SINGLE_STREAM,
    STREAMS,
    RunSettings,
    SessionSettings,
    Shape,
    Targets,
)
from .verdict import Verdict

FORMAT = 1
ATTEMPTS = 3
ROUND_DURATION_MS = 600_000
START_S = 1.5
CALIBRATION_S = 4.0


def main(config: Path) -> int:
    """Measure as ``config`` says; 0 when everything was measured, whatever came out.

    Raises HarnessError when something could not be measured at all. What the figures are worth
    is told in results.json and in the table.
    """
    settings = records.read(SessionSettings, config)
    try:
        with process.interruptible():
            results = Session(settings).run()
    except process.Interrupted as stop:
        say(f"{stop}; nothing unfinished is left in the results")
        return stop.exit_code
    say(f"results: {results.folder}/results.json")
    return 0


def say(text: str) -> None:
    """One plain line for whoever watches."""
    print(text, flush=True)


@dataclass(frozen=True, slots=True)
class Made:
    """A performance run that has ended: its settings, its log, and what they come to."""

    run: RunSettings
    log: DetailLog
    verdict: Verdict
    attempt: Attempt


class Session:
    """The state of one call: its settings and, once the backend's version is known, its tree."""

    _tree: Tree
    _sut: str

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._progress = Progress()
        self._dataset = _dataset_facts(Path(settings.dataset))
        _check_model(settings)

    def run(self) -> Results:
        """Make all asked runs and write results.json and summary.txt."""
        started = time.monotonic()
        results_dir = Path(self._settings.results_dir)
        calibration = self._calibrate(results_dir)
        self._sut = self._settings.sut(calibration.versions.get(self._settings.backend, ""))
        self._tree = Tree(results_dir, self._settings.style, self._sut, self._settings.benchmark)
        self._tree.prepare()
        for scenario in self._settings.scenarios:
            for mode in self._settings.modes:
                self._measure(calibration, scenario, mode)
        results = self._collect(calibration, time.monotonic() - started)
        records.write_text(self._tree.root / "summary.txt", summary.table(results))
        records.write(self._tree.root / "results.json", results)
        if self._settings.answer:
            records.write(Path(self._settings.answer), results)
        return results

    def _have(self, scenario: str, mode: str, fingerprint: str) -> bool:
        """Whether the tree holds this very run already, and a VALID one if it is about speed."""
        if mode == ACCURACY:
            figure = self._tree.accuracy(scenario)
            return figure is not None and figure.fingerprint == fingerprint
        run = self._tree.performance(scenario)
        return run is not None and run.fingerprint == fingerprint and run.validity == "VALID"

    def _calibrate(self, results_dir: Path) -> Calibration:
        settings = self._settings
        request = Request(
            settings.benchmark,
            settings.backend,
            settings.device,
            settings.model,
            settings.dataset,
            settings.overrides,
            settings.precision,
        )
        sweep(results_dir.glob(".calibrate.*"))
        with private_folder(results_dir, "calibrate") as folder:
            self._execute("calibrate", folder, request, "calibrating", CALIBRATION_S)
            found = records.read(Calibration, folder / "outcome.json")
        best, stream = found.offline, found.streams[SINGLE_STREAM]
        say(
            f"calibrated on {found.cores} cores: {best.samples_per_s:.0f} samples/s "
            f"({best.shape.workers} x {best.shape.threads} threads, batch {best.shape.batch}), "
            f"{1000 * stream.median_s:.3g} ms a sample"
        )
        return found

    def _measure(self, calibration: Calibration, scenario: str, mode: str) -> None:
        fingerprint = self._fingerprint(calibration, scenario, mode)
        if self._settings.reuse and self._have(scenario, mode, fingerprint):
            say(f"{scenario} {mode}: kept, the results folder has it already")
            return
        self._tree.forget_attempts(scenario, mode)
        measure = self._performance if mode == PERFORMANCE else self._accuracy
        measure(calibration, scenario, fingerprint)

    def _performance(self, calibration: Calibration, scenario: str, fingerprint: str) -> None:
        """Run until LoadGen says VALID, or other targets would not help, or three times."""
        settings = self._settings
        aim: Targets | None = targets.initial(
            calibration, settings.overrides, scenario, PERFORMANCE, settings.style
        )
        attempts: list[Attempt] = []
        while aim is not None:
            number = len(attempts) + 1
            before = host.load_average()
            with private_folder(self._tree.scenario(scenario), PERFORMANCE) as folder:
                run = self._run_settings(calibration, scenario, PERFORMANCE, aim, folder)
                outcome, made = self._attempt(calibration, run, folder, number)
                attempts.append(made.attempt)
                aim = self._next_aim(calibration, made)
                _say_attempt(made.attempt, scenario, again=aim is not None)
                if aim is not None:
                    self._tree.keep_attempt(folder, scenario, PERFORMANCE, number)
                    continue
                around = report.circumstances(outcome, before)
                result = report.performance_result(
                    run, made.log, tuple(attempts), around, fingerprint
                )
                records.write(folder / RESULT_FILE, result)
                self._publish_performance(folder, scenario)

    def _attempt(
        self, calibration: Calibration, run: RunSettings, folder: Path, number: int
    ) -> tuple[Outcome, Made]:
        began = time.monotonic()
        outcome = self._launch(run, folder, number)
        log = detail_log.read(folder / "run_1" / "mlperf_log_detail.txt")
        verdict = report.verdict_of(log, calibration, run.scenario, self._settings.round)
        attempt = Attempt(
            number=number,
            validity=report.validity(log, verdict),
            value=log.result(run.scenario),
            targets=run.targets,
            faults=verdict.faults,
            seconds=time.monotonic() - began,
        )
        return outcome, Made(run, log, verdict, attempt)

    def _next_aim(self, calibration: Calibration, made: Made) -> Targets | None:
        """Other targets to try, unless the run is fine, fixed by the user, or beyond help."""
        run = made.run
        fixed = targets.fixed_by_user(self._settings.overrides, run.scenario) is not None
        beyond = targets.hopeless(calibration, run.scenario)
        if made.verdict.valid or fixed or beyond or made.attempt.number >= ATTEMPTS:
            return None
        return targets.adjusted(run.targets, made.log, run.scenario)

    def _publish_performance(self, folder: Path, scenario: str) -> None:
        place = self._tree.publish(folder, scenario, PERFORMANCE)
        shutil.copyfile(place / "user.conf", place.parent / "user.conf")
        records.write(place.parent / "measurements.json", report.measurements(self._settings))

    def _accuracy(self, calibration: Calibration, scenario: str, fingerprint: str) -> None:
        settings = self._settings
        aim = targets.initial(calibration, settings.overrides, scenario, ACCURACY, settings.style)
        before, began = host.load_average(), time.monotonic()
        with private_folder(self._tree.scenario(scenario), ACCURACY) as folder:
            run = self._run_settings(calibration, scenario, ACCURACY, aim, folder)
            outcome = self._launch(run, folder, 1)
            figure = outcome.accuracy
            assert figure is not None  # an accuracy run without a figure reports a failure
            write_accuracy_text(folder, figure.line)
            log = detail_log.read(folder / "mlperf_log_detail.txt")
            around = report.circumstances(outcome, before)
            result = report.accuracy_result(
                run, log, figure, time.monotonic() - began, around, fingerprint
            )
            records.write(folder / RESULT_FILE, result)
            self._tree.publish(folder, scenario, ACCURACY)
        say(
            f"{scenario} accuracy: {result.value:.2f} {result.unit} of {result.samples} samples "
            f"(target {result.target:.2f})"
        )

    def _run_settings(
        self, calibration: Calibration, scenario: str, mode: str, aim: Targets, folder: Path
    ) -> RunSettings:
        settings = self._settings
        return RunSettings(
            benchmark=settings.benchmark,
            backend=settings.backend,
            device=settings.device,
            model=settings.model,
            dataset=settings.dataset,
            scenario=scenario,
            mode=mode,
            style=settings.style,
            shape=_shape(calibration, scenario),
            targets=aim,
            overrides=settings.overrides,
            folder=str(folder),
            service_times=calibration.service_times if scenario == SERVER else {},
            precision=settings.precision,
        )

    def _launch(self, run: RunSettings, folder: Path, number: int) -> Outcome:
        """Make one LoadGen run; a run that fails is kept for looking at and ends the session."""
        label = f"{run.scenario} {run.mode}"
        duration_ms = 0
        if run.mode == PERFORMANCE:
            duration_ms = run.targets.min_duration_ms or ROUND_DURATION_MS
        try:
            self._execute("run", folder, run, label, START_S + duration_ms / 1000)
            return records.read(Outcome, folder / "outcome.json")
        except HarnessError as error:
            kept = self._tree.keep_attempt(folder, run.scenario, run.mode, number)
            raise HarnessError(f"{label} failed: {error}; its files are in {kept}") from error

    def _execute(
        self, program: str, folder: Path, request: object, label: str, expected_s: float
    ) -> None:
        """Run a program of the package in ``folder``; raises HarnessError when it fails."""
        config, console = folder / "run.json", folder / "console.txt"
        records.write(config, request)
        began = time.monotonic()

        def tick() -> None:
            self._progress.report(label, time.monotonic() - began, expected_s)

        tick()
        status = process.run(program, config, console, tick)
        if status != 0:
            raise HarnessError(_reason(status, folder, console))

    def _fingerprint(self, calibration: Calibration, scenario: str, mode: str) -> str:
        """Equal for runs that would measure the same thing in the same way."""
        settings = self._settings
        parts = {
            "benchmark": settings.benchmark,
            "backend": settings.backend,
            "device": settings.device,
            "precision": settings.precision,
            "model": settings.model.sha256,
            "dataset": self._dataset["sha256"],
            "scenario": scenario,
            "mode": mode,
            "style": settings.style,
            "overrides": records.encode(settings.overrides),
            "versions": calibration.versions,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _collect(self, calibration: Calibration, seconds: float) -> Results:
        settings, model = self._settings, self._settings.model
        results = tuple(
            scenario_result(
                name,
                self._tree.performance(name) if PERFORMANCE in settings.modes else None,
                self._tree.accuracy(name) if ACCURACY in settings.modes else None,
            )
            for name in settings.scenarios
        )
        return Results(
            format=FORMAT,
            benchmark=settings.benchmark,
            form=settings.form,
            backend=settings.backend,
            device=settings.device,
            style=settings.style,
            division=settings.division,
            round=settings.round,
            sut=self._sut,
            modes=settings.modes,
            model={"name": model.name, "sha256": model.sha256, "precision": model.precision},
            dataset=self._dataset,
            host=host.facts(),
            versions=calibration.versions,
            calibration=records.encode(calibration),
            results=results,
            problems=tuple(report.problems(results, settings.division)),
            folder=str(self._tree.root.resolve()),
            seconds=seconds,
        )


def _dataset_facts(folder: Path) -> dict[str, Any]:
    path = folder / "dataset.json"
    facts = records.read_json(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"name": facts["name"], "count": facts["count"], "sha256": digest}


def _check_model(settings: SessionSettings) -> None:
    path = Path(settings.model.path)
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise HarnessError(f"cannot read the model {path}: {error}") from error
    if found != settings.model.sha256:
        raise HarnessError(f"{path} has sha256 {found}, expected {settings.model.sha256}")


def _shape(calibration: Calibration, scenario: str) -> Shape:
    if scenario in STREAMS:
        return calibration.streams[scenario].shape
    return (calibration.offline if scenario == OFFLINE else calibration.server).shape


def _say_attempt(attempt: Attempt, scenario: str, again: bool) -> None:
    metric = METRICS[scenario]
    value = "no figure" if attempt.value is None else figures(attempt.value)
    say(
        f"{scenario} performance: {attempt.validity}, {value} {metric.unit} ({metric.meaning}), "
        f"{attempt.seconds:.0f} s"
    )
    for fault in attempt.faults:
        say(f"  {fault.rule}: {fault.text}")
    if again:
        say("  again with adjusted targets")


def _reason(status: int, folder: Path, console: Path) -> str:
    """Why a process failed: its own report, the signal, or the last line that it printed."""
    outcome = folder / "outcome.json"
    if outcome.exists():
        failure = records.read_json(outcome).get("failure")
        if failure:
            return str(failure)
    if status < 0:
        return f"the process was ended by {signal.Signals(-status).name}"
    lines = console.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1] if lines else "it printed nothing"
    return last.removeprefix("mlperf_harness: ")
