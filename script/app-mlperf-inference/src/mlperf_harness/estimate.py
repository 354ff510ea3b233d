"""How long a session will take, before it begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import find, search, targets
from .calibration import Calibration
from .context import ROUND_DURATION_MS, START_S
from .launch import duration
from .settings import (
    ACCURACY,
    FIND,
    MULTI_STREAM,
    MULTI_STREAM_SAMPLES,
    OFFLINE,
    PERFORMANCE,
    SERVER,
    SINGLE_STREAM,
    STYLES,
    SessionSettings,
)

# LoadGen's own least numbers of queries.
LEAST_QUERIES = {SINGLE_STREAM: 100, MULTI_STREAM: 662, SERVER: 100, OFFLINE: 1}
# By LoadGen's mlperf.conf these are asked for all loaded samples equally often: one round at least.
EQUAL_ISSUE = ("3d-unet-99", "gptj-")
# A Server search seldom needs all of its tries.
USUAL_TRIES = {search.BRACKET: 3, search.CLOSE: 7, search.CONFIRM: 2}

Run = tuple[str, str]


def seconds(settings: SessionSettings, calibration: Calibration, scenario: str, mode: str) -> float:
    """About how long one run takes; a compliance test is a performance run."""
    if mode == ACCURACY:
        return START_S + _accuracy(calibration, scenario)
    if mode == FIND:
        return _find(calibration, scenario)
    given = settings.overrides
    asked = given.min_duration or STYLES[settings.style] or ROUND_DURATION_MS
    latency = calibration.streams[scenario].median_s if scenario in calibration.streams else 0.0
    queries = given.min_query_count or LEAST_QUERIES[scenario]
    round_s = 0.0
    if settings.benchmark.startswith(EQUAL_ISSUE) and scenario in (OFFLINE, SINGLE_STREAM):
        whole = min(calibration.sample_count, given.performance_sample_count or math.inf)
        round_s = whole * (latency or 1 / calibration.offline.samples_per_s)
    room = 1.1 * targets.OFFLINE_ROOM if scenario == OFFLINE else 1.0
    return START_S + max(room * asked / 1000, queries * latency, round_s)


def _accuracy(calibration: Calibration, scenario: str) -> float:
    count = calibration.sample_count
    if scenario == SINGLE_STREAM:
        return count * calibration.streams[scenario].median_s
    if scenario == MULTI_STREAM:
        return count / MULTI_STREAM_SAMPLES * calibration.streams[scenario].median_s
    point = calibration.offline if scenario == OFFLINE else calibration.server
    return count / point.samples_per_s


def _find(calibration: Calibration, scenario: str) -> float:
    if scenario != SERVER:
        return START_S + find.FIND_MS / 1000
    limit_s = find.LIMITS_IN_A_TRY * calibration.server_limit_s
    enough_s = find.TRY_QUERIES / (targets.SERVER_SHARE * calibration.server.samples_per_s)
    one = max(find.SERVER_TRY_MS / 1000, limit_s, enough_s)
    tries = sum(USUAL_TRIES.values())
    longer = sum(count * find.LONGER[purpose] for purpose, count in USUAL_TRIES.items())
    return tries * START_S + longer * one


def in_words(
    settings: SessionSettings, calibration: Calibration, runs: Sequence[Run]
) -> tuple[float, str]:
    """Seconds of all runs together, and a line about them with the budget for INVALID ones."""
    parts = [seconds(settings, calibration, *run) for run in runs]
    again = sum(
        part * (settings.attempts - 1)
        for part, (_, mode) in zip(parts, runs, strict=True)
        if mode == PERFORMANCE
    )
    text = f"{len(runs)} runs to make, about {duration(sum(parts))}"
    if again:
        text += (
            f"; an INVALID run is made again, {settings.attempts - 1} times at most: "
            f"{duration(again)} more at worst"
        )
    return sum(parts), text
