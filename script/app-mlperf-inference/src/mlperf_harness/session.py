"""One call of the harness: what is asked, in order, each run in a process of its own."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import (
    compliance,
    documents,
    estimate,
    find,
    host,
    kept_calibration,
    memory,
    performance,
    precheck,
    process,
    records,
    report,
    rules,
)
from .calibration import Calibration, Probe, Request
from .context import Context
from .detail_log import figures
from .errors import HarnessError
from .launch import Launcher, Schedule, say
from .results import Results, ScenarioResult, Tree, private_folder, scenario_result, sweep
from .rules import BenchmarkRules
from .settings import (
    ACCURACY,
    COMPLIANCE,
    FIND,
    PERFORMANCE,
    README,
    SINGLE_STREAM,
    SessionSettings,
)
from .store import open_store

FORMAT = 2
PROBE_S = 1.0
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
        say(f"{stop}; nothing unfinished is left in the results, finished runs are kept")
        return stop.exit_code
    say(f"results: {results.folder}/results.json")
    say(f"report:  {results.folder}/report.html")
    return 0


class Session:
    """The state of one call."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._launcher = Launcher()
        self._dataset = _dataset_facts(Path(settings.dataset))
        known = settings.benchmark in rules.names()
        self._rules: BenchmarkRules | None = rules.benchmark(settings.benchmark) if known else None
        _check_model(settings)

    def run(self) -> Results:
        """Make all asked runs that are not there yet, and write the results and reports."""
        started = time.monotonic()
        settings, results_dir = self._settings, Path(self._settings.results_dir)
        probe = self._probe(results_dir)
        sut = settings.sut(probe.versions.get(settings.backend, ""))
        tree = Tree(results_dir, settings.style, sut, settings.benchmark)
        notes = precheck.check(settings, self._rules, probe, tree.root)
        for note in notes:
            say(f"note: {note}")
        memory.check(settings, self._rules, probe)
        tree.prepare()
        store = open_store(settings)
        context = Context(settings, self._rules, self._launcher, tree, store, probe, self._dataset)
        pending = self._pending(context)
        if pending:
            self._make(context, pending, results_dir)
        results = self._collect(context, sut, notes, time.monotonic() - started)
        documents.write(tree, results, settings)
        return results

    def _pending(self, context: Context) -> list[tuple[str, str]]:
        """The asked runs, without those that the tree holds and that count."""
        pending = []
        for run in self._asked():
            if self._settings.reuse and _have(context, *run):
                say(f"{run[0]} {run[1]}: kept, the results folder has it already")
            else:
                pending.append(run)
        return pending

    def _asked(self) -> list[tuple[str, str]]:
        tests = self._rules.tests(self._settings.round) if self._rules else ()
        modes = [mode for mode in self._settings.modes if mode not in (COMPLIANCE, README)]
        if COMPLIANCE in self._settings.modes:
            modes += tests
        return [(scenario, mode) for scenario in self._settings.scenarios for mode in modes]

    def _make(
        self, context: Context, pending: Sequence[tuple[str, str]], results_dir: Path
    ) -> None:
        calibration = context.measured = self._calibration(context, results_dir)
        total, text = estimate.in_words(self._settings, calibration, pending)
        say(text)
        schedule = self._launcher.schedule = Schedule(total)
        for scenario, mode in pending:
            context.tree.forget_attempts(scenario, mode)
            _measure(context, scenario, mode)
            schedule.done_s += estimate.seconds(self._settings, calibration, scenario, mode)

    def _request(self) -> Request:
        settings = self._settings
        return Request(
            settings.benchmark,
            settings.backend,
            settings.device,
            settings.model,
            settings.dataset,
            settings.overrides,
            settings.precision,
        )

    def _probe(self, results_dir: Path) -> Probe:
        sweep(results_dir.glob(".probe.*"))
        with private_folder(results_dir, "probe") as folder:
            self._launcher.execute("probe", folder, self._request(), "looking", PROBE_S)
            return records.read(Probe, folder / "outcome.json")

    def _calibration(self, context: Context, results_dir: Path) -> Calibration:
        """The one that is kept from an earlier call on the same machine, or a new one."""
        path = kept_calibration.place(self._settings)
        digest = self._dataset["sha256"]
        wanted = kept_calibration.fingerprint(self._settings, digest, context.probe)
        kept = kept_calibration.find(path, wanted) if self._settings.reuse else None
        if kept is not None:
            day = kept.measured_at[:16].replace("T", " ")
            say(f"{_in_words(kept.calibration)}; kept from {day} UTC (new: --rerun)")
            return kept.calibration
        idle = kept_calibration.idle()
        found = self._calibrate(results_dir)
        if idle:
            kept_calibration.keep(path, wanted, found)
        say(_in_words(found) + ("" if idle else "; not kept, the machine was busy"))
        return found

    def _calibrate(self, results_dir: Path) -> Calibration:
        sweep(results_dir.glob(".calibrate.*"))
        with private_folder(results_dir, "calibrate") as folder:
            request = self._request()
            self._launcher.execute("calibrate", folder, request, "calibrating", CALIBRATION_S)
            return records.read(Calibration, folder / "outcome.json")

    def _collect(self, context: Context, sut: str, notes: Sequence[str], seconds: float) -> Results:
        settings, model = self._settings, self._settings.model
        results = tuple(_scenario(context, name) for name in settings.scenarios)
        return Results(
            format=FORMAT,
            benchmark=settings.benchmark,
            form=settings.form,
            backend=settings.backend,
            device=settings.device,
            style=settings.style,
            division=settings.division,
            round=settings.round,
            sut=sut,
            modes=settings.modes,
            model={
                "name": model.name,
                "sha256": model.sha256,
                "precision": model.precision,
                **({"reduced": model.options["reduced"]} if "reduced" in model.options else {}),
            },
            dataset=self._dataset,
            host=host.facts(),
            versions=context.probe.versions,
            calibration=records.encode(context.measured) if context.measured else {},
            results=results,
            problems=tuple(report.problems(results, settings.division)),
            folder=str(context.tree.root.resolve()),
            seconds=seconds,
            category=settings.category,
            notes=tuple(notes),
            sut_file=str(context.store.path) if context.store else "",
            precision=settings.precision,
        )


def _in_words(found: Calibration) -> str:
    best, stream = found.offline, found.streams[SINGLE_STREAM]
    return (
        f"calibrated on {found.cores} cores: {figures(best.samples_per_s)} samples/s "
        f"({best.shape.workers} x {best.shape.threads} threads, batch {best.shape.batch}), "
        f"{1000 * stream.median_s:.3g} ms a sample"
    )


def _measure(context: Context, scenario: str, mode: str) -> None:
    if mode == FIND:
        find.measure(context, scenario)
    elif mode == PERFORMANCE:
        performance.measure(context, scenario)
    elif mode == ACCURACY:
        performance.measure_accuracy(context, scenario)
    else:
        compliance.measure(context, scenario, mode)


def _have(context: Context, scenario: str, mode: str) -> bool:
    """Whether the tree holds this very run already, and one that counts."""
    tree, fingerprint = context.tree, context.fingerprint(scenario, mode)
    if mode == PERFORMANCE:
        run = tree.performance(scenario)
        return run is not None and run.fingerprint == fingerprint and run.validity == "VALID"
    if mode == ACCURACY:
        figure = tree.accuracy(scenario)
        return figure is not None and figure.fingerprint == fingerprint
    if mode == FIND:
        found = tree.found(scenario)
        stored = context.store is None or context.stored(scenario) is not None
        confirmed = found is not None and found.confirmed
        return found is not None and found.fingerprint == fingerprint and confirmed and stored
    test = tree.compliance(scenario, mode)
    return test is not None and test.fingerprint == fingerprint and test.passed


def _scenario(context: Context, name: str) -> ScenarioResult:
    """What the tree holds of a scenario, as far as it was asked for."""
    modes, tree = context.settings.modes, context.tree
    both = README in modes
    tests = context.rules.tests(context.settings.round) if context.rules else ()
    asked = tests if both or COMPLIANCE in modes else ()
    made = [tree.compliance(name, test) for test in asked]
    return scenario_result(
        name,
        tree.performance(name) if both or PERFORMANCE in modes else None,
        tree.accuracy(name) if both or ACCURACY in modes else None,
        tree.found(name) if both or FIND in modes else None,
        tuple(test for test in made if test is not None),
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
