"""How long a session will take, before it begins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from mlperf import catalog
from mlperf import rate_search as search
from mlperf.catalog import MINIMUM_DURATION_MS, SERVER, Scenario

from ..settings import ACCURACY, FIND, PERFORMANCE, SessionSettings, Targets
from ..tuning import one_round, targets
from ..tuning.profile import SpeedProfile
from ..wording import duration
from . import find
from .context import START_S

# A Server search seldom needs all of its tries.
USUAL_TRIES = {search.BRACKET: 3, search.CLOSE: 7, search.CONFIRM: 2}
# Test runs longer than this come with a hint how to shorten them.
HINT_THRESHOLD_S = 1800.0

Run = tuple[Scenario, str]


def seconds(
    settings: SessionSettings, profile: SpeedProfile, scenario: Scenario, mode: str
) -> float:
    """About how long one run takes; a compliance test is a performance run."""
    if mode == ACCURACY:
        return START_S + _accuracy(profile, scenario)
    if mode == FIND and scenario.online:
        return _search(profile, find.effort_of(settings))
    overrides = aimed = settings.overrides
    if mode == FIND:
        short = min(find.FIND_MS, overrides.min_duration or find.FIND_MS)
        aimed = replace(overrides, min_duration=short)
    aim = targets.initial(profile, aimed, scenario, PERFORMANCE, settings.style)
    if mode == FIND or settings.style == "test":
        overrides = one_round.shortened(settings, profile, scenario, aim)
    least = find.least_queries(profile, scenario) if mode == FIND else 0
    round_size = one_round.size(settings.benchmark, overrides, profile)
    queries = max(least or _queries(settings, scenario), round_size)
    if scenario.stream:  # Offline is one query of all samples
        queries = min(queries, overrides.max_query_count or queries)
    start = START_S + profile.warm_up_s(scenario)
    return start + _of_queries(profile, scenario, aim, queries)


def _of_queries(profile: SpeedProfile, scenario: Scenario, aim: Targets, queries: int) -> float:
    """Seconds of at least so many queries, and of the duration that is aimed at."""
    duration_s = (aim.min_duration_ms or MINIMUM_DURATION_MS) / 1000
    query_s = profile.query_s(scenario)
    if scenario.online:
        issued_s = max(duration_s, queries / (aim.qps or math.inf))
        # What comes faster than it can be answered is answered all the same.
        return issued_s * max(1.0, (aim.qps or 0.0) * query_s)
    room = 1.1 * targets.OFFLINE_ROOM if scenario.batched else 1.0
    return max(room * duration_s, queries * query_s)


def _queries(settings: SessionSettings, scenario: Scenario) -> int:
    """Return how many queries a performance run has at least; for Offline in samples."""
    overrides, least = settings.overrides, scenario.minimum_queries
    if scenario.batched and settings.style == "valid" and settings.benchmark in catalog.names():
        least = catalog.benchmark(settings.benchmark).offline_minimum
    return overrides.min_query_count or least


def _accuracy(profile: SpeedProfile, scenario: Scenario) -> float:
    return profile.sample_count / scenario.samples_per_query * profile.query_s(scenario)


def _search(profile: SpeedProfile, effort: search.Effort) -> float:
    """Return the seconds of a Server rate search; 0 where no rate can meet the limit."""
    if targets.hopeless(profile, SERVER):
        return 0.0
    rate = targets.SERVER_SHARE * profile.server.samples_per_s
    one = find.first_try_ms(rate, 1000 * profile.server_limit_s, effort) / 1000
    most = {search.CLOSE: effort.closing, search.CONFIRM: 2 if effort.patient else 1}
    usual = {kind: min(count, most.get(kind, count)) for kind, count in USUAL_TRIES.items()}
    longer = sum(count * effort.longer[kind] for kind, count in usual.items())
    return sum(usual.values()) * START_S + longer * one


def in_words(
    settings: SessionSettings, profile: Callable[[Scenario], SpeedProfile], runs: Sequence[Run]
) -> tuple[float, str]:
    """Seconds of all runs together, and a line about them with the budget for INVALID ones."""
    parts = [seconds(settings, profile(scenario), scenario, mode) for scenario, mode in runs]
    again = sum(
        part * (settings.attempts - 1)
        for part, (_, mode) in zip(parts, runs, strict=True)
        if mode == PERFORMANCE
    )
    many = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    text = f"{many} to make, about {duration(sum(parts))}"
    if again:
        text += (
            f"; an INVALID run is made again, {settings.attempts - 1} times at most: "
            f"{duration(again)} more at worst"
        )
    fewer = sum(part for part, (_, mode) in zip(parts, runs, strict=True) if mode != ACCURACY)
    if settings.style != "valid" and fewer > HINT_THRESHOLD_S:
        text += "; shorter: --performance_sample_count=N, --min_query_count=N"
    return sum(parts), text
