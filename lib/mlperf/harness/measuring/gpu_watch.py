"""Reading the GPUs of a run in a thread of its own, so that a tool that hangs stops nothing.

It is a thread of the session, which only watches the process that computes. Not verified on
hardware for AMD and Intel.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .energy import Span
from .gpu import GpuSummary
from .gpu_log import GpuLog, NoTelemetryError
from .nvml_source import NvmlSource
from .smi_source import AMD, INTEL, SmiSource

INTERVAL_S = 1.0
# So long the last readings may take after the run.
PATIENCE_S = 2.0


class GpuSource(Protocol):
    """A way to read GPUs."""

    def follow(self, stop: threading.Event, log: GpuLog, interval_s: float) -> None:
        """Add readings to ``log`` until ``stop``; raises NoTelemetryError where none can be had."""

    def close(self) -> None:
        """End what it has started; ``stop`` is set already."""


def _nvidia(numbers: Sequence[int] | None) -> GpuSource:
    return NvmlSource(numbers=numbers)


def _amd(numbers: Sequence[int] | None) -> GpuSource:
    shown = os.environ.get("HIP_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES") or ""
    return SmiSource(AMD, shown, numbers)


def _intel(numbers: Sequence[int] | None) -> GpuSource:
    return SmiSource(INTEL, os.environ.get("ZE_AFFINITY_MASK", ""), numbers)


SOURCES: Mapping[str, Callable[[Sequence[int] | None], GpuSource]] = {
    "cuda": _nvidia,
    "rocm": _amd,
    "xpu": _intel,
}


class GpuWatch:
    """Reads GPUs from its making until ``finish``."""

    def __init__(self, source: GpuSource, interval_s: float = INTERVAL_S) -> None:
        self._source = source
        self._log = GpuLog()
        self._stop = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(
            target=self._follow, args=(interval_s,), name="gpu-watch", daemon=True
        )
        self._thread.start()

    def _follow(self, interval_s: float) -> None:
        try:
            self._source.follow(self._stop, self._log, interval_s)
        except NoTelemetryError as error:
            self._problem = str(error)
        except Exception as error:  # telemetry never ends a run
            self._problem = f"{type(error).__name__}: {error}"

    def finish(self, span: Span | None = None) -> tuple[GpuSummary, ...]:
        """Return the summaries of the GPUs, as far as they could be read."""
        self._stop.set()
        self._source.close()
        self._thread.join(PATIENCE_S)
        return self._log.summed(span)

    def course(self, began_s: float, most: int) -> list[dict[str, Any]]:
        """Return the readings over time, see ``GpuLog.course``."""
        return self._log.course(began_s, most)

    @property
    def missing(self) -> str:
        """Return why there is no telemetry, or no more of it; empty where there is."""
        if self._problem or not self._log.is_empty:
            return self._problem
        return "the tool gave no reading"


def watch(device: str, numbers: Sequence[int] | None = None) -> GpuWatch | None:
    """Return the watch of the GPUs of a device; None for one that has no GPU.

    ``numbers`` are those of the visible ones that are used, None where that is not known.
    """
    source = SOURCES.get(device)
    return GpuWatch(source(numbers)) if source else None
