"""What the tree holds: the runs of the requested configuration, and those that others have left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from mlperf.catalog import Scenario

from ..reporting.results import (
    AccuracyResult,
    ComplianceResult,
    FindResult,
    OtherRun,
    PerformanceResult,
    ScenarioResult,
    SessionCall,
    scenario_result,
)
from ..settings import (
    ACCURACY,
    COMPLIANCE,
    FIND,
    MODES,
    PERFORMANCE,
    README,
    SCENARIOS,
    SessionSettings,
)
from .context import Context

Run = PerformanceResult | AccuracyResult | FindResult | ComplianceResult
R = TypeVar("R", PerformanceResult, AccuracyResult, FindResult, ComplianceResult)

SHORT_HASH = 12


def requested_results(context: Context) -> tuple[ScenarioResult, ...]:
    """Return the scenarios and modes of this call, as far as the tree holds them."""
    requested_modes, tests = context.settings.modes, _tests(context)
    everything = README in requested_modes
    modes: tuple[str, ...] = (FIND, PERFORMANCE, ACCURACY) if everything else requested_modes
    modes += tests if everything or COMPLIANCE in requested_modes else ()
    return tuple(_scenario(context, name, modes) for name in context.settings.scenarios)


def all_results(context: Context) -> tuple[ScenarioResult, ...]:
    """The requested scenarios and all others of the configuration, each with all of its modes."""
    modes = (FIND, PERFORMANCE, ACCURACY, *_tests(context))
    results = [_scenario(context, name, modes) for name in SCENARIOS]
    return tuple(
        result
        for result in results
        if result.scenario in context.settings.scenarios or result.runs()
    )


def others(context: Context) -> tuple[OtherRun, ...]:
    """Runs in the same folders that this configuration has not made."""
    return tuple(
        OtherRun(
            scenario=scenario,
            mode=mode,
            measured_at=run.circumstances.measured_at,
            differs=_differences(run.circumstances.configuration, context.configuration(scenario)),
            command=run.circumstances.command,
        )
        for scenario in SCENARIOS
        for mode, run in _runs(context, scenario)
        if not _mine(context, run, scenario, mode)
    )


def call(
    settings: SessionSettings,
    results: Sequence[ScenarioResult],
    pending: Collection[tuple[Scenario, str]],
    began: str,
) -> SessionCall:
    """The call that ``began`` at a time and found the ``pending`` runs not there or not good."""
    made = tuple(
        (result.scenario, mode)
        for result in results
        for mode, around in result.runs()
        if (result.scenario, mode) in pending and around.measured_at >= began
    )
    return SessionCall(settings.scenarios, settings.modes, made)


def modes(results: Sequence[ScenarioResult], asked_for: Sequence[str]) -> tuple[str, ...]:
    """In the usual order the modes of ``results`` and those that were requested."""
    tested = any(result.compliance for result in results)
    made = {mode for result in results for mode, _ in result.runs()}
    made |= {*asked_for, *((COMPLIANCE,) if tested else ())}
    return tuple(mode for mode in MODES if mode in made)


def held(context: Context, scenario: Scenario, mode: str) -> Run | None:
    """Return the run of a mode, or of a compliance test by its name, that the tree holds."""
    tree = context.tree
    usual: dict[str, Callable[[str], Run | None]] = {
        FIND: tree.find_result,
        PERFORMANCE: tree.performance,
        ACCURACY: tree.accuracy,
    }
    return usual[mode](scenario) if mode in usual else tree.compliance(scenario, mode)


def _scenario(context: Context, name: Scenario, modes: Collection[str]) -> ScenarioResult:
    tree = context.tree

    def kept(mode: str, run: R | None) -> R | None:
        return run if run and mode in modes and _mine(context, run, name, mode) else None

    tests = [kept(test, tree.compliance(name, test)) for test in _tests(context)]
    return scenario_result(
        name,
        kept(PERFORMANCE, tree.performance(name)),
        kept(ACCURACY, tree.accuracy(name)),
        kept(FIND, tree.find_result(name)),
        tuple(test for test in tests if test is not None),
    )


def _runs(context: Context, scenario: Scenario) -> Iterator[tuple[str, Run]]:
    known = [compliance.test for compliance in context.rules.compliance] if context.rules else []
    for mode in (FIND, PERFORMANCE, ACCURACY, *dict.fromkeys(known)):
        run = held(context, scenario, mode)
        if run is not None:
            yield mode, run


def _mine(context: Context, run: Run, scenario: Scenario, mode: str) -> bool:
    """Return whether a run has the requested configuration, whatever its targets."""
    configuration = run.circumstances.configuration
    if configuration:
        return configuration == context.configuration(scenario)
    return _same(context, run, scenario, mode)


def _same(context: Context, run: Run, scenario: Scenario, mode: str) -> bool:
    return run.fingerprint == context.fingerprint(scenario, mode)


def _tests(context: Context) -> tuple[str, ...]:
    return context.rules.tests(context.settings.round) if context.rules else ()


def _differences(theirs: dict[str, str], mine: dict[str, str]) -> tuple[str, ...]:
    if not theirs:
        return ("it does not say which",)
    keys = [key for key in {**mine, **theirs} if theirs.get(key) != mine.get(key)]
    return tuple(f"{key} {_brief(theirs, key)}, now {_brief(mine, key)}" for key in keys)


def _brief(configuration: dict[str, str], key: str) -> str:
    value = configuration.get(key, "none")
    return value[:SHORT_HASH] if len(value) == 64 else value
