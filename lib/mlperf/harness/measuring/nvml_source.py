"""Readings of NVIDIA's GPUs by their management library (NVML).

Names, codes and bits are those of ``nvml.h``. ``nvidia-smi`` would take a tenth of a second of a
core per call.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .gpu import GpuReading, GpuSummary
from .gpu_log import GpuLog, NoTelemetryError

LIBRARY = "libnvidia-ml.so.1"
GPU_SENSOR = VOLATILE = 0
SM_CLOCK = UNCORRECTED = 1
GPU_IS_LOST = 15
# nvmlClocksThrottleReason: what slows a GPU down though it has work.
REASONS = {
    0x04: "its power limit",
    0x08: "a hardware slowdown (heat or power)",
    0x10: "other GPUs that it keeps step with",
    0x20: "its temperature limit",
    0x40: "a hardware slowdown by heat",
    0x80: "an external power brake",
}


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class NvmlSource:
    """The GPUs of this machine that CUDA shows to this process, or some of them by number."""

    def __init__(self, library: str = LIBRARY, numbers: Sequence[int] | None = None) -> None:
        self._path = library
        self._numbers = numbers
        self._nvml: Any = None
        self._is_lost = False

    def follow(self, stop: threading.Event, log: GpuLog, interval_s: float) -> None:
        """See ``gpu_watch.GpuSource``."""
        devices = list(self._opened())
        for number, device in enumerate(devices):
            log.know(str(number), self._summary(device))
        while True:
            for number, device in enumerate(devices):
                log.add(str(number), self._reading(device))
            if self._is_lost:
                raise NoTelemetryError("NVML says that the GPU is lost")
            if stop.wait(interval_s):
                break
        for number, device in enumerate(devices):
            log.add(str(number), self._reading(device))
            log.know(str(number), replace(log.summary(str(number)), ecc_errors=self._ecc(device)))

    def close(self) -> None:
        """See ``gpu_watch.GpuSource``: nothing to end."""

    def _opened(self) -> Iterator[ctypes.c_void_p]:
        """Yield the GPUs; raises NoTelemetryError without any."""
        try:
            self._nvml = ctypes.CDLL(self._path)
        except OSError as error:
            raise NoTelemetryError(
                f"{LIBRARY} cannot be loaded: is the driver installed?"
            ) from error
        if status := self._nvml.nvmlInit_v2():
            raise NoTelemetryError(f"NVML answers with error {status}")
        devices = list(self._all())
        if not devices:
            raise NoTelemetryError("NVML knows no GPU")
        shown = self._visible(devices)
        used = range(len(shown)) if self._numbers is None else self._numbers
        yield from [shown[number] for number in used if number < len(shown)]

    def _all(self) -> Iterator[ctypes.c_void_p]:
        count = ctypes.c_uint()
        self._nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for number in range(count.value):
            device = ctypes.c_void_p()
            index = ctypes.c_uint(number)
            if self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0:
                yield device

    def _visible(self, devices: Sequence[ctypes.c_void_p]) -> Sequence[ctypes.c_void_p]:
        """Return the devices that CUDA_VISIBLE_DEVICES names; all where it cannot be followed."""
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        if not named:
            return devices
        chosen: dict[str, ctypes.c_void_p] = {}
        for word in (part.strip() for part in named.split(",")):
            own = self._named(word, devices)
            if not own:
                break  # CUDA shows nothing behind a word that names no GPU
            # Two words for one GPU, such as two of its MIG instances, are one set of sensors.
            chosen |= {self._text("UUID", one): one for one in own}
        return list(chosen.values()) or devices

    def _named(self, word: str, devices: Sequence[ctypes.c_void_p]) -> Sequence[ctypes.c_void_p]:
        if word.startswith("MIG-"):
            return self._parent(word)
        if word.isdigit():
            return devices[int(word) : int(word) + 1]
        return [one for one in devices if word and self._text("UUID", one).startswith(word)]

    def _parent(self, uuid: str) -> list[ctypes.c_void_p]:
        """Return the GPU of a MIG instance, which alone has sensors."""
        part, whole = ctypes.c_void_p(), ctypes.c_void_p()
        find = getattr(self._nvml, "nvmlDeviceGetHandleByUUID", None)
        if find is None or find(uuid.encode(), ctypes.byref(part)):
            return []
        of = getattr(self._nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", None)
        return [] if of is None or of(part, ctypes.byref(whole)) else [whole]

    def _summary(self, device: Any) -> GpuSummary:
        persistence = self._number("PersistenceMode", device)
        return GpuSummary(
            uuid=self._text("UUID", device),
            name=self._text("Name", device),
            persistence=None if persistence is None else bool(persistence),
        )

    def _reading(self, device: Any) -> GpuReading:
        milliwatts = self._number("PowerUsage", device)
        millijoules = self._number("TotalEnergyConsumption", device, kind=ctypes.c_ulonglong)
        memory, utilization = _Memory(), _Utilization()
        known = self._query("MemoryInfo", device, memory)
        has_utilization = self._query("UtilizationRates", device, utilization)
        reasons = self._number("CurrentClocksThrottleReasons", device, kind=ctypes.c_ulonglong)
        return GpuReading(
            at_s=time.monotonic(),
            clock_mhz=self._number("ClockInfo", device, SM_CLOCK),
            temperature_c=self._number("Temperature", device, GPU_SENSOR),
            power_w=None if milliwatts is None else milliwatts / 1000,
            memory_bytes=int(memory.used) if known else None,
            busy=utilization.gpu / 100 if has_utilization else None,
            energy_j=None if millijoules is None else millijoules / 1000,
            reasons=tuple(why for bit, why in REASONS.items() if (reasons or 0) & bit),
        )

    def _number(self, what: str, device: Any, *words: int, kind: Any = ctypes.c_uint) -> int | None:
        value = kind()
        return int(value.value) if self._query(what, device, value, *words) else None

    def _query(self, what: str, device: Any, target: Any, *words: int) -> bool:
        function = getattr(self._nvml, f"nvmlDeviceGet{what}", None)
        if function is None:
            return False
        status = function(device, *map(ctypes.c_uint, words), ctypes.byref(target))
        self._is_lost = self._is_lost or status == GPU_IS_LOST
        return bool(status == 0)

    def _text(self, what: str, device: Any) -> str:
        buffer = ctypes.create_string_buffer(96)
        function = getattr(self._nvml, f"nvmlDeviceGet{what}")
        succeeded = function(device, buffer, ctypes.c_uint(len(buffer))) == 0
        return buffer.value.decode(errors="replace") if succeeded else ""

    def _ecc(self, device: Any) -> int | None:
        words = (UNCORRECTED, VOLATILE)
        return self._number("TotalEccErrors", device, *words, kind=ctypes.c_ulonglong)
