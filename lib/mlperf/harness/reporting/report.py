"""From logs and outcomes to the records of results.json; nothing here runs anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mlperf import catalog
from mlperf.catalog import SERVER, Division, Limit, ResultKey, Scenario, stand_in
from mlperf.catalog.scenario import TOKEN_RESULTS

from ..jobs import AccuracyFigure, TimeSpent
from ..measuring.detail_log import TPOT, TTFT, DetailLog
from ..measuring.verdict import LoadGenVerdict, RuleViolation, duration_s, judge
from ..settings import (
    ACCURACY,
    FIND,
    PERFORMANCE,
    AccuracySpec,
    Bound,
    RunSettings,
    SessionSettings,
)
from ..tuning.profile import SpeedProfile
from ..tuning.targets import hopeless
from .results import (
    AccuracyResult,
    Attempt,
    Circumstances,
    FurtherFigure,
    PerformanceResult,
    ResultProblem,
    ScenarioResult,
    TokenFigures,
)


def verdict_of(
    log: DetailLog, profile: SpeedProfile, scenario: Scenario, benchmark_round: str
) -> LoadGenVerdict:
    """LoadGen's verdict under the rules of the round, with what its log cannot know put first."""
    verdict = judge(log, scenario, benchmark_round)
    if verdict.valid or not hopeless(profile, scenario):
        return verdict
    fault = RuleViolation(
        "latency limit",
        f"one batch alone takes {1000 * profile.server.batch_s:.1f} ms on this machine, "
        f"the limit for a query is {1000 * profile.server_limit_s:g} ms",
        "use a faster machine, device or model; no target can help here",
    )
    return LoadGenVerdict(False, (fault, *verdict.faults))


def validity(log: DetailLog, verdict: LoadGenVerdict) -> str:
    """``VALID`` or ``INVALID``, and ``UNFINISHED`` when LoadGen gave no verdict."""
    if verdict.valid:
        return "VALID"
    return "INVALID" if log.validity else "UNFINISHED"


def performance_result(
    run: RunSettings,
    log: DetailLog,
    attempts: tuple[Attempt, ...],
    around: Circumstances,
    fingerprint: str,
    spent: TimeSpent | None = None,
) -> PerformanceResult:
    """Return the record of a scenario after its last attempt."""
    metric, last = result_key(run.benchmark, run.scenario), attempts[-1]
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
        tokens=_token_figures(run, log),
        spent=spent,
    )


def result_key(benchmark: str, scenario: Scenario) -> ResultKey:
    """Return the figure that counts: tokens per second where tokens are generated."""
    spec = catalog.benchmarks().get(benchmark)
    return spec.result(scenario) if spec and spec.token_rates else scenario.result


def _token_figures(run: RunSettings, log: DetailLog) -> TokenFigures | None:
    """Return what LoadGen counted and timed of tokens; None where it was not to."""
    if not log.times_tokens:
        return None
    spec = catalog.benchmarks().get(run.benchmark)
    limit = (spec.limits.get(run.scenario) if spec else None) or Limit()
    latencies = log.token_latencies()
    rate = log.number(TOKEN_RESULTS.get(run.scenario, TOKEN_RESULTS[SERVER]).key)
    return TokenFigures(
        tokens_per_s=rate,
        samples_per_s=None if run.scenario.stream else log.result(run.scenario),
        ttft_ms=latencies.get(TTFT, {}),
        tpot_ms=latencies.get(TPOT, {}),
        ttft_limit_ms=limit.ttft_ms,
        tpot_limit_ms=limit.tpot_ms,
    )


def accuracy_result(
    run: RunSettings,
    log: DetailLog,
    figure: AccuracyFigure,
    seconds: float,
    around: Circumstances,
    fingerprint: str,
) -> AccuracyResult:
    """Return the record of an accuracy run."""
    spec: AccuracySpec = run.model.accuracy
    further = tuple(further_figure(bound, figure.further) for bound in spec.further)
    return AccuracyResult(
        fingerprint=fingerprint,
        scenario=run.scenario,
        metric=spec.metric,
        unit=spec.unit,
        value=figure.value,
        reference=spec.reference,
        target=spec.target,
        reached=figure.value >= spec.target and all(extra.reached for extra in further),
        faults=tuple(
            RuleViolation(
                "no errors", f"LoadGen reports: {error}", "look into mlperf_log_detail.txt"
            )
            for error in log.errors
        ),
        samples=figure.samples,
        duplicates=figure.duplicates,
        seconds=seconds,
        circumstances=around,
        further=further,
        oracle=figure.oracle,
    )


def further_figure(bound: Bound, figures_by_name: Mapping[str, float]) -> FurtherFigure:
    """One of several figures against its bound; a figure that is not there counts as zero."""
    value = figures_by_name.get(bound.metric, 0.0)
    most = float("inf") if bound.most is None else bound.most
    return FurtherFigure(
        metric=bound.metric,
        unit=bound.unit,
        value=value,
        reference=bound.reference,
        target=bound.target,
        reached=bound.target <= value <= most,
        most=bound.most,
    )


# Float weights are turned into these when the model is opened.
WEIGHTS = {"bfloat16": "bf16", "float16": "fp16"}


def measurements(settings: SessionSettings) -> Mapping[str, str]:
    """What a submission must say about the weights and the data types."""
    model = settings.model
    sign = stand_in.line(settings.backend, settings.device, settings.backend_options)
    return {
        "input_data_types": model.precision,
        "retraining": model.retraining,
        "starting_weights_filename": model.starting_weights or Path(model.path).name,
        "weight_data_types": WEIGHTS.get(settings.precision, model.precision),
        "weight_transformations": "; ".join(filter(None, (model.weight_transformations, sign))),
    }


def problems(
    results: Iterable[ScenarioResult], division: Division, precision: str
) -> Iterator[ResultProblem]:
    """Why what was measured in a precision is not accepted; nothing when it is."""
    for result in results:
        name, run, figure = result.scenario, result.performance_run, result.accuracy_run
        if result.find is not None:
            yield from (ResultProblem(name, FIND, fault) for fault in result.find.faults)
        if run is not None:
            yield from (ResultProblem(name, PERFORMANCE, fault) for fault in run.faults)
        if figure is not None:
            yield from (ResultProblem(name, ACCURACY, fault) for fault in figure.faults)
            if division.strict and not figure.reached:
                yield ResultProblem(name, ACCURACY, _below_target(figure, precision))
        for test in result.compliance:
            yield from (ResultProblem(name, test.test, fault) for fault in test.faults)


def _missed(figure: AccuracyResult) -> Iterator[str]:
    if figure.value < figure.target:
        yield (
            f"{figure.value:.3f} {figure.unit} is below the target of {figure.target:.3f} "
            f"{figure.unit}"
        )
    for extra in figure.further:
        if extra.value < extra.target:
            yield f"{extra.metric} {extra.value:.3f} is below its target of {extra.target:.3f}"
        elif not extra.reached:
            yield f"{extra.metric} {extra.value:.3f} is above the most allowed, {extra.most:.3f}"


_UNCHANGED = "use the unchanged model and data"
_MORE_EXACT = "compute more exactly: --precision=float32"
_MORE_EXACT_THAN = {
    "float32": _UNCHANGED,
    "int8": f"{_MORE_EXACT}, or bfloat16 with --backend=openvino",
}


def _below_target(figure: AccuracyResult, precision: str) -> RuleViolation:
    return RuleViolation(
        "accuracy target",
        "; ".join(_missed(figure)),
        f"{_MORE_EXACT_THAN.get(precision, _MORE_EXACT)}; or measure for --division=open, which "
        "sets no target",
    )
