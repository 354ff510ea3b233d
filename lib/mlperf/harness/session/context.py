"""The context of a session: settings, paths, and how a run is made from them."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from common.problems import Problem
from mlperf import catalog
from mlperf.catalog import MINIMUM_DURATION_MS, BenchmarkSpec, Mode, Scenario, plugins

from .. import records
from ..errors import HarnessError
from ..jobs import LoadGenOutcome, Probe
from ..measuring.telemetry import Monitor, Telemetry
from ..reporting.results import MACHINE, Circumstances, ResultTree
from ..settings import (
    ACCURACY,
    PERFORMANCE,
    ModelSpec,
    Options,
    RunSettings,
    SessionSettings,
    Targets,
)
from ..tuning import one_round
from ..tuning.profile import SpeedProfile
from ..tuning.store import TargetStore
from .launch import Launcher
from .quiet import QuietWait

START_S = 1.5
# What NVML says of a GPU that fell off the bus; the process that computes says other things.
LOST = "GPU is lost"


def now() -> str:
    """Return the time in UTC, to the second; such texts are in the order of time."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


@dataclass(slots=True)
class Context:
    """One session.

    ``run_options`` are the backend's options for runs: those of the user, and what its service
    adds. By the digest of a model, ``profiles`` and ``built`` are there once something is to be
    measured, the second only where the backend builds.
    """

    settings: SessionSettings
    rules: BenchmarkSpec | None
    launcher: Launcher
    tree: ResultTree
    store: TargetStore | None
    probe: Probe
    dataset: Mapping[str, Any]
    patience: QuietWait
    run_options: Options = field(default_factory=dict)
    profiles: dict[str, SpeedProfile] = field(default_factory=dict)
    built: dict[str, ModelSpec] = field(default_factory=dict)

    def profile(self, scenario: Scenario) -> SpeedProfile:
        """Return the speed profile of a scenario's model; asking before it was made is a defect."""
        return self.profiles[self.settings.model_of(scenario).digest()]

    def opened(self, model: ModelSpec) -> ModelSpec:
        """Return the files that the backend opens for a model."""
        return self.built.get(model.digest(), model)

    def stored(self, scenario: Scenario) -> float | None:
        """The target that find-performance has stored: samples/s, or ms per query for streams."""
        return self.store.target(scenario) if self.store else None

    def run_settings(
        self, scenario: Scenario, mode: Mode, aim: Targets, folder: Path, audit: str = ""
    ) -> RunSettings:
        """Settings of one LoadGen run in its private folder."""
        settings, profile = self.settings, self.profile(scenario)
        overrides = settings.overrides
        if mode == PERFORMANCE and settings.style == "test":
            overrides = one_round.shortened(settings, profile, scenario, aim)
        return RunSettings(
            benchmark=settings.benchmark,
            backend=settings.backend,
            device=settings.device,
            model=self.opened(settings.model_of(scenario)),
            dataset=settings.dataset,
            scenario=scenario,
            mode=mode,
            style=settings.style,
            shape=profile.shape(scenario),
            targets=aim,
            overrides=overrides,
            folder=str(folder),
            service_times=profile.service_times if scenario.online else {},
            precision=settings.precision,
            audit=audit,
            backend_options=self.run_options,
        )

    def launch(
        self, run: RunSettings, folder: Path, name: str, number: int = 1, doing: str = ""
    ) -> tuple[LoadGenOutcome, Telemetry]:
        """Make one LoadGen run; a run that fails is kept for looking at and ends the session.

        Raises HarnessError then. ``doing`` is its purpose, for display.
        """
        label = f"{run.scenario} {name}"
        duration_ms = 0
        if run.mode == PERFORMANCE:
            duration_ms = run.targets.min_duration_ms or MINIMUM_DURATION_MS
        self.launcher.monitor = monitor = Monitor(self.settings.device, self._gpus())
        try:
            watched = f"{label}, {doing}" if doing else label
            self.launcher.execute("run", folder, run, watched, START_S + duration_ms / 1000)
            records.write(folder / MACHINE, monitor.course())
            outcome = records.read(LoadGenOutcome, folder / "outcome.json")
            return _with_energy(outcome, monitor)
        except Problem as error:
            kept = self.tree.keep_attempt(folder, run.scenario, name, number)
            lost = f"; {monitor.gpu_problem}" if LOST in monitor.gpu_problem else ""
            text = f"{label} failed: {error}{lost}; its files are in {kept}"
            raise HarnessError(text, error.hint) from error
        finally:
            self.launcher.monitor = None

    def _gpus(self) -> tuple[int, ...] | None:
        """Return the visible GPUs that runs use, by number; None where that is not known."""
        settings = self.settings
        named = str(settings.backend_options.get("devices") or "0").split(",")
        known = catalog.backends().get(settings.backend)
        if known is None or known.service or not all(word.isdigit() for word in named):
            return None
        return tuple(map(int, named))

    def configuration(self, scenario: Scenario) -> dict[str, str]:
        """What must be equal in all runs that make up the result of a scenario."""
        settings = self.settings
        return {
            "model": settings.model_of(scenario).digest(),
            "precision": settings.precision,
            "data": self.dataset["sha256"],
            "round": settings.round,
            **self.probe.versions,
            **{f"device {name}": fact for name, fact in self.probe.device_facts.items()},
            **{f"option {name}": str(value) for name, value in settings.backend_options.items()},
            **plugins.facts(settings.benchmark, settings.backend),
        }

    def circumstances(
        self,
        scenario: Scenario,
        versions: dict[str, str],
        seen: Telemetry,
        computed_by: dict[str, str] | None = None,
    ) -> Circumstances:
        """What surrounded a run that has just ended."""
        return Circumstances(
            measured_at=now(),
            versions=versions,
            load_before=seen.load_before,
            load_after=seen.load_after,
            command=self.settings.provenance.command,
            telemetry=seen,
            configuration=self.configuration(scenario),
            overrides=self.overrides(scenario),
            computed_by=computed_by or {},
        )

    def overrides(self, scenario: Scenario) -> dict[str, float]:
        """Return the inputs of the user that bear on a performance run of a scenario."""
        values = _overrides(self.settings, scenario, PERFORMANCE)
        return {name: value for name, value in values.items() if value is not None}

    def fingerprint(self, scenario: Scenario, mode: str) -> str:
        """Equal for runs that would measure the same thing in the same way."""
        settings = self.settings
        parts = {
            "benchmark": settings.benchmark,
            "backend": settings.backend,
            "device": settings.device,
            "precision": settings.precision,
            "model": settings.model_of(scenario).digest(),
            "dataset": self.dataset["sha256"],
            "scenario": scenario,
            "mode": mode,
            "style": settings.style,
            "overrides": _overrides(settings, scenario, mode),
            "versions": self.probe.versions,
            **_given("device_facts", self.probe.device_facts),
            **_given("backend_options", settings.backend_options),
            **plugins.facts(settings.benchmark, settings.backend),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _given(name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing where there is nothing: fingerprints of earlier versions stay."""
    return {name: facts} if facts else {}


def _with_energy(outcome: LoadGenOutcome, monitor: Monitor) -> tuple[LoadGenOutcome, Telemetry]:
    """Return an outcome with the energy of its run, and what was seen of the machine."""
    spent = outcome.spent
    if spent is None:
        return outcome, monitor.finish()
    span = (spent.began_s, spent.ended_s)
    seen = monitor.finish(span)
    energy = monitor.energy(span, outcome.samples, seen.gpus)
    return replace(outcome, spent=replace(spent, energy=energy)), seen


# What changes how answers come about. The rest only says how fast and how long.
ANSWERING = ("batch_size", "threads", "num_workers")


def _overrides(settings: SessionSettings, scenario: Scenario, mode: str) -> dict[str, Any]:
    values: dict[str, Any] = records.encode(settings.overrides)
    if mode == ACCURACY:
        return {key: values[key] for key in ANSWERING}
    # A target of another scenario changes nothing here.
    own = Scenario(scenario).target_option
    others = {
        scenario_name.target_option.removeprefix("--")
        for scenario_name in Scenario
        if scenario_name.target_option != own
    }
    return {key: None if key in others else value for key, value in values.items()}
