"""The energy of a load, by the counters of the machine on which the server runs.

Read as the harness reads it (decision 097), and only where the server is on this machine. What the
client takes is part of it, and so is whatever else runs here.
"""

from __future__ import annotations

import time

from mlperf.harness.jobs import RunEnergy
from mlperf.harness.measuring import energy, gpu, gpu_watch

from .connection import EndpointAddress
from .imports import LOOPBACK

INTERVAL_S = 1.0


class EnergyWatch:
    """Reads processors and NVIDIA's GPUs from its making until ``finish``."""

    def __init__(self) -> None:
        self._meter = energy.EnergyMeter()
        self._next = 0.0
        self._gpus = gpu_watch.watch("cuda")
        self.look()

    def look(self) -> None:
        """Note what the counters of processors say, at most once a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL_S
            self._meter.add(now, energy.counters())

    def finish(self, begin: int, end: int, tokens: int) -> RunEnergy | None:
        """Return what ``tokens`` took between two moments, in ns of ``perf_counter_ns``.

        None where nothing can be read.
        """
        self._next = 0.0
        self.look()
        shift = time.monotonic() - time.perf_counter()
        span = (begin / 1e9 + shift, end / 1e9 + shift)
        gpus = self._gpus.finish(span) if self._gpus else ()
        return energy.of_run(span, tokens, self._meter.whole(), gpu.energies(gpus, span))


def watch_energy(address: EndpointAddress) -> EnergyWatch | None:
    """Return a watch of this machine; None where the server is on another one."""
    return EnergyWatch() if address.host in LOOPBACK else None
