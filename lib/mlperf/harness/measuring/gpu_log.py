"""The readings of a run's GPUs, which one thread adds and another one sums up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .energy import Span
from .gpu import GpuReading, GpuSummary, summed

COLUMNS = ("s", "MHz", "W", "C", "busy share")
"""Of a row over time; None where the driver reports none."""


class NoTelemetryError(Exception):
    """The reason why GPUs cannot be read."""


class GpuLog:
    """Readings by the key of a GPU, which a source chooses."""

    def __init__(self) -> None:
        self._summaries: dict[str, GpuSummary] = {}
        self._readings: dict[str, list[GpuReading]] = {}

    def know(self, key: str, gpu: GpuSummary) -> None:
        """Note what does not change of a GPU."""
        self._summaries[key] = gpu

    def summary(self, key: str) -> GpuSummary:
        """Return what is known of a GPU, at least its key."""
        return self._summaries.get(key) or GpuSummary(key, "")

    def add(self, key: str, reading: GpuReading) -> None:
        """Note a reading."""
        self._readings.setdefault(key, []).append(reading)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was read."""
        return not self._readings

    def course(self, began_s: float, most: int) -> list[dict[str, Any]]:
        """Return the readings of each GPU over the time since ``began_s``, at most so many."""
        return [
            {"name": self.summary(key).name or key, "rows": _rows(list(seen), began_s, most)}
            for key, seen in list(self._readings.items())
        ]

    def summed(self, span: Span | None) -> tuple[GpuSummary, ...]:
        """Return the GPUs with what their readings come to; see ``gpu.summed``."""
        readings = {key: list(seen) for key, seen in list(self._readings.items())}
        return tuple(summed(self.summary(key), seen, span) for key, seen in readings.items())


def _rows(seen: Sequence[GpuReading], began_s: float, most: int) -> list[list[float | None]]:
    step = max(1, len(seen) // most)
    return [
        [round(one.at_s - began_s, 3), one.clock_mhz, one.power_w, one.temperature_c, one.busy]
        for one in seen[::step]
    ]
