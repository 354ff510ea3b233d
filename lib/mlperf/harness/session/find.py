"""find-performance: what each scenario reaches on this system, measured and stored."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mlperf import rate_search as search
from mlperf.catalog import MINIMUM_DURATION_MS, OFFLINE, SERVER, Scenario
from mlperf.catalog.forms import FORMS
from mlperf.rate_search import Effort, RateSearchResult, RateTrial

from .. import records
from ..measuring import detail_log
from ..measuring.detail_log import TTFT, DetailLog
from ..measuring.telemetry import Monitor
from ..measuring.verdict import RuleViolation, laid_to
from ..reporting.results import RESULT_FILE, FindResult, staging_folder
from ..settings import FIND, PERFORMANCE, SessionSettings, Targets
from ..tuning import one_round, targets
from ..tuning.profile import SpeedProfile
from ..tuning.store import quantity
from ..wording import figures
from .context import Context
from .launch import say
from .performance import DETAIL

FIND_MS = 5_000
# The first tries of the Server search last this long at least, the later ones so much longer.
SERVER_TRY_MS = 2_000
TRY_QUERIES = 700
# A backlog must have the time to grow past the latency limit when the rate is a little too high.
LIMITS_IN_A_TRY = 50
# A run that answers less than this share of its rate falls behind: the rest is luck of arrivals.
KEPT_UP = 0.8
# Offline: so many batches per worker.
BATCHES = 8
STREAM_QUERIES = 20
# Where a query takes long, so many seconds of them are enough, and at least so many queries.
LONG_S = 60.0
LEAST_QUERIES = 2
# How far LoadGen's early stopping stays below the plain share of late queries: the 99 % quantile.
CONFIDENCE = 2.33


def measure(context: Context, scenario: Scenario) -> None:
    """Find the target of a scenario, show how, and put it into the store."""
    context.patience.wait()
    began, monitor = time.monotonic(), Monitor()
    outcome = _server(context, scenario) if scenario.online else _plain(context, scenario)
    unit, seen = scenario.target_unit, monitor.finish()
    stored = ""
    if outcome.qps is not None and context.store is not None:
        context.store.put(scenario, outcome.qps, _note(context, outcome))
        stored = str(context.store.path)
    result = FindResult(
        fingerprint=context.fingerprint(scenario, FIND),
        scenario=scenario,
        quantity=quantity(scenario),
        value=outcome.qps,
        unit=unit,
        confirmed=outcome.confirmed,
        tries=outcome.tries,
        faults=laid_to(seen.taken, _faults(outcome)),
        stored=stored,
        seconds=time.monotonic() - began,
        circumstances=context.circumstances(scenario, context.probe.versions, seen),
    )
    with staging_folder(context.tree.scenario(scenario), FIND) as folder:
        records.write(folder / RESULT_FILE, result)
        context.tree.publish(folder, scenario, FIND)
    value = "nothing found" if outcome.qps is None else f"{figures(outcome.qps)} {unit}"
    place = f", stored in {stored}" if stored else ""
    say(f"{scenario} find-performance: {quantity(scenario)} = {value}{place}")


def _note(context: Context, outcome: RateSearchResult) -> str:
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    backend = context.settings.backend
    version = context.probe.versions.get(backend, "")
    how = f"a search of {len(outcome.tries)} runs" if outcome.tries else "one run"
    return f"{today}, {how}, {backend} {version}".strip()


def _faults(outcome: RateSearchResult) -> list[RuleViolation]:
    if outcome.qps is not None and outcome.confirmed:
        return []
    if outcome.qps is None:
        text = "no rate was answered in time, not even the least that was tried"
        advice = "use a faster machine, device or model"
    else:
        text = f"{figures(outcome.qps)} samples/s was not confirmed by a longer run"
        advice = "run it again on a quiet machine, or set --server_target_qps by hand"
    return [RuleViolation("server search", text, advice)]


def _plain(context: Context, scenario: Scenario) -> RateSearchResult:
    """Offline and streams: one run that is long enough, again when it ended too early."""
    short = _short(context, FIND_MS)
    overrides = replace(context.settings.overrides, min_duration=short)
    aim: Targets | None = targets.initial(
        context.profile(scenario), overrides, scenario, PERFORMANCE, "test"
    )
    log = DetailLog({})
    for _ in range(context.settings.attempts):
        if aim is None:
            break
        log = _try(context, scenario, aim, least_queries(context.profile(scenario), scenario))
        aim = targets.adjusted(aim, log, scenario)
    if scenario.stream:
        median = log.latencies().get("50.00") or log.milliseconds("result_mean_latency_ns")
        return RateSearchResult(median, (), True)
    return RateSearchResult(log.result(OFFLINE), (), True)


def least_queries(profile: SpeedProfile, scenario: Scenario) -> int:
    """Return enough queries to measure the speed, or as many as ``LONG_S`` allows."""
    if scenario.batched:
        shape, rate = profile.offline.shape, profile.offline.samples_per_s
        once = shape.batch * shape.workers
        return max(once, min(BATCHES * once, int(LONG_S * rate)))
    usual = STREAM_QUERIES // max(1, scenario.samples_per_query // 2)
    return max(LEAST_QUERIES, min(usual, int(LONG_S / profile.streams[scenario].about_s)))


def _server(context: Context, scenario: Scenario) -> RateSearchResult:
    """Return the highest rate in time, from the tuned one."""
    profile = context.profile(scenario)
    if targets.hopeless(profile, scenario):
        say(
            f"{scenario}: one batch alone takes {1000 * profile.server.batch_s:.1f} ms, the limit "
            f"is {1000 * profile.server_limit_s:g} ms: nothing to search"
        )
        return RateSearchResult(None, (), False)
    start = targets.initial(profile, context.settings.overrides, scenario, PERFORMANCE, "test")
    effort = effort_of(context.settings)
    bound = "" if math.isinf(effort.whole_s) else ", about two minutes"
    say(
        f"{scenario} search from {figures(start.qps or 1)} samples/s, "
        f"at most {effort.most_tries} runs{bound}:"
    )
    capacity = profile.server.samples_per_s
    attempts = _attempts(context, scenario, effort)
    return search.search(start.qps or 1.0, attempts, capacity / 1000, effort)


def effort_of(settings: SessionSettings) -> Effort:
    """Return the effort of a search: two minutes at most for a brief form."""
    is_brief = settings.form in FORMS and FORMS[settings.form].brief
    return search.QUICK if is_brief else search.THOROUGH


def _limit_ms(context: Context, scenario: Scenario) -> float:
    """Return the limit that a backlog breaks first: that of the first token, where there is one."""
    rules = context.rules
    limit = rules.limits.get(scenario) if rules and rules.generates else None
    return (limit and limit.ttft_ms) or 1000 * context.profile(scenario).server_limit_s


def _attempts(
    context: Context, scenario: Scenario, effort: Effort
) -> Callable[[float, str], RateTrial]:
    limit_ms = _limit_ms(context, scenario)
    number = 0

    def attempt(qps: float, purpose: str) -> RateTrial:
        nonlocal number
        number += 1
        # A user who requests short runs gets them, and a rougher figure.
        first = context.settings.overrides.min_duration or first_try_ms(qps, limit_ms, effort)
        duration = min(first * effort.longer[purpose], MINIMUM_DURATION_MS)
        began = time.monotonic()
        doing = f"{number}/{effort.most_tries}: {figures(qps)} asked"
        log = _try(context, scenario, Targets(qps=qps, min_duration_ms=duration), 1, doing)
        tried = judge(log, qps, purpose, time.monotonic() - began)
        if duration < LIMITS_IN_A_TRY * limit_ms:
            tried = replace(tried, fell_behind=(log.result(SERVER) or 0.0) < KEPT_UP * qps)
        say(_in_words(tried, limit_ms))
        return tried

    return attempt


def first_try_ms(qps: float, limit_ms: float, effort: Effort) -> int:
    """How long a first try of a rate (samples/s) lasts, in ms, under a latency limit in ms."""
    enough = max(SERVER_TRY_MS, 1000 * TRY_QUERIES / qps, LIMITS_IN_A_TRY * limit_ms)
    return math.ceil(min(enough, 1000 * effort.first_s))


def judge(log: DetailLog, qps: float, purpose: str, seconds: float) -> RateTrial:
    """What LoadGen's log of a Server run at ``qps`` samples/s that took ``seconds`` says."""
    queries = log.number("result_query_count") or 0.0
    late = log.number("result_overlatency_query_count")
    share = late / queries if late is not None and queries else 1.0
    percentile = log.number("effective_target_latency_percentile") or 0.99
    tail_ms = log.milliseconds(f"result_{100 * percentile:.2f}_percentile_latency_ns")
    if log.times_tokens:
        # LoadGen then counts no late queries, and says only whether the percentiles were in time.
        share = 0.0 if log.values.get("result_perf_constraints_met") is True else 1.0
        tail_ms = log.token_latencies().get(TTFT, {}).get(f"{100 * percentile:.2f}")
    return RateTrial(
        qps=qps,
        late_share=share,
        allowed_share=allowed_share(qps * MINIMUM_DURATION_MS / 1000, percentile),
        queries=int(queries),
        tail_ms=tail_ms,
        seconds=seconds,
        purpose=purpose,
    )


def allowed_share(queries: float, percentile: float = 0.99) -> float:
    """Return the share of late queries that early stopping accepts in a run of so many."""
    late = 1 - percentile
    margin = CONFIDENCE * math.sqrt(late * (1 - late) / max(queries, 1.0))
    return max(0.0, late - margin)


def _in_words(tried: RateTrial, limit_ms: float) -> str:
    tail = "" if tried.tail_ms is None else f", p99 {figures(tried.tail_ms)} ms of {limit_ms:g}"
    return (
        f"  {figures(tried.qps)} samples/s: {100 * tried.late_share:.2f} % late{tail}: "
        f"{tried.in_words()} ({tried.purpose}, {tried.seconds:.0f} s)"
    )


def _short(context: Context, duration_ms: int) -> int:
    """``duration_ms``, or less where the user wants all runs short."""
    return min(duration_ms, context.settings.overrides.min_duration or duration_ms)


def _try(
    context: Context, scenario: Scenario, aim: Targets, least: int, doing: str = ""
) -> DetailLog:
    with staging_folder(context.tree.scenario(scenario), FIND) as folder:
        run = context.run_settings(scenario, PERFORMANCE, aim, folder)
        shorter = one_round.shortened(context.settings, context.profile(scenario), scenario, aim)
        overrides = replace(shorter, min_query_count=least)
        settings = replace(run, style="test", overrides=overrides)
        context.launch(settings, folder, FIND, doing=doing)
        return detail_log.read(Path(folder) / DETAIL)
