"""The readings of a run's GPUs, which one thread adds and another one sums up."""

from __future__ import annotations

from .energy import Span
from .gpu import GpuReading, GpuSummary, summed


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

    def summed(self, span: Span | None) -> tuple[GpuSummary, ...]:
        """Return the GPUs with what their readings come to; see ``gpu.summed``."""
        readings = {key: list(seen) for key, seen in list(self._readings.items())}
        return tuple(summed(self.summary(key), seen, span) for key, seen in readings.items())
