"""When requests are due, in nanoseconds from the start: evenly, by chance, or in bursts."""

from __future__ import annotations

import random
from collections.abc import Iterator

SECOND = 1e9


def arrivals(distribution: str, rate: float, burst: int, seed: int) -> Iterator[int]:
    """Due times that go up for ever, ``rate`` of them a second on average."""
    if distribution == "poisson":
        return _poisson(rate, random.Random(seed))
    return _even(rate, burst if distribution == "burst" else 1)


def _even(rate: float, together: int) -> Iterator[int]:
    # Products, not sums: the millionth is where it belongs.
    number = 0
    while True:
        due = round(number * together * SECOND / rate)
        for _ in range(together):
            yield due
        number += 1


def _poisson(rate: float, generator: random.Random) -> Iterator[int]:
    due = 0.0
    while True:
        due += generator.expovariate(rate) * SECOND
        yield round(due)
