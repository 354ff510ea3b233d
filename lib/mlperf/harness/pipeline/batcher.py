"""Deciding how many samples go through the model at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class SampleBatch(NamedTuple):
    """Query ids and the sample indices that they ask for, in the same order.

    ``arrived`` are the times of arrival (perf_counter), where they are needed.
    """

    ids: Sequence[int]
    indices: Sequence[int]
    arrived: Sequence[float] = ()


def cut(ids: Sequence[int], indices: Sequence[int], size: int) -> Iterator[SampleBatch]:
    """Cut one long query into batches of ``size`` samples; the last one may be shorter."""
    if 0 < len(ids) <= size:
        yield SampleBatch(ids, indices)
        return
    for start in range(0, len(ids), size):
        yield SampleBatch(ids[start : start + size], indices[start : start + size])


class DeadlinePolicy:
    """How many waiting queries a Server worker should take.

    A bigger batch serves more queries per second but delays its oldest one. So take as many as
    are waiting, as long as the oldest still makes its deadline; when that is lost whatever is
    done, take as many as allowed, because then only clearing the queue helps the others.
    """

    def __init__(self, limit_s: float, largest: int, service_times: Mapping[int, float]) -> None:
        self.largest = largest
        known = sorted((size, time) for size, time in service_times.items() if size <= largest)
        self._budgets = _budgets(known, limit_s, largest)

    def take(self, waiting: int, oldest_age_s: float) -> int:
        """Return a batch size of at least 1 and at most ``waiting`` and ``largest``."""
        most = min(waiting, self.largest)
        if most <= 1 or oldest_age_s > self._budgets[1]:
            return max(1, most)
        while most > 1 and oldest_age_s > self._budgets[most]:
            most -= 1
        return most

    def patience(self, window_s: float) -> float:
        """Return the age of the oldest query, in seconds, up to which others may be waited for.

        ``window_s`` at most, and no longer than a batch of ``largest`` would still make its limit.
        """
        return min(window_s, self._budgets[self.largest])


def _budgets(known: Sequence[tuple[int, float]], limit_s: float, largest: int) -> list[float]:
    """For every batch size the age at which its oldest query would just miss the limit.

    A size that was not measured is taken to need as long as the next larger measured one.
    """
    budgets = [limit_s] * (largest + 1)
    for size in range(1, largest + 1):
        time = next((time for measured, time in known if measured >= size), None)
        if time is None:
            time = known[-1][1] * size / known[-1][0] if known else 0.0
        budgets[size] = limit_s - time
    return budgets
