"""The rate of queries at which the tokens of answers come in time.

A language model answers several prompts together, and each further one delays the tokens of all: it
shares its time among the answers in flight. Of such a system, with queries that arrive at random
times, it is known how often how many are in flight (processor sharing, whose equilibrium depends
on the rate and on the speed at each number alone).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlperf.catalog.benchmark import Limit

from ..backends.base import Array
from ..settings import WorkerShape
from .profile import ThroughputPoint

# The rules look at the 99th percentile.
LATE_SHARE = 0.01
# Halvings of the range of rates.
HALVINGS = 30


def in_time(
    points: Sequence[ThroughputPoint], shape: WorkerShape, limit: Limit, tokens: float
) -> float:
    """Return the highest rate (samples/s) at which 99 % of answers keep a limit.

    0 where an answer alone takes longer. ``shape`` is how the system is divided, ``tokens`` the
    mean length of an answer. The time of a prompt counts as that of further tokens here, which it
    is for those that are answered meanwhile.
    """
    numbers, seconds = _by_number(points)
    most = _most_together(numbers, seconds, tokens * (limit.tpot_ms or math.inf) / 1000)
    # Where an answer comes within the limit of the first token, another may wait for it.
    if seconds[0] > (limit.ttft_ms or math.inf) / 1000:
        most = min(most, shape.workers * shape.batch)
    if not most:
        return 0.0
    in_flight = np.arange(1, numbers[-1] + 1)
    speeds = in_flight / np.interp(in_flight, numbers, seconds)
    low, high = 0.0, float(speeds[-1])
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        is_in_time = _share_that_finds(most, rate, speeds) <= LATE_SHARE
        low, high = (rate, high) if is_in_time else (low, rate)
    return low


def _by_number(points: Sequence[ThroughputPoint]) -> tuple[list[int], list[float]]:
    """Return numbers of prompts in flight, and the least seconds of an answer beside so many."""
    seconds: dict[int, float] = {}
    for point in points:
        number = point.shape.workers * point.shape.batch
        seconds[number] = min(point.batch_s, seconds.get(number, math.inf))
    numbers = sorted(seconds)
    return numbers, [seconds[number] for number in numbers]


def _most_together(numbers: Sequence[int], seconds: Sequence[float], allowed_s: float) -> int:
    """Return how many answers may be in flight without one that takes longer; 0 for none."""
    in_flight = np.arange(1, numbers[-1] + 1)
    late = np.interp(in_flight, numbers, seconds) > allowed_s
    return int(in_flight[late.argmax()] - 1 if late.any() else in_flight[-1])


def _share_that_finds(most: int, rate: float, speeds: Array) -> float:
    """Return the share of queries that find ``most`` or more in flight; ``speeds`` are answers/s.

    Beyond the last of ``speeds`` each further one takes as long.
    """
    weights = np.concatenate(([0.0], np.cumsum(np.log(rate / speeds))))
    shares = np.exp(weights - weights.max())
    beyond = shares[-1] * rate / (speeds[-1] - rate)
    return float((shares[most:].sum() + beyond) / (shares.sum() + beyond))
