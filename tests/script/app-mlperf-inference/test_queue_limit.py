"""The limit that a queue sets to Server, against the theory of queues."""

from __future__ import annotations

import math

import pytest

import benchmark_lab as lab
from support import ROOT

limit = lab.module_of(ROOT / "benchmarks" / "queue_limit.py")


def test_one_caller_with_calls_of_one_length() -> None:
    # M/D/1: P(wait <= t) = (1 - r) exp(r t / D) for t up to D, the length of a call.
    found = limit.highest_rate({1: 1.0}, 1, 2.0)
    assert (1 - found) * math.exp(found) == pytest.approx(0.99, abs=0.002)


def test_what_a_queue_can_keep_grows_with_the_limit_up_to_all_that_the_callers_can() -> None:
    rates = [limit.highest_rate({1: 1.0}, 2, bound) for bound in (0.9, 3.0, 100.0)]
    assert rates[0] == 0
    assert rates == sorted(rates)
    assert 1.9 < rates[-1] <= 2.0


def test_batches_that_cost_less_are_used_where_the_limit_lets_them() -> None:
    cheap = {1: 1.0, 8: 2.0}
    assert limit.highest_rate(cheap, 1, 20.0) > 3
    assert limit.highest_rate(cheap, 1, 1.5) < 1
