"""Figures of latencies: what they are on average, how they spread, and their tail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .options import PERCENTILES

MS = 1e6


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Milliseconds; ``percentiles`` has pairs of a percentile and its value."""

    count: int
    min: float
    mean: float
    std: float
    max: float
    percentiles: tuple[tuple[float, float], ...]

    def percentile(self, wanted: float) -> float:
        """One of ``percentiles``, in ms."""
        return dict(self.percentiles)[wanted]


def latency(nanoseconds: Sequence[int], also: float = 99.0) -> LatencySummary | None:
    """Return the figures of latencies in ns, None without any; ``also`` is a further percentile."""
    if not nanoseconds:
        return None
    ordered = sorted(nanoseconds)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    spread = math.sqrt(math.fsum((each - mean) ** 2 for each in ordered) / count)
    wanted = sorted({*PERCENTILES, also})
    return LatencySummary(
        count,
        ordered[0] / MS,
        mean / MS,
        spread / MS,
        ordered[-1] / MS,
        tuple((each, percentile(ordered, each) / MS) for each in wanted),
    )


def percentile(ordered: Sequence[float], wanted: float) -> float:
    """A percentile (0 to 100) of ascending values, interpolated as NumPy does it, in their unit."""
    place = (len(ordered) - 1) * wanted / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def latency_document(latency: LatencySummary | None) -> dict[str, Any] | None:
    """Return the figures of latencies for JSON, by their names."""
    if latency is None:
        return None
    tail = {f"p{each:g}": value for each, value in latency.percentiles}
    return {"count": latency.count, "min": latency.min, "mean": latency.mean, "std": latency.std,
            **tail, "max": latency.max, "unit": "ms"}  # fmt: skip


def finite_document(value: Any) -> Any:
    """Return a document for JSON with null for every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite_document(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite_document(each) for each in value]
    return value
