"""Energy counters of processors and NVIDIA devices, where this user may read them.

They are telemetry: what the machine says of itself, not a measurement by the power rules.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
NVML = "libnvidia-ml.so.1"


def counters(powercap: Path = POWERCAP) -> dict[str, tuple[float, float]]:
    """By name: joules so far, and at how many joules the counter starts again (0: never)."""
    return {**_rapl(powercap), **_nvml()}


def used(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]]
) -> dict[str, float]:
    """Joules between two readings of ``counters``; a counter may have started again once."""
    by_source = {}
    for name, (end, turn) in after.items():
        if name in before:
            joules = end - before[name][0]
            by_source[name] = round(joules + turn if joules < 0 else joules, 3)
    return {name: joules for name, joules in by_source.items() if joules >= 0}


def _rapl(folder: Path) -> dict[str, tuple[float, float]]:
    counters = {}
    for zone in sorted(folder.glob("intel-rapl:*")):
        try:
            name = (zone / "name").read_text(encoding="utf-8").strip()
            joules = int((zone / "energy_uj").read_text(encoding="utf-8")) / 1e6
            turn = int((zone / "max_energy_range_uj").read_text(encoding="utf-8")) / 1e6
        except (OSError, ValueError):
            continue  # since 2020 most kernels show these only to root
        place = zone.name.removeprefix("intel-rapl:")
        counters[f"rapl {place} {name}"] = (joules, turn)
    return counters


def _nvml() -> dict[str, tuple[float, float]]:
    """Millijoules since the driver was loaded, by NVIDIA's management library."""
    try:
        library = ctypes.CDLL(NVML)
    except OSError:
        return {}
    if library.nvmlInit_v2() != 0:
        return {}
    counters = {}
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        count.value = 0
    for number in range(count.value):
        device, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
        known = library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)) == 0
        if known and not library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)):
            counters[f"nvml {number}"] = (energy.value / 1000, 0.0)
    library.nvmlShutdown()
    return counters
