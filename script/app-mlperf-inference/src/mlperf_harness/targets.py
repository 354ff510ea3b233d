"""What LoadGen is told to expect: from calibration, from the user, and after an INVALID run."""

from __future__ import annotations

import math
from dataclasses import replace

from .calibration import Calibration
from .detail_log import DetailLog
from .settings import (
    ACCURACY,
    MULTI_STREAM,
    OFFLINE,
    SERVER,
    SINGLE_STREAM,
    STYLES,
    Overrides,
    Targets,
)
from .verdict import more_queries

# LoadGen prepares 1.1 x rate x duration Offline samples, so a run that turns out faster than
# expected by more than that ends too early. Calibration is short; leave room for its error.
OFFLINE_ROOM = 1.2
# A stream must not run out of prepared queries: LoadGen prepares twice what the target needs.
STREAM_SHARE = 0.5
# Each Server query is handed over singly, about this much work on top of the model.
HAND_OVER_S = 20e-6
# Poisson arrivals come in bursts, and a short stall must not grow into a backlog.
SERVER_SHARE = 0.5
# Early stopping accepts nothing below 459 queries, and one late query already asks for 662.
SERVER_QUERIES = 1400

# With this share of late queries the system is overloaded, not disturbed.
OVERLOAD = 0.05
LONGEST_TEST_MS = 120_000


def fixed_by_user(given: Overrides, scenario: str) -> float | None:
    """The target that the user set for this scenario, if any."""
    return {
        OFFLINE: given.offline_target_qps,
        SERVER: given.server_target_qps,
        SINGLE_STREAM: given.singlestream_target_latency,
        MULTI_STREAM: given.multistream_target_latency,
    }[scenario]


def initial(
    calibration: Calibration, given: Overrides, scenario: str, mode: str, style: str
) -> Targets:
    """The targets of the first attempt."""
    fixed = fixed_by_user(given, scenario)
    duration = given.min_duration or STYLES[style]
    if scenario == OFFLINE:
        rate = fixed or OFFLINE_ROOM * calibration.offline.samples_per_s
        return Targets(qps=rate, min_duration_ms=duration)
    if scenario == SERVER:
        if mode == ACCURACY:
            # Accuracy runs are paced too, but nobody asks how late their answers are.
            return Targets(qps=calibration.server.samples_per_s)
        cost_s = 1 / calibration.server.samples_per_s + HAND_OVER_S
        rate = fixed or SERVER_SHARE / cost_s
        if duration is not None and not given.min_duration:
            duration = max(duration, math.ceil(1000 * SERVER_QUERIES / rate))
        return Targets(qps=rate, min_duration_ms=duration)
    measured_ms = 1000 * calibration.streams[scenario].median_s
    return Targets(latency_ms=fixed or STREAM_SHARE * measured_ms, min_duration_ms=duration)


def adjusted(old: Targets, log: DetailLog, scenario: str) -> Targets | None:
    """Better targets after an INVALID run, or None when other targets would not help."""
    if scenario == OFFLINE:
        if log.values.get("result_min_duration_met") is not False:
            return None
        rate = log.result(OFFLINE) or 0.0
        return replace(old, qps=max(OFFLINE_ROOM * rate, OFFLINE_ROOM * (old.qps or 0.0)))
    if scenario == SERVER:
        return _server(old, log)
    mean = log.milliseconds("result_mean_latency_ns")
    ran_out = log.values.get("result_min_duration_met") is False or log.errors
    if not ran_out or mean is None:
        return None
    return replace(old, latency_ms=STREAM_SHARE * min(mean, old.latency_ms or mean))


def _server(old: Targets, log: DetailLog) -> Targets | None:
    """Less load, or, when not one query was late, only a longer run."""
    rate = old.qps or 0.0
    late, queries = log.number("result_overlatency_query_count"), log.number("result_query_count")
    if not rate or late is None or not queries:
        return None
    more = more_queries(log)
    if late == 0 and more is not None:
        longer = math.ceil(1100 * (queries + more) / rate)
        return replace(old, min_duration_ms=longer) if longer <= LONGEST_TEST_MS else None
    if late / queries > OVERLOAD:
        return replace(old, qps=0.5 * rate)
    # A few late queries come from stalls of the machine: in a longer run they are a smaller share.
    doubled = old.min_duration_ms and min(2 * old.min_duration_ms, LONGEST_TEST_MS)
    return replace(old, qps=0.8 * rate, min_duration_ms=doubled)


def hopeless(calibration: Calibration, scenario: str) -> bool:
    """Whether the quickest batch alone takes longer than the Server limit allows."""
    return scenario == SERVER and calibration.server.batch_s > calibration.server_limit_s
