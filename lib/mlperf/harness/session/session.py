"""One call of the harness: its requested runs in order, in processes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.files import sha256
from mlperf import catalog
from mlperf.catalog import Scenario, stand_in

from .. import host, records
from ..backends import registry as backends
from ..errors import DAMAGED, HarnessError
from ..measuring import gpu_users, memory
from ..reporting import documents, report
from ..reporting.results import ComplianceResult, FindResult, PerformanceResult, Results, ResultTree
from ..settings import (
    ACCURACY,
    COMPLIANCE,
    FIND,
    PERFORMANCE,
    README,
    Options,
    SessionSettings,
)
from ..tuning.store import open_store
from . import (
    compliance,
    estimate,
    find,
    inventory,
    performance,
    precheck,
    preparation,
    process,
    quiet,
)
from .context import Context, now
from .launch import Launcher, Schedule, say

FORMAT = 2


def main(config: Path) -> int:
    """Measure as ``config`` says; 0 when everything was measured, whatever came out.

    Raises HarnessError when something could not be measured at all. What the figures are worth
    is in results.json and in the table.
    """
    settings = records.read(SessionSettings, config)
    try:
        with process.interruptible():
            results = MeasurementSession(settings).run()
    except process.InterruptSignal as stop:
        say(f"{stop}; nothing unfinished is left in the results, finished runs are kept")
        return stop.exit_code
    say(f"results: {results.folder}/results.json")
    say(f"report:  {results.folder}/report.html")
    return 0


class MeasurementSession:
    """The state of one call."""

    def __init__(self, settings: SessionSettings) -> None:
        backend_options = backends.chosen(settings.backend, settings.backend_options)
        self._settings = settings = replace(settings, backend_options=backend_options)
        self._launcher = Launcher()
        self._dataset = _dataset_facts(Path(settings.dataset))
        self._rules = catalog.benchmarks().get(settings.benchmark)
        _check_model(settings)

    def run(self) -> Results:
        """Make all requested runs that are not there yet, and write the results and reports.

        The answer covers the request; the documents cover all that the folder holds.
        """
        with self._service() as more:
            return self._run({**self._settings.backend_options, **more})

    def _service(self) -> AbstractContextManager[Mapping[str, Any]]:
        """Run the services of the backend, such as a server, for the whole session."""
        settings = self._settings
        options = settings.backend_options
        all_models = (settings.model, *settings.scenario_models.values())
        models = tuple({model.digest(): model for model in all_models}.values())
        how = (settings.backend, settings.device, settings.precision)
        return backends.service(*how, options, models)

    def _run(self, options: Options) -> Results:
        started, began = time.monotonic(), now()
        settings, results_dir = self._settings, Path(self._settings.results_dir)
        probe = preparation.probe(self._launcher, settings, options)
        sut = settings.sut(probe.versions.get(settings.backend, ""))
        tree = ResultTree(results_dir, settings.style, sut, settings.benchmark)
        notes = list(precheck.check(settings, self._rules, probe, tree.root))
        notes += gpu_users.notes(settings.device)
        for note in notes:
            say(f"note: {note}")
        memory.check(settings, self._rules, probe)
        tree.prepare()
        context = Context(
            settings=settings,
            rules=self._rules,
            launcher=self._launcher,
            tree=tree,
            store=open_store(settings),
            probe=probe,
            dataset=self._dataset,
            patience=quiet.of_style(
                settings.style,
                settings.modes,
                settings.wait_s,
                say,
                self._launcher.progress.report,
            ),
            run_options=options,
        )
        pending = self._pending(context)

        def current() -> Results:
            held = self._collect(context, sut, notes, time.monotonic() - started)
            return replace(held, call=inventory.call(settings, held.results, pending, began))

        if pending:
            notes += self._make(context, pending, lambda: documents.show_so_far(tree, current()))
        results = current()
        requested = _only_requested(context, results)
        documents.write(tree, requested, results, settings)
        return requested

    def _pending(self, context: Context) -> list[tuple[Scenario, str]]:
        """Return the requested runs, without those that the tree holds and that count."""
        pending = []
        for run in self._requested():
            if self._settings.reuse and _have(context, *run):
                say(f"{run[0]} {run[1]}: kept, the results folder has it already")
            else:
                pending.append(run)
        return pending

    def _requested(self) -> list[tuple[Scenario, str]]:
        tests = self._rules.tests(self._settings.round) if self._rules else ()
        modes: list[str] = [m for m in self._settings.modes if m not in (COMPLIANCE, README)]
        if COMPLIANCE in self._settings.modes:
            modes += tests
        return [(scenario, mode) for scenario in self._settings.scenarios for mode in modes]

    def _make(
        self, context: Context, pending: Sequence[tuple[Scenario, str]], show: Callable[[], None]
    ) -> list[str]:
        """Make the runs; the answer says which could not be made, and why."""
        not_made = []
        self._prepare(context, [scenario for scenario, _ in pending])
        total, text = estimate.in_words(self._settings, context.profile, pending)
        say(text)
        for scenario in dict.fromkeys(scenario for scenario, _ in pending):
            used = context.profile(scenario).shape(scenario).batch
            if note := smaller_batch(scenario, self._settings.overrides.batch_size, used):
                say(note)
        schedule = self._launcher.schedule = Schedule(total)
        for scenario, mode in pending:
            show()
            context.tree.forget_attempts(scenario, mode)
            seconds = estimate.seconds(self._settings, context.profile(scenario), scenario, mode)
            schedule.run_s = 0.0 if mode == FIND else seconds
            if reason := _measure(context, scenario, mode):
                not_made.append(reason)
            schedule.done_s += seconds
        return not_made

    def _prepare(self, context: Context, scenarios: Sequence[Scenario]) -> None:
        """Build and tune each model that these scenarios are measured with."""
        models = {model.digest(): model for model in map(self._settings.model_of, scenarios)}
        for digest, model in models.items():
            if backends.builds(self._settings.backend, self._settings.precision):
                context.built[digest] = preparation.build_once(context, model)
            context.profiles[digest] = preparation.load_or_measure_profile(context, model)

    def _collect(self, context: Context, sut: str, notes: Sequence[str], seconds: float) -> Results:
        """Return all that the folder holds of this configuration."""
        settings, model = self._settings, self._settings.model
        others = settings.scenario_models
        results = inventory.all_results(context)
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
            modes=inventory.modes(results, settings.modes),
            model={
                "name": model.name,
                "sha256": model.sha256,
                "precision": model.precision,
                **({"reduced": model.options["reduced"]} if "reduced" in model.options else {}),
            },
            dataset=self._dataset,
            host=host.facts(),
            versions=context.probe.versions,
            calibration=records.encode(next(iter(context.profiles.values()), {})),
            results=results,
            problems=tuple(report.problems(results, settings.division, settings.precision)),
            folder=str(context.tree.root.resolve()),
            seconds=seconds,
            category=settings.category,
            notes=tuple(notes),
            sut_file=str(context.store.path) if context.store else "",
            precision=settings.precision,
            others=inventory.others(context),
            backend_options=settings.backend_options,
            device_facts=context.probe.device_facts,
            stand_in=stand_in.line(settings.backend, settings.device, settings.backend_options),
            scenario_models={name: each.digest() for name, each in others.items()},
            seed=settings.overrides.seed or 0,
        )


def _only_requested(context: Context, whole: Results) -> Results:
    """Return the results without those of earlier calls."""
    results = inventory.requested_results(context)
    broken = tuple(report.problems(results, whole.division, whole.precision))
    return replace(whole, results=results, modes=context.settings.modes, problems=broken)


def _measure(context: Context, scenario: Scenario, mode: str) -> str:
    """Make a run, or say why it cannot be made."""
    if mode == FIND:
        find.measure(context, scenario)
    elif mode == PERFORMANCE:
        performance.measure(context, scenario)
    elif mode == ACCURACY:
        performance.measure_accuracy(context, scenario)
    else:
        return compliance.measure(context, scenario, mode)
    return ""


def _have(context: Context, scenario: Scenario, mode: str) -> bool:
    """Return whether the tree holds this very run already, and one that counts."""
    run = inventory.held(context, scenario, mode)
    if run is None or run.fingerprint != context.fingerprint(scenario, mode):
        return False
    if isinstance(run, PerformanceResult):
        return run.validity == "VALID"
    if isinstance(run, FindResult):
        return run.confirmed and (context.store is None or context.stored(scenario) is not None)
    if isinstance(run, ComplianceResult):
        return run.passed and is_compared(context.tree, run)
    return True


def smaller_batch(scenario: Scenario, most: int | None, used: int) -> str:
    """Return what to say where tuning chose smaller batches than the user's; else empty."""
    if not scenario.batched or not most or used >= most:
        return ""
    return (
        f"note: {scenario} computes batches of {used}: tuning found none up to "
        f"--batch_size={most} faster"
    )


def is_compared(tree: ResultTree, test: ComplianceResult) -> bool:
    """Return whether the runs that a test was compared with are still those of the tree."""
    runs = (tree.performance(test.scenario), tree.accuracy(test.scenario))
    made = test.circumstances.measured_at
    return all(run is None or run.circumstances.measured_at <= made for run in runs)


def _dataset_facts(folder: Path) -> dict[str, Any]:
    path = folder / "dataset.json"
    facts = records.read_json(path)
    return {"name": facts["name"], "count": facts["count"], "sha256": sha256(path)}


def _check_model(settings: SessionSettings) -> None:
    models = (settings.model, *settings.scenario_models.values())
    for graph in (graph for model in models for graph in model.graphs()):
        try:
            digest = sha256(Path(graph.path))
        except OSError as error:
            raise HarnessError(f"cannot read the model {graph.path}: {error}") from error
        if digest != graph.sha256:
            text = f"{graph.path} has sha256 {digest}, expected {graph.sha256}"
            raise HarnessError(text, DAMAGED)
