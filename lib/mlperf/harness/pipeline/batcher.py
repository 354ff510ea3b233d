"""Deciding how many samples go through the model at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..benchmarks.base import Array

# What a call costs at least, as a share of a call with one sample.
LEAST_CALL = 0.01


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


class LengthSplitter:
    """Splits Server batches into parts of samples of about one length.

    A model fills the samples of a call up to the longest of them, and every call costs something
    besides. ``service_times`` are the seconds of batches of samples of one, mean length, by size;
    they tell the two apart. ``costs`` are the lengths of all samples, in any unit.
    """

    def __init__(self, costs: Array, service_times: Mapping[int, float]) -> None:
        self._shares = (costs / costs.mean()).tolist()
        self.call_s, self.sample_s = _fitted(service_times)

    def split(self, batch: SampleBatch) -> list[SampleBatch]:
        """Return the parts that take least time in all; the shortest first, to be answered soon."""
        shares = [self._shares[index] for index in batch.indices]
        filled_up_s = self.sample_s * (len(shares) * max(shares) - sum(shares))
        if filled_up_s <= self.call_s:
            return [batch]
        order = sorted(range(len(shares)), key=shares.__getitem__)
        bounds = self._bounds([shares[n] for n in order])
        return [_part(batch, order[start:end]) for start, end in bounds]

    def _bounds(self, shares: Sequence[float]) -> list[tuple[int, int]]:
        """Return start and end of all parts of samples of ascending length."""
        # The least seconds of the first so many samples, and where their last part starts.
        best = [(0.0, 0)]
        for end, longest in enumerate(shares, 1):
            sample_s = self.sample_s * longest
            best.append(
                min(
                    (best[start][0] + self.call_s + sample_s * (end - start), start)
                    for start in range(end)
                )
            )
        bounds, end = [], len(shares)
        while end:
            bounds.append((best[end][1], end))
            end = best[end][1]
        return bounds[::-1]


def _part(batch: SampleBatch, places: Sequence[int]) -> SampleBatch:
    return SampleBatch(
        [batch.ids[n] for n in places],
        [batch.indices[n] for n in places],
        [batch.arrived[n] for n in places] if batch.arrived else (),
    )


def _fitted(service_times: Mapping[int, float]) -> tuple[float, float]:
    """Return the seconds of a call and of a sample in it; relative errors count alike."""
    sizes = np.asarray(list(service_times), dtype=np.float64)
    seconds = np.asarray(list(service_times.values()), dtype=np.float64)
    terms = np.stack([np.ones_like(sizes), sizes], axis=1) / seconds[:, None]
    (call_s, sample_s), *_ = np.linalg.lstsq(terms, np.ones_like(sizes), rcond=None)
    least_s = LEAST_CALL * float(seconds.min())
    return max(float(call_s), least_s), max(float(sample_s), 0.0)


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
