"""LoadGen's targets: from tuning, from the user, and after an INVALID run."""

from __future__ import annotations

import math
from dataclasses import replace

from mlperf.catalog import MINIMUM_DURATION_MS, OFFLINE, Mode, Scenario

from ..measuring.detail_log import DetailLog
from ..measuring.verdict import easier_rate, more_queries
from ..settings import ACCURACY, STYLES, Overrides, Targets
from .profile import SpeedProfile

# LoadGen prepares 1.1 x rate x duration Offline samples, so a run that turns out faster than
# expected by more than that ends too early. The probe is short; leave room for its error.
OFFLINE_ROOM = 1.2
# A stream must not run out of prepared queries: LoadGen prepares twice what the target needs, each
# with some 200 bytes of memory, which is gigabytes where a model answers in microseconds.
STREAM_SHARE = 0.8
# Every Server query is handed over singly, about this much work on top of the model.
HAND_OVER_S = 20e-6
# Poisson arrivals come in bursts, and a short stall must not grow into a backlog.
SERVER_SHARE = 0.5
# Early stopping accepts nothing below 459 queries, and one late query already asks for 662.
SERVER_QUERIES = 1400

# A figure that find-performance measured for long is no guess; LoadGen adds a tenth by itself.
STORED_OFFLINE_ROOM = 1.02
STORED_STREAM_SHARE = 1.2
# The stored Server rate is the highest for a full run. A short one must show more to be believed.
SHORT_SERVER_SHARE = 0.9

# Up to this share of what the backend answers alone, being late has another cause than the rate.
REACH = 0.75

# However little others left in the worst moment, a rate far below what the backend answers alone
# is no more likely to be in time: what is late then was stalled, and the run only gets longer.
LEAST_OF_ALONE = 0.1

# With this share of late queries the system is overloaded, not disturbed.
OVERLOAD = 0.05
# Up to here a little less load is enough.
NEARLY = 0.015
LONGEST_TEST_MS = 120_000
LONGEST_ROUND_MS = 7_200_000

OPTION, STORED, TUNING = "option", "stored target", "calibration"


def fixed_by_user(overrides: Overrides, scenario: Scenario) -> float | None:
    """The target that the user set for this scenario, in samples/s or ms per query, if any."""
    target: float | None = getattr(overrides, scenario.target_option.removeprefix("--"))
    return target


def initial(
    profile: SpeedProfile,
    overrides: Overrides,
    scenario: Scenario,
    mode: Mode,
    style: str,
    stored: float | None = None,
) -> Targets:
    """The targets of the first attempt: what the user says, else ``stored``, else the profile.

    ``stored`` is what find-performance measured earlier, in samples/s or ms.
    """
    if mode == ACCURACY and scenario.online:
        # Accuracy runs are paced too, but the latency of their answers does not count.
        return Targets(qps=profile.server.samples_per_s, origin=TUNING)
    duration = overrides.min_duration or STYLES[style]
    figure, origin = _figure(profile, scenario, style, stored)
    fixed = fixed_by_user(overrides, scenario)
    if fixed:
        figure, origin = fixed, OPTION
    if scenario.online and not overrides.min_duration and not hopeless(profile, scenario):
        duration = _enough_queries(figure, duration)
    if scenario.stream:
        return Targets(latency_ms=figure, min_duration_ms=duration, origin=origin)
    return Targets(qps=figure, min_duration_ms=duration, origin=origin)


def _figure(
    profile: SpeedProfile, scenario: Scenario, style: str, stored: float | None
) -> tuple[float, str]:
    """Return LoadGen's targets without those of the user, and their origin."""
    origin = TUNING if stored is None else STORED
    if scenario.batched:
        if stored is None:
            return OFFLINE_ROOM * profile.offline.samples_per_s, origin
        return STORED_OFFLINE_ROOM * stored, origin
    if scenario.online:
        if stored is None:
            cost_s = 1 / profile.server.samples_per_s + HAND_OVER_S
            return _in_token_limits(profile, scenario, SERVER_SHARE / cost_s), origin
        if style != "valid":
            return SHORT_SERVER_SHARE * stored, f"{SHORT_SERVER_SHARE:g} x the {origin}"
        return stored, origin
    latency_ms = stored or 1000 * profile.streams[scenario].median_s
    share = STREAM_SHARE if stored is None else STORED_STREAM_SHARE
    return share * latency_ms, origin


def _in_token_limits(profile: SpeedProfile, scenario: Scenario, rate: float) -> float:
    """Return a rate, or a lower one at which tokens come within the limits of the scenario.

    None so low that the queries which LoadGen needs would take longer than the longest run.
    """
    lowest = 1000 * SERVER_QUERIES / LONGEST_ROUND_MS
    return min(rate, max(lowest, profile.token_rates.get(scenario) or rate))


def _enough_queries(rate: float, duration_ms: int | None) -> int | None:
    """Return a duration in which early stopping gets the queries that it needs."""
    needed = math.ceil(1000 * SERVER_QUERIES / rate)
    if duration_ms is None:
        return needed if needed > MINIMUM_DURATION_MS else None
    return max(duration_ms, needed)


def adjusted(
    old: Targets, log: DetailLog, scenario: Scenario, left: float = 1.0, least: float = 0.0
) -> Targets | None:
    """Better targets after an INVALID run, or None when other targets would not help.

    ``left`` is the share of the CPU time that others left in the worst moment: a Server rate must
    be one that is answered in time even then, and no lower than ``least`` or the old one.
    """
    if log.cut_short:
        return None
    if scenario.batched:
        if log.values.get("result_min_duration_met") is not False:
            return None
        rate = log.result(OFFLINE) or 0.0
        return replace(old, qps=max(OFFLINE_ROOM * rate, OFFLINE_ROOM * (old.qps or 0.0)))
    if scenario.online:
        better = _server(old, log, left)
        lowest = min(least, old.qps or 0.0)
        return better and replace(better, qps=max(lowest, better.qps or 0.0))
    mean = log.milliseconds("result_mean_latency_ns")
    ran_out = log.values.get("result_min_duration_met") is False or log.errors
    if not ran_out or mean is None:
        return None
    return replace(old, latency_ms=STREAM_SHARE * min(mean, old.latency_ms or mean))


def _server(old: Targets, log: DetailLog, left: float) -> Targets | None:
    """Less load, or, when not one query was late, only a longer run."""
    rate = old.qps or 0.0
    if log.times_tokens:
        return _token_server(old, log, left)
    late, queries = log.number("result_overlatency_query_count"), log.number("result_query_count")
    if not rate or late is None or not queries:
        return None
    more = more_queries(log)
    if late == 0 and more is not None:
        longer = math.ceil(1100 * (queries + more) / rate)
        return replace(old, min_duration_ms=longer) if longer <= _longest(old) else None
    if late / queries > OVERLOAD:
        return replace(old, qps=left * easier_rate(log, rate))
    if late / queries < NEARLY and _longest(old) > LONGEST_TEST_MS:
        return replace(old, qps=0.97 * rate)
    # A few late queries come from stalls of the machine: in a longer run they are a smaller share.
    doubled = old.min_duration_ms and min(2 * old.min_duration_ms, LONGEST_TEST_MS)
    return replace(old, qps=0.8 * left * rate, min_duration_ms=doubled)


def _token_server(old: Targets, log: DetailLog, left: float) -> Targets | None:
    """Less load where tokens were late; LoadGen counts no late queries with token latencies."""
    more = more_queries(log)
    if log.values.get("result_perf_constraints_met") is False:
        return replace(old, qps=left * easier_rate(log, old.qps or 0.0))
    if more is None:
        return None
    longer = math.ceil(1100 * ((log.number("result_query_count") or 0) + more) / (old.qps or 1.0))
    return replace(old, min_duration_ms=longer) if longer <= _longest(old) else None


def _longest(targets: Targets) -> int:
    short = targets.min_duration_ms is not None and targets.min_duration_ms < MINIMUM_DURATION_MS
    return LONGEST_TEST_MS if short else LONGEST_ROUND_MS


def floor(profile: SpeedProfile, scenario: Scenario, left: float) -> float:
    """The least Server rate to try again, in samples/s, where others left ``left`` of the CPU.

    0 on a quiet machine: there a lower rate is what helps.
    """
    busy = scenario.online and left < 1
    return LEAST_OF_ALONE * profile.server.samples_per_s if busy else 0.0


def within_reach(profile: SpeedProfile, scenario: Scenario, aim: Targets) -> bool:
    """Return whether a target leaves room for a disturbance: a rate close to the most has none."""
    return not scenario.online or (aim.qps or 0.0) <= REACH * profile.server.samples_per_s


def hopeless(profile: SpeedProfile, scenario: Scenario) -> bool:
    """Return whether the quickest batch alone takes longer than the Server limit allows."""
    return scenario.online and profile.server.batch_s > profile.server_limit_s
