"""From logs and outcomes to the records of results.json; nothing here runs anything."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from . import host
from .calibration import Calibration
from .detail_log import METRICS, DetailLog
from .outcome import AccuracyFigure, Outcome
from .results import (
    AccuracyResult,
    Attempt,
    Circumstances,
    PerformanceResult,
    Problem,
    ScenarioResult,
)
from .settings import ACCURACY, PERFORMANCE, AccuracySpec, RunSettings, SessionSettings
from .targets import hopeless
from .verdict import Fault, Verdict, duration_s, judge


def verdict_of(
    log: DetailLog, calibration: Calibration, scenario: str, benchmark_round: str
) -> Verdict:
    """LoadGen's verdict under the rules of the round, with what its log cannot know put first."""
    verdict = judge(log, scenario, benchmark_round)
    if verdict.valid or not hopeless(calibration, scenario):
        return verdict
    fault = Fault(
        "latency limit",
        f"one batch alone takes {1000 * calibration.server.batch_s:.1f} ms on this machine, "
        f"the limit for a query is {1000 * calibration.server_limit_s:g} ms",
        "use a faster machine, device or model; no target can help here",
    )
    return Verdict(False, (fault, *verdict.faults))


def validity(log: DetailLog, verdict: Verdict) -> str:
    """``VALID`` or ``INVALID``, and ``UNFINISHED`` when LoadGen gave no verdict."""
    if verdict.valid:
        return "VALID"
    return "INVALID" if log.validity else "UNFINISHED"


def circumstances(outcome: Outcome, load_before: float | None) -> Circumstances:
    """What surrounded a run that has just ended."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return Circumstances(
        measured_at=now.isoformat(timespec="seconds"),
        versions=outcome.versions,
        load_before=load_before,
        load_after=host.load_average(),
    )


def performance_result(
    run: RunSettings,
    log: DetailLog,
    attempts: tuple[Attempt, ...],
    around: Circumstances,
    fingerprint: str,
) -> PerformanceResult:
    """The record of a scenario after its last attempt."""
    metric, last = METRICS[run.scenario], attempts[-1]
    queries = log.number("result_query_count")
    return PerformanceResult(
        fingerprint=fingerprint,
        scenario=run.scenario,
        style=run.style,
        validity=last.validity,
        metric=metric.key,
        meaning=metric.meaning,
        unit=metric.unit,
        value=last.value,
        faults=last.faults,
        targets=run.targets,
        shape=run.shape,
        queries=None if queries is None else int(queries),
        duration_s=duration_s(log, run.scenario),
        latencies_ms=log.latencies(),
        attempts=attempts,
        circumstances=around,
    )


def accuracy_result(
    run: RunSettings,
    log: DetailLog,
    figure: AccuracyFigure,
    seconds: float,
    around: Circumstances,
    fingerprint: str,
) -> AccuracyResult:
    """The record of an accuracy run."""
    spec: AccuracySpec = run.model.accuracy
    return AccuracyResult(
        fingerprint=fingerprint,
        scenario=run.scenario,
        metric=spec.metric,
        unit=spec.unit,
        value=figure.value,
        reference=spec.reference,
        target=spec.target,
        reached=figure.value >= spec.target,
        faults=tuple(
            Fault("no errors", f"LoadGen reports: {error}", "look into mlperf_log_detail.txt")
            for error in log.errors
        ),
        samples=figure.samples,
        duplicates=figure.duplicates,
        seconds=seconds,
        circumstances=around,
    )


# Float weights are turned into these when the model is opened.
WEIGHTS = {"bfloat16": "bf16"}


def measurements(settings: SessionSettings) -> Mapping[str, str]:
    """What a submission must say about the weights and the data types."""
    model = settings.model
    return {
        "input_data_types": model.precision,
        "retraining": model.retraining,
        "starting_weights_filename": model.starting_weights or Path(model.path).name,
        "weight_data_types": WEIGHTS.get(settings.precision, model.precision),
        "weight_transformations": model.weight_transformations,
    }


def problems(results: Iterable[ScenarioResult], division: str) -> Iterator[Problem]:
    """Why what was measured is not accepted; nothing when it is."""
    for result in results:
        name, run, figure = result.scenario, result.performance_run, result.accuracy_run
        if run is not None:
            yield from (Problem(name, PERFORMANCE, fault) for fault in run.faults)
        if figure is not None:
            yield from (Problem(name, ACCURACY, fault) for fault in figure.faults)
            if division == "closed" and not figure.reached:
                yield Problem(name, ACCURACY, _below_target(figure))


def _below_target(figure: AccuracyResult) -> Fault:
    return Fault(
        "accuracy target",
        f"{figure.value:.3f} {figure.unit} is below the target of {figure.target:.3f} "
        f"{figure.unit}",
        "use the unchanged model and data, or measure for --division=open, which sets no target",
    )
