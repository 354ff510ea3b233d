"""The state of GPUs during a run, sampled with NVIDIA's management library (NVML).

Names, codes and bits are those of ``nvml.h``. It is loaded into this process, which only watches
the one that computes; and only where a backend has found its GPU, so that there is a driver that
works. ``nvidia-smi`` would take a tenth of a second of a core per call. Not verified on
hardware.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
GPU_SENSOR = VOLATILE = 0
SM_CLOCK = UNCORRECTED = 1
# nvmlClocksThrottleReason: what slows a GPU down though it has work.
REASONS = {
    0x04: "its power limit",
    0x08: "a hardware slowdown (heat or power)",
    0x10: "other GPUs that it keeps step with",
    0x20: "its temperature limit",
    0x40: "a hardware slowdown by heat",
    0x80: "an external power brake",
}
HOT_C = 85


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A reading of one GPU; None where the driver reports none. MHz, W, degrees Celsius, bytes."""

    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    memory_bytes: int | None = None
    reasons: int = 0


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


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class GpuWatch:
    """The GPUs of this machine while a run goes on; without NVML it sees none."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._nvml: Any = None
        self._devices: list[ctypes.c_void_p] = []
        self._seen: list[list[GpuReading]] = []
        try:
            self._nvml = ctypes.CDLL(library)
        except OSError:
            return
        if self._nvml.nvmlInit_v2() == 0:
            self._devices = list(self._all())
            self._seen = [[] for _ in self._devices]

    def _all(self) -> Iterator[ctypes.c_void_p]:
        count = ctypes.c_uint()
        self._nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for number in range(count.value):
            device = ctypes.c_void_p()
            index = ctypes.c_uint(number)
            if self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0:
                yield device

    def look(self) -> None:
        """Take a reading of every GPU."""
        for device, seen in zip(self._devices, self._seen, strict=True):
            seen.append(self._reading(device))

    def _reading(self, device: Any) -> GpuReading:
        milliwatts = self._number("PowerUsage", device)
        memory = _Memory()
        known = self._query("MemoryInfo", device, memory)
        reasons = self._number("CurrentClocksThrottleReasons", device, kind=ctypes.c_ulonglong)
        return GpuReading(
            clock_mhz=self._number("ClockInfo", device, SM_CLOCK),
            temperature_c=self._number("Temperature", device, GPU_SENSOR),
            power_w=None if milliwatts is None else milliwatts / 1000,
            memory_bytes=int(memory.used) if known else None,
            reasons=reasons or 0,
        )

    def _number(self, what: str, device: Any, *words: int, kind: Any = ctypes.c_uint) -> int | None:
        value = kind()
        return int(value.value) if self._query(what, device, value, *words) else None

    def _query(self, what: str, device: Any, target: Any, *words: int) -> bool:
        function = getattr(self._nvml, f"nvmlDeviceGet{what}", None)
        numbers = [ctypes.c_uint(word) for word in words]
        return function is not None and function(device, *numbers, ctypes.byref(target)) == 0

    def _text(self, what: str, device: Any) -> str:
        buffer = ctypes.create_string_buffer(96)
        function = getattr(self._nvml, f"nvmlDeviceGet{what}")
        succeeded = function(device, buffer, ctypes.c_uint(len(buffer))) == 0
        return buffer.value.decode(errors="replace") if succeeded else ""

    def finish(self) -> tuple[GpuSummary, ...]:
        """Return the summaries of the GPUs."""
        return tuple(
            summed(
                GpuSummary(
                    uuid=self._text("UUID", device),
                    name=self._text("Name", device),
                    persistence=_yes(self._number("PersistenceMode", device)),
                    ecc_errors=self._ecc(device),
                ),
                seen,
            )
            for device, seen in zip(self._devices, self._seen, strict=True)
        )

    def _ecc(self, device: Any) -> int | None:
        words = (UNCORRECTED, VOLATILE)
        return self._number("TotalEccErrors", device, *words, kind=ctypes.c_ulonglong)


def _yes(number: int | None) -> bool | None:
    return None if number is None else bool(number)


def summed(gpu: GpuSummary, seen: Sequence[GpuReading]) -> GpuSummary:
    """Return a GPU with what its readings come to."""
    clocks = [r.clock_mhz for r in seen if r.clock_mhz is not None]
    powers = [r.power_w for r in seen if r.power_w is not None]
    slowed = {why: sum(bool(r.reasons & bit) for r in seen) for bit, why in REASONS.items()}
    return replace(
        gpu,
        looks=len(seen),
        least_clock_mhz=min(clocks, default=None),
        mean_clock_mhz=round(sum(clocks) / len(clocks), 1) if clocks else None,
        most_clock_mhz=max(clocks, default=None),
        hottest_c=max((r.temperature_c for r in seen if r.temperature_c is not None), default=None),
        mean_power_w=round(sum(powers) / len(powers), 1) if powers else None,
        most_memory_bytes=max((r.memory_bytes for r in seen if r.memory_bytes), default=None),
        slowed_share={why: round(n / len(seen), 3) for why, n in slowed.items() if n},
    )


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
