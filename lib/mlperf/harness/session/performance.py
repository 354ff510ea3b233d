"""Performance and accuracy runs of one scenario, with the retries of an INVALID one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf.catalog import Scenario, stand_in

from .. import records
from ..jobs import LoadGenOutcome
from ..measuring import detail_log
from ..measuring.detail_log import DetailLog
from ..measuring.telemetry import Telemetry
from ..measuring.verdict import LoadGenVerdict, bursts, laid_to
from ..reporting import report
from ..reporting.results import (
    RESULT_FILE,
    Attempt,
    accuracy_in_words,
    staging_folder,
    write_accuracy_text,
)
from ..settings import ACCURACY, PERFORMANCE, RunSettings, Targets
from ..tuning import stored_profiles, targets
from ..wording import figures
from .context import Context
from .launch import say

DETAIL = Path("run_1") / "mlperf_log_detail.txt"


@dataclass(frozen=True, slots=True)
class PerformanceRun:
    """A finished performance run: its settings, log and result."""

    run: RunSettings
    log: DetailLog
    verdict: LoadGenVerdict
    attempt: Attempt
    outcome: LoadGenOutcome
    seen: Telemetry


def measure(context: Context, scenario: Scenario) -> None:
    """Run until LoadGen says VALID, or other targets would not help, or the attempts are used."""
    settings = context.settings
    first = targets.initial(
        context.profile(scenario),
        settings.overrides,
        scenario,
        PERFORMANCE,
        settings.style,
        context.stored(scenario),
    )
    say(f"{scenario} performance: {aim_in_words(first, scenario)}")
    aim: Targets | None = first
    attempts: list[Attempt] = []
    while aim is not None:
        number = len(attempts) + 1
        context.patience.wait()
        with staging_folder(context.tree.scenario(scenario), PERFORMANCE) as folder:
            made = attempt(context, scenario, aim, folder, number)
            attempts.append(made.attempt)
            aim = _next_aim(context, made)
            _say_attempt(made, scenario, again=aim is not None)
            if aim is not None:
                # The profile was wrong: the next session measures again.
                stored_profiles.forget(
                    stored_profiles.path_of(settings, settings.model_of(scenario))
                )
                context.tree.keep_attempt(folder, scenario, PERFORMANCE, number)
            else:
                _publish(context, made, attempts, folder)


def attempt(
    context: Context, scenario: Scenario, aim: Targets, folder: Path, number: int
) -> PerformanceRun:
    """One performance run in ``folder``, judged."""
    began = time.monotonic()
    run = context.run_settings(scenario, PERFORMANCE, aim, folder)
    if run.overrides != context.settings.overrides:
        loaded = run.overrides.performance_sample_count
        say(f"  this test run keeps {loaded} samples loaded: a round of all would take long")
    outcome, seen = context.launch(run, folder, PERFORMANCE, number)
    log = detail_log.read(folder / DETAIL)
    profile = context.profile(scenario)
    # Seeds of its own are no fault of the LoadGen.
    of = context.settings.round if run.overrides.seed is None else ""
    verdict = report.verdict_of(log, profile, scenario, of)
    if targets.within_reach(profile, scenario, aim):
        stopped = bursts(outcome.late, profile.server_limit_s) if outcome.late else ""
        verdict = replace(verdict, faults=laid_to(seen.taken, verdict.faults, stopped))
    judged = Attempt(
        number=number,
        validity=report.validity(log, verdict),
        value=log.figure(report.result_key(run.benchmark, scenario)),
        targets=aim,
        faults=verdict.faults,
        seconds=time.monotonic() - began,
    )
    return PerformanceRun(run, log, verdict, judged, outcome, seen)


def _next_aim(context: Context, made: PerformanceRun) -> Targets | None:
    """Other targets to try, unless the run is fine, fixed by the user, or beyond help."""
    run, settings = made.run, context.settings
    fixed = targets.fixed_by_user(settings.overrides, run.scenario) is not None
    beyond = targets.hopeless(context.profile(run.scenario), run.scenario)
    if made.verdict.valid or fixed or beyond or made.attempt.number >= settings.attempts:
        return None
    taken = made.seen.taken if any(fault.host for fault in made.attempt.faults) else None
    left = taken.left if taken else 1.0
    least = targets.floor(context.profile(run.scenario), run.scenario, left)
    better = targets.adjusted(run.targets, made.log, run.scenario, left, least)
    why = f", others left {100 * left:.0f} % of the CPU time" if taken else ""
    return better and replace(better, origin=f"adjusted after an INVALID run{why}")


def _publish(
    context: Context, made: PerformanceRun, attempts: Sequence[Attempt], folder: Path
) -> None:
    scenario, settings = made.run.scenario, context.settings
    outcome = made.outcome
    around = context.circumstances(scenario, outcome.versions, made.seen, outcome.computed_by)
    fingerprint = context.fingerprint(scenario, PERFORMANCE)
    result = report.performance_result(
        made.run, made.log, tuple(attempts), around, fingerprint, outcome.spent
    )
    records.write(folder / RESULT_FILE, result)
    place = context.tree.publish(folder, scenario, PERFORMANCE)
    shutil.copyfile(place / "user.conf", place.parent / "user.conf")
    records.write(place.parent / "measurements.json", report.measurements(settings))


def measure_accuracy(context: Context, scenario: Scenario) -> None:
    """Every sample once, and the metric of the benchmark over the answers."""
    settings = context.settings
    overrides = settings.overrides
    aim = targets.initial(context.profile(scenario), overrides, scenario, ACCURACY, settings.style)
    began = time.monotonic()
    with staging_folder(context.tree.scenario(scenario), ACCURACY) as folder:
        run = context.run_settings(scenario, ACCURACY, aim, folder)
        outcome, seen = context.launch(run, folder, ACCURACY)
        figure = outcome.accuracy
        assert figure is not None  # an accuracy run without a figure reports a failure
        sign = stand_in.line(settings.backend, settings.device, settings.backend_options)
        write_accuracy_text(folder, figure.line, sign)
        log = detail_log.read(folder / "mlperf_log_detail.txt")
        around = context.circumstances(scenario, outcome.versions, seen, outcome.computed_by)
        fingerprint = context.fingerprint(scenario, ACCURACY)
        result = report.accuracy_result(
            run, log, figure, time.monotonic() - began, around, fingerprint
        )
        records.write(folder / RESULT_FILE, result)
        context.tree.publish(folder, scenario, ACCURACY)
    wanted = accuracy_in_words(result.target, result.unit) if result.target else "none"
    say(
        f"{scenario} accuracy: {accuracy_in_words(result.value, result.unit)} of "
        f"{result.samples} samples (target: {wanted})"
    )


def aim_in_words(aim: Targets, scenario: Scenario) -> str:
    """Return the target of a run, and where it comes from."""
    figure = aim.latency_ms if scenario.stream else aim.qps
    target = f"target {figures(figure or 0)} {scenario.target_unit}"
    return f"{target} ({aim.origin})" if aim.origin else target


def _say_attempt(made: PerformanceRun, scenario: Scenario, again: bool) -> None:
    metric, judged = report.result_key(made.run.benchmark, scenario), made.attempt
    value = "no figure" if judged.value is None else figures(judged.value)
    say(
        f"{scenario} performance: {judged.validity}, {value} {metric.unit} ({metric.meaning}), "
        f"{judged.seconds:.0f} s"
    )
    for key, value in made.outcome.computed_by.items():
        say(f"  {key}: {value}")
    for warning in made.seen.warnings:
        say(f"  warning: {warning}")
    for fault in judged.faults:
        say(f"  {fault.rule}: {fault.text}")
        say(f"    -> {fault.advice}")
    if laid := next((fault.host for fault in judged.faults if fault.host), ""):
        say(f"  the host was busy: {laid}")
    if again:
        say("  again with adjusted targets")
