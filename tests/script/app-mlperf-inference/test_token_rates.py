"""The first rate of a language model is one at which tokens come within the scenario's limits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mlperf import catalog
from mlperf.catalog import INTERACTIVE, SERVER
from mlperf.catalog.benchmark import Limit
from mlperf.harness.settings import Overrides, WorkerShape
from mlperf.harness.tuning import targets, token_rates
from mlperf.harness.tuning.profile import SpeedProfile, ThroughputPoint

LIMITS = catalog.benchmark("llama3.1-8b").limits
TOKENS = 32
# Seconds of an answer beside so many: SmolLM2-135M on two cores, and one that is far within limits.
SLOW = ((1, 0.7), (4, 1.9), (16, 6.5), (32, 12.5))
FAST = ((1, 0.011), (4, 0.03), (16, 0.1), (32, 0.2))


def points(seconds: Sequence[tuple[int, float]]) -> list[ThroughputPoint]:
    return [ThroughputPoint(WorkerShape(n, 2, 1), n / s, s) for n, s in seconds]


def rate(seconds: Sequence[tuple[int, float]], limit: Limit, slots: int = 32) -> float:
    return token_rates.in_time(points(seconds), WorkerShape(slots, 2, 1), limit, TOKENS)


def test_tighter_limits_have_lower_rates() -> None:
    assert 0 < rate(SLOW, LIMITS[INTERACTIVE]) < rate(SLOW, LIMITS[SERVER]) < 32 / 12.5
    assert rate(FAST, LIMITS[INTERACTIVE]) == rate(FAST, LIMITS[SERVER]) > 80


def test_the_rate_is_that_of_queueing_theory() -> None:
    """One at a time: a query finds another with a probability of the rate times the seconds."""
    one = rate(((1, 0.7),), LIMITS[INTERACTIVE], slots=1)
    assert one == pytest.approx(0.01 / 0.7, rel=1e-3)
    # Without delay by others their number has Poisson's distribution: five or more in 1 %.
    many = token_rates.in_time(
        points(((1, 1.0), (200, 1.0))), WorkerShape(5, 1, 1), Limit(ttft_ms=10, tpot_ms=50), TOKENS
    )
    assert many == pytest.approx(1.2791, rel=1e-3)


def test_an_answer_may_wait_for_one_within_the_limit_of_the_first_token() -> None:
    brief, long = (Limit(ttft_ms=most, tpot_ms=100) for most in (500, 2000))
    assert rate(SLOW, brief, slots=1) < 0.1 * rate(SLOW, long, slots=1)


def test_nothing_is_said_where_an_answer_alone_is_late() -> None:
    assert rate(((1, 60.0),), LIMITS[INTERACTIVE]) == 0
    assert rate(((4, 60.0), (8, 70.0)), LIMITS[INTERACTIVE]) == 0


def profile(rates: dict[str, float]) -> SpeedProfile:
    best = points(SLOW)[-1]
    return SpeedProfile(2, 64, best, best, {}, 20.0, {}, (), {}, 1.0, rates)


@pytest.mark.parametrize(
    ("known", "aimed"),
    [(1.0, 1.0), (0.4, 0.4), (5.0, 1.28), (0.0, 1.28), (0.01, 1400 / 7200)],
)
def test_the_first_target_keeps_the_limits_of_its_scenario(known: float, aimed: float) -> None:
    measured = profile({INTERACTIVE: known})
    first = targets.initial(measured, Overrides(), INTERACTIVE, "performance", "test")
    assert first.qps == pytest.approx(aimed, rel=1e-3)
    server = targets.initial(measured, Overrides(), SERVER, "performance", "test")
    assert server.qps == pytest.approx(1.28, rel=1e-3)


def test_what_the_user_says_counts() -> None:
    fixed = Overrides(server_target_qps=3.0)
    aim = targets.initial(profile({INTERACTIVE: 0.4}), fixed, INTERACTIVE, "performance", "test")
    assert aim.qps == 3.0
