"""The search for the Server rate, against a queue whose capacity is known exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlperf import rate_search as search
from mlperf.harness.session import find
from mlperf.rate_search import RateSearchResult, RateTrial

FULL_S = 600.0


class Queue:
    """One server with a constant service time, and Poisson arrivals as LoadGen makes them."""

    def __init__(self, service_s: float, limit_s: float, seed: int) -> None:
        self.service_s = service_s
        self.limit_s = limit_s
        self.random = np.random.default_rng(seed)
        self.runs = 0

    def late_share(self, qps: float, queries: int) -> float:
        """Lindley's recursion, as a running maximum."""
        gaps = self.random.exponential(1 / qps, queries)
        walk = np.concatenate([[0.0], np.cumsum(self.service_s - gaps[1:])])
        waits = walk - np.minimum.accumulate(walk)
        return float(np.mean(waits + self.service_s > self.limit_s))

    def attempt(self, qps: float, purpose: str) -> RateTrial:
        """A short run, as find-performance makes it."""
        self.runs += 1
        seconds = max(2.0, find.TRY_QUERIES / qps, find.LIMITS_IN_A_TRY * self.limit_s)
        queries = int(qps * seconds * search.THOROUGH.longer[purpose])
        share = self.late_share(qps, queries)
        return RateTrial(qps, share, find.allowed_share(qps * FULL_S), queries, None, 0.0, purpose)

    def highest(self) -> float:
        """The highest rate that a full run accepts, by long runs and bisection."""
        low, high = 0.05 / self.service_s, 1 / self.service_s
        for _ in range(14):
            middle = (low + high) / 2
            share = self.late_share(middle, 400_000)
            low, high = (
                (middle, high)
                if share <= find.allowed_share(middle * FULL_S)
                else (
                    low,
                    middle,
                )
            )
        return low


@pytest.mark.parametrize(
    ("service_ms", "limit_ms"), [(0.2, 15), (1, 15), (4, 15), (5, 130), (20, 100)]
)
def test_the_found_rate_is_within_three_percent_of_the_highest(
    service_ms: float, limit_ms: float
) -> None:
    queue = Queue(service_ms / 1000, limit_ms / 1000, seed=7)
    best = queue.highest()
    errors = []
    for start in (0.3, 0.6, 0.95) * 3:
        queue.runs = 0
        found = search.search(start / queue.service_s, queue.attempt)
        assert found.qps is not None
        assert queue.runs == len(found.tries) <= search.THOROUGH.most_tries
        errors.append(found.qps / best - 1)
    # Queries are late in bursts, so that single searches differ by chance.
    assert abs(np.median(errors)) < 0.03, errors
    assert max(errors) < 0.1, errors


def test_short_runs_that_something_disturbed_do_not_decide() -> None:
    errors = []
    for seed in range(8):
        queue, random = Queue(0.0002, 0.015, seed), np.random.default_rng(seed)
        best = queue.highest()
        errors += [disturbed(queue, random, start * 5000) / best - 1 for start in (0.6, 0.8)]
    assert abs(np.median(errors)) < 0.05, errors
    assert np.mean(errors) > -0.08, errors


def disturbed(queue: Queue, random: np.random.Generator, start: float) -> float:
    """The rate found where 8 % of the queries of every third short run come late."""

    def attempt(qps: float, purpose: str) -> RateTrial:
        tried = queue.attempt(qps, purpose)
        late = tried.late_share + 0.08 * (purpose != "confirm" and random.random() < 0.3)
        return replace(tried, late_share=late)

    found = search.search(start, attempt)
    assert found.confirmed
    assert len(found.tries) <= search.THOROUGH.most_tries
    return found.qps or 0.0


def sharp(limit: float) -> tuple[list[float], search.Attempt]:
    """A system that is in time up to ``limit`` and never above it."""
    asked: list[float] = []

    def attempt(qps: float, purpose: str) -> RateTrial:
        asked.append(qps)
        return RateTrial(qps, 0.0 if qps <= limit else 1.0, 0.01, 10_000, None, 0.0, purpose)

    return asked, attempt


@given(st.floats(1e-2, 1e5), st.floats(0.05, 20))
@settings(max_examples=200)
def test_a_sharp_limit_is_found_in_a_bounded_number_of_runs(limit: float, factor: float) -> None:
    asked, attempt = sharp(limit)
    found = search.search(limit * factor, attempt)
    assert found.confirmed
    assert found.qps is not None
    assert found.qps <= limit
    assert found.qps >= limit / (1 + search.PRECISION) / 1.0001
    assert len(asked) == len(found.tries) <= search.THOROUGH.most_tries


def test_a_system_that_is_never_in_time_ends_the_search() -> None:
    asked, attempt = sharp(0.0)
    assert search.search(100.0, attempt, least=1.0) == RateSearchResult(
        None, found_tries(asked), False
    )
    assert len(asked) <= search.THOROUGH.bracket


def found_tries(asked: list[float]) -> tuple[RateTrial, ...]:
    return tuple(RateTrial(qps, 1.0, 0.01, 10_000, None, 0.0, "bracket") for qps in asked)


def test_a_rate_that_a_longer_run_refuses_is_lowered() -> None:
    def attempt(qps: float, purpose: str) -> RateTrial:
        limit = 95.0 if purpose == "confirm" else 100.0
        return RateTrial(qps, 0.0 if qps <= limit else 1.0, 0.01, 10_000, None, 0.0, purpose)

    found = search.search(50.0, attempt)
    assert found.confirmed
    assert found.qps is not None
    assert 92 < found.qps <= 95


def test_a_machine_that_became_a_third_slower_still_confirms_a_rate() -> None:
    def attempt(qps: float, purpose: str) -> RateTrial:
        limit = 67.0 if purpose == "confirm" else 100.0
        return RateTrial(qps, 0.0 if qps <= limit else 1.0, 0.01, 10_000, None, 0.0, purpose)

    found = search.search(50.0, attempt)
    assert found.confirmed
    assert found.qps is not None
    assert 50 < found.qps <= 67


@pytest.mark.parametrize(
    ("queries", "late"), [(6898, 50), (12571, 100), (55427, 500), (107569, 1000), (282276, 2700)]
)
def test_the_allowed_share_is_that_of_early_stopping(queries: int, late: int) -> None:
    """Against LoadGen's own table of late queries and the queries that they ask for."""
    assert queries * find.allowed_share(queries) == pytest.approx(late, abs=1.5)


def test_a_latency_of_seconds_is_reported_without_an_exponent() -> None:
    tried = RateTrial(116.1, 0.778, 0.0088, 9000, 2251.3, 79.0, "confirm")
    assert "77.80 % late, p99 2251 ms of 130: too late" in find._in_words(tried, 130)


@pytest.mark.parametrize(("service_ms", "limit_ms"), [(0.2, 15), (5, 130), (2, 1000), (50, 20_000)])
def test_a_tiny_form_is_searched_within_two_minutes(service_ms: float, limit_ms: float) -> None:
    queue, effort = Queue(service_ms / 1000, limit_ms / 1000, 1), search.QUICK
    spent = 0.0

    def attempt(qps: float, purpose: str) -> RateTrial:
        nonlocal spent
        seconds = find.first_try_ms(qps, limit_ms, effort) / 1000 * effort.longer[purpose]
        # What cannot be answered in the time of the run comes after it, up to the latency limit.
        spent += seconds * max(1.0, qps * queue.service_s) + 1.5
        queries = max(1, int(qps * seconds))
        share = queue.late_share(qps, queries)
        behind = seconds < find.LIMITS_IN_A_TRY * queue.limit_s and 1 / queue.service_s < 0.8 * qps
        allowed = find.allowed_share(qps * FULL_S)
        return RateTrial(qps, share, allowed, queries, None, 0.0, purpose, behind)

    found = search.search(0.5 / queue.service_s, attempt, effort=effort)
    assert found.confirmed
    assert found.qps is not None
    assert 0.4 <= found.qps * queue.service_s <= 1.3
    assert spent <= 120
    worst = effort.most_tries * 1.5 + effort.whole_s
    assert worst <= 120


def test_a_run_that_falls_behind_is_not_in_time_without_a_late_query() -> None:
    tried = RateTrial(100.0, 0.0, 0.01, 400, 900.0, 4.0, search.BRACKET, fell_behind=True)
    assert not tried.passed
    assert not tried.useful
    assert "fell behind" in find._in_words(tried, 20_000)
