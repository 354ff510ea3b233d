"""Why LoadGen calls a run INVALID: the rule, the numbers, and what to set instead."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from mlperf.catalog import SERVER, Scenario, rounds
from mlperf.catalog.scenario import TOKEN_RESULTS

from ..jobs import MOMENT_S, LateQueries
from ..records import WHEN_GIVEN
from ..wording import figures
from .contention import CpuContention
from .detail_log import DetailLog

# The seeds that every round fixes are compiled into its LoadGen; one of the three identifies it.
QSL_SEEDS = rounds.qsl_seeds()
# Of what a backend does wrong that generates tokens.
ENGINE_ADVICE = "the backend must report the first token of an answer, and two tokens at least"
STREAM_RATE = "result_completed_tokens_per_second"
# The rules that a run breaks when something else takes the machine's time.
OF_TIME = re.compile(
    r"p[\d.]+ (?:token )?latency:|early stopping:|minimum duration:|server search:"
    r"|TEST\d+ performance:|no errors:.*[Rr]an out"
)
QUIETER = "run it again when nothing else runs"
MORE_QUERIES = re.compile(r"at least (\d+) more queries")


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A broken rule: its name, what was measured against what, and the advice.

    ``host`` are the figures of what else the machine did, where those explain it. ``short`` says
    that the run is shorter than the rules want, and too short for this rule to be kept for sure.
    """

    rule: str
    text: str
    advice: str
    host: str = field(default="", metadata=WHEN_GIVEN)
    short: bool = field(default=False, metadata=WHEN_GIVEN)


@dataclass(frozen=True, slots=True)
class LoadGenVerdict:
    """LoadGen's verdict, ``valid`` only without error lines, and the faults that explain it."""

    valid: bool
    faults: tuple[RuleViolation, ...]


def judge(log: DetailLog, scenario: Scenario, benchmark_round: str) -> LoadGenVerdict:
    """Judge a performance run of a round from its log alone."""
    if not log.validity:
        fault = RuleViolation("unfinished", "LoadGen's log ends before its verdict", "run it again")
        return LoadGenVerdict(False, (fault,))
    faults = list(_other_round(log, benchmark_round))
    if log.validity != "VALID" or log.errors:
        faults += _faults(log, scenario)
    faults += _untimed_tokens(log, scenario)
    return LoadGenVerdict(log.validity == "VALID" and not faults, tuple(faults))


# What comes late in bursts does so in few moments, and in fewer than one alone would.
BURSTS_SHARE, CLUSTERED = 0.25, 0.5
LEAST_LATE = 20
EASY_SHARE = 1 / 3


def bursts(late: LateQueries, limit_s: float) -> str:
    """That answers were late in a few moments of a run alone, in words; empty where they were not.

    Samples that take long are late all the time, and a rate that is too high lets most queries
    wait. What stops the whole run now and then does neither, and no other rate helps against it.
    """
    alone = late.of * (1 - math.exp(-late.queries / late.of)) if late.of else 0.0
    few = late.moments <= min(BURSTS_SHARE * late.of, CLUSTERED * alone)
    if late.queries < LEAST_LATE or not few or late.p90_s > EASY_SHARE * limit_s:
        return ""
    return (
        f"the run stood still now and then: queries were late in {late.moments} of {late.of} "
        f"moments of {1000 * MOMENT_S:.0f} ms, and 90 % of all took at most "
        f"{figures(1000 * late.p90_s)} ms"
    )


def laid_to(
    taken: CpuContention | None, faults: Iterable[RuleViolation], stopped: str = ""
) -> tuple[RuleViolation, ...]:
    """Return the faults, those of time laid to the host where its figures say that it disturbed.

    ``stopped`` is what ``bursts`` says of the run.
    """
    words = taken.in_words() if taken is not None and taken.disturbs else stopped
    if not words:
        return tuple(faults)
    return tuple(
        replace(fault, host=words, advice=f"{QUIETER}; if it stays so: {fault.advice}")
        if OF_TIME.match(f"{fault.rule}: {fault.text}")
        else fault
        for fault in faults
    )


def _other_round(log: DetailLog, benchmark_round: str) -> Iterator[RuleViolation]:
    """Yield a violation for a LoadGen of another round: it draws other samples."""
    seed, wanted = log.values.get("effective_qsl_rng_seed"), QSL_SEEDS.get(benchmark_round)
    if wanted is not None and seed != wanted:
        yield RuleViolation(
            "seeds of the round",
            f"LoadGen used the seed {seed}, round {benchmark_round} fixes {wanted}",
            f"install the LoadGen of round {benchmark_round}",
        )


def _faults(log: DetailLog, scenario: Scenario) -> Iterator[RuleViolation]:
    if log.values.get("result_min_duration_met") is False:
        yield _too_short(log, scenario)
    if log.values.get("result_min_queries_met") is False:
        yield RuleViolation(
            "minimum query count",
            f"{_count(log, 'result_query_count')} queries were made, "
            f"at least {_count(log, 'effective_min_query_count')} are needed",
            "remove or raise --max_query_count, or lower --min_query_count",
        )
    if log.values.get("result_perf_constraints_met") is False:
        yield from (
            _tokens_too_slow(log, scenario) if log.times_tokens else [_too_slow(log, scenario)]
        )
    if log.values.get("early_stopping_met") is False:
        yield _too_little_evidence(log, scenario)
    for error, count in Counter(log.errors).items():
        times = f" ({count} times)" if count > 1 else ""
        advice = ENGINE_ADVICE if "oken" in error else _target_advice(log, scenario)
        yield RuleViolation("no errors", f"LoadGen reports: {error}{times}", advice)


def _untimed_tokens(log: DetailLog, scenario: Scenario) -> Iterator[RuleViolation]:
    """Yield what LoadGen calls VALID although it has counted or timed no tokens."""
    if not log.times_tokens or log.validity != "VALID":
        return
    if not log.number(TOKEN_RESULTS[scenario].key if scenario in TOKEN_RESULTS else STREAM_RATE):
        text = "LoadGen has counted no tokens: answers had one token, or their number was not given"
        yield RuleViolation("counted tokens", text, ENGINE_ADVICE)
    if not scenario.batched and not log.number("result_first_token_max_latency_ns"):
        text = "no answer has a time to its first token: LoadGen was not told of it"
        yield RuleViolation("timed tokens", text, ENGINE_ADVICE)


def _tokens_too_slow(log: DetailLog, scenario: Scenario) -> Iterator[RuleViolation]:
    """Yield the limits of the first and of further tokens; LoadGen does not say which it judged."""
    figures_ms = log.token_latencies()
    reached = "; ".join(
        f"p99 {name} {figures(values['99.00'])} ms"
        for name, values in figures_ms.items()
        if "99.00" in values
    )
    text = f"the latency of tokens was over its limits ({reached})"
    yield RuleViolation("p99 token latency", text, _lower_rate(log, scenario))


def _too_short(log: DetailLog, scenario: Scenario) -> RuleViolation:
    minimum_s = (log.number("effective_min_duration_ms") or 0) / 1000
    lasted = duration_s(log, scenario)
    took = "an unknown time" if lasted is None else f"{figures(lasted)} s"
    return RuleViolation(
        "minimum duration",
        f"the run lasted {took}, at least {minimum_s:g} s are needed",
        _target_advice(log, scenario),
    )


def _target_advice(log: DetailLog, scenario: Scenario) -> str:
    """How to make LoadGen prepare enough queries: expect a faster system."""
    if log.cut_short:
        return "remove or raise --max_query_count; --min_query_count allows fewer than usual"
    option = scenario.target_option
    if not scenario.stream:
        rate = log.result(scenario) or 0.0
        return f"set {option} to {figures(rate * 1.1)} (samples/s)"
    mean = log.milliseconds("result_mean_latency_ns") or 0.0
    return f"set {option} to {figures(mean * 0.5)} (ms) or less"


def _too_slow(log: DetailLog, scenario: Scenario) -> RuleViolation:
    limit = log.milliseconds("effective_target_latency_ns") or 0.0
    share = 100 * (log.number("effective_target_latency_percentile") or 0.0)
    reached = log.milliseconds(f"result_{share:.2f}_percentile_latency_ns")
    latency = "" if reached is None else f" {reached:.1f} ms,"
    return RuleViolation(
        f"p{share:g} latency",
        f"the {share:g}th percentile of latency was{latency} over the limit of {limit:g} ms "
        f"({_count(log, 'result_overlatency_query_count')} of "
        f"{_count(log, 'result_query_count')} queries were late)",
        _lower_rate(log, scenario),
    )


def _too_little_evidence(log: DetailLog, scenario: Scenario) -> RuleViolation:
    more = more_queries(log)
    needs = "more queries" if more is None else f"at least {more} more queries"
    advice = ["run longer (--min_duration in ms)"] if _late_share(log) <= _allowed(log) else []
    if scenario.online:
        advice.append(_lower_rate(log, scenario))
    # With token latencies LoadGen counts each query as late.
    late = f" with {_count(log, 'result_overlatency_query_count')} late ones"
    return RuleViolation(
        "early stopping",
        f"{_count(log, 'result_query_count')} queries{'' if log.times_tokens else late} do not "
        f"prove the latency with 99 % confidence; {needs} would be needed",
        ", or ".join(advice) or "use a faster machine, device or model",
    )


def _late_share(log: DetailLog) -> float:
    queries = log.number("result_query_count") or 0.0
    return (log.number("result_overlatency_query_count") or 0.0) / max(queries, 1.0)


def _allowed(log: DetailLog) -> float:
    return 1 - (log.number("effective_target_latency_percentile") or 0.0)


def _lower_rate(log: DetailLog, scenario: Scenario) -> str:
    rate = easier_rate(log, log.number("effective_target_qps") or 0.0)
    option = (SERVER if scenario.stream else scenario).target_option
    return f"set {option} to {figures(rate)} (samples/s) or less"


def easier_rate(log: DetailLog, rate: float) -> float:
    """Return a Server rate in samples/s to try after one that was too high.

    Far more queries may be issued than are answered.
    """
    return 0.8 * min(rate, log.result(SERVER) or rate)


def more_queries(log: DetailLog) -> int | None:
    """Return how many queries early stopping requires on top, as far as it says."""
    counts = [int(match.group(1)) for match in MORE_QUERIES.finditer(log.early_stopping)]
    return max(counts, default=None)


def duration_s(log: DetailLog, scenario: Scenario) -> float | None:
    """Return how long the measured part lasted, from the figures that every scenario logs."""
    if scenario.batched:
        last = log.milliseconds("result_max_latency_ns")
        return None if last is None else last / 1000
    queries = log.number("result_query_count")
    if scenario.online:
        rate = log.result(SERVER)
        return queries / rate if queries and rate else None
    # The time between the queries counts too; only SingleStream logs a rate with it.
    rate = log.number("result_qps_with_loadgen_overhead")
    if rate and queries:
        return queries / rate
    mean = log.milliseconds("result_mean_latency_ns")
    return queries * mean / 1000 if queries and mean else None


def _count(log: DetailLog, key: str) -> str:
    value = log.number(key)
    return "an unknown number of" if value is None else f"{value:.0f}"
