"""The state of GPUs during a run: readings, what they come to, and what they warn of.

Where readings come from is in ``nvml_source`` and ``smi_source``; ``gpu_watch`` takes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..jobs import SourceEnergy
from . import energy
from .energy import Span

HOT_C = 85


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A reading of one GPU; None where its driver reports none. MHz, W, degrees Celsius, bytes.

    ``at_s`` is the time (``time.monotonic``), ``energy_j`` a counter that only grows, ``busy`` the
    share of the time in which the GPU computed. ``reasons`` are what slows it though it has work.
    """

    at_s: float = 0.0
    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    memory_bytes: int | None = None
    busy: float | None = None
    energy_j: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """A GPU over a run: means and extremes of its readings.

    ``slowed_share`` has the share of looks at which something slowed it, by what. ``ecc_errors``
    are those that could not be corrected, since the driver was loaded.
    """

    uuid: str
    name: str
    looks: int = 0
    least_clock_mhz: float | None = None
    mean_clock_mhz: float | None = None
    most_clock_mhz: float | None = None
    hottest_c: float | None = None
    mean_power_w: float | None = None
    most_memory_bytes: int | None = None
    slowed_share: dict[str, float] | None = None
    persistence: bool | None = None
    ecc_errors: int | None = None
    peak_power_w: float | None = None
    mean_busy: float | None = None
    energy_j: float | None = None

    def in_words(self) -> str:
        """Return what was read, in one line; empty where that is nothing."""
        parts = [
            _filled("busy {:.0f} %", self.mean_busy and 100 * self.mean_busy),
            _filled("clock {:.0f}", self.least_clock_mhz)
            + _filled(" to {:.0f} MHz", self.most_clock_mhz),
            _filled("{:.0f} W", self.mean_power_w) + _filled(", at most {:.0f}", self.peak_power_w),
            _filled("at most {:.0f} C", self.hottest_c),
            _filled("{:.1f} GiB", self.most_memory_bytes and self.most_memory_bytes / 2.0**30),
        ]
        return "; ".join(part for part in parts if part)


def _filled(text: str, value: float | None) -> str:
    return "" if value is None else text.format(value)


def summed(gpu: GpuSummary, seen: Sequence[GpuReading], span: Span | None = None) -> GpuSummary:
    """Return a GPU with what its readings within ``span`` come to, or all if none is within."""
    within = [r for r in seen if span and span[0] <= r.at_s <= span[1]] or seen
    clocks, powers = _values(within, "clock_mhz"), _values(within, "power_w")
    memory = max(_values(within, "memory_bytes"), default=0)
    slowed = Counter(why for reading in within for why in reading.reasons)
    return replace(
        gpu,
        looks=len(within),
        least_clock_mhz=min(clocks, default=None),
        mean_clock_mhz=_mean(clocks, 1),
        most_clock_mhz=max(clocks, default=None),
        hottest_c=max(_values(within, "temperature_c"), default=None),
        mean_power_w=_mean(powers, 1),
        peak_power_w=max(powers, default=None),
        mean_busy=_mean(_values(within, "busy"), 3),
        energy_j=_joules(seen, span),
        most_memory_bytes=int(memory) or None,
        slowed_share={why: round(n / len(within), 3) for why, n in slowed.items()},
    )


def energies(gpus: Sequence[GpuSummary], span: Span) -> dict[str, SourceEnergy]:
    """Return what the GPUs took within ``span``, by their names; without those that are unknown."""
    seconds = max(span[1] - span[0], 1e-9)
    many = len(gpus) > 1
    return {
        f"GPU {number}" if many else "GPU": SourceEnergy(
            one.energy_j, round(one.energy_j / seconds, 2), one.peak_power_w
        )
        for number, one in enumerate(gpus)
        if one.energy_j is not None
    }


def _values(seen: Sequence[GpuReading], name: str) -> list[float]:
    """Return the values of a field of readings, where it is known."""
    return [value for reading in seen if (value := getattr(reading, name)) is not None]


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(sum(values) / len(values), digits) if values else None


def _joules(seen: Sequence[GpuReading], span: Span | None) -> float | None:
    """Return the energy by the GPU's own counter, or by its power over time."""
    counter = [(r.at_s, r.energy_j) for r in seen if r.energy_j is not None]
    if len(counter) > 1:
        return energy.within(counter, span)
    powers = [(r.at_s, r.power_w) for r in seen if r.power_w is not None]
    return energy.within(energy.integrated(powers), span)


def warnings(gpus: Sequence[GpuSummary]) -> Iterator[str]:
    """What of this spoils a measurement, in words."""
    for gpu in gpus:
        who = f"GPU {gpu.name} ({gpu.uuid})"
        for why, share in (gpu.slowed_share or {}).items():
            yield f"{who} was slowed for {100 * share:.0f} % of the time by {why}"
        if gpu.hottest_c is not None and gpu.hottest_c >= HOT_C:
            yield f"{who} reached {gpu.hottest_c:.0f} C: its clock may have been lowered"
        if gpu.persistence is False:
            yield f"{who} is not in persistence mode: sudo nvidia-smi -pm 1"
        if gpu.ecc_errors:
            yield f"{who} has {gpu.ecc_errors} errors of memory that could not be corrected"
