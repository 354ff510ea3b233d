"""A program: asks NVIDIA's management library (NVML) for driver and GPUs, and prints JSON.

It runs in a process of its own, since a library of a broken driver may crash, and imports nothing
but the standard library. Every GPU has the fields that ``nvidia-smi --query-gpu`` has, and ``mig``:
profile, number and UUID of every instance. Names, codes and structures are those of ``nvml.h``.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
ERRORS = {
    4: "Insufficient Permissions",
    6: "No devices were found",
    9: "Driver Not Loaded",
    12: "NVML Shared Library Not Found",
    15: "GPU is lost",
    17: "GPU access blocked by the operating system",
    18: "Driver/library version mismatch",
}
SM_CLOCK = 1
SWITCH = ("Disabled", "Enabled")


class Memory(ctypes.Structure):
    """``nvmlMemory_t``: bytes."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Pci(ctypes.Structure):
    """``nvmlPciInfo_t``."""

    _fields_ = [
        ("old_id", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "type", "subsystem")),
        ("bus_id", ctypes.c_char * 32),
    ]


class NvmlLibrary:
    """NVML, with an exception for failed calls."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``nvmlNAME``; raises ``OSError`` with the words of its error."""
        function = getattr(self._library, f"nvml{name}", None)
        status = 13 if function is None else function(*arguments)
        if status:
            raise OSError(ERRORS.get(status, f"nvml{name}: error {status}"))

    def number(self, name: str, *arguments: Any) -> int:
        """The number that the function puts into its last argument."""
        value = ctypes.c_uint()
        self.call(name, *arguments, ctypes.byref(value))
        return value.value

    def pair(self, name: str, device: Any) -> tuple[int, int]:
        """The two numbers that the function puts into its last arguments."""
        one, two = ctypes.c_int(), ctypes.c_int()
        self.call(name, device, ctypes.byref(one), ctypes.byref(two))
        return one.value, two.value

    def text(self, name: str, *device: Any) -> str:
        """The text that the function puts into its buffer."""
        buffer = ctypes.create_string_buffer(96)
        self.call(name, *device, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode(errors="replace")


def known(value: Any, *arguments: Any) -> str:
    """What the function gives, as a text; ``[N/A]`` where the GPU does not know it."""
    try:
        return str(value(*arguments))
    except OSError:
        return "[N/A]"


def gpu(nvml: NvmlLibrary, number: int) -> dict[str, Any]:
    """The fields of one GPU."""
    device = ctypes.c_void_p()
    nvml.call("DeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(device))
    memory, pci = Memory(), Pci()
    nvml.call("DeviceGetMemoryInfo", device, ctypes.byref(memory))
    nvml.call("DeviceGetPciInfo_v3", device, ctypes.byref(pci))
    numbers = {
        "pcie.link.gen.max": ("DeviceGetMaxPcieLinkGeneration", device),
        "pcie.link.width.max": ("DeviceGetMaxPcieLinkWidth", device),
        "clocks.max.sm": ("DeviceGetMaxClockInfo", device, ctypes.c_int(SM_CLOCK)),
    }
    milliwatts = known(nvml.number, "DeviceGetEnforcedPowerLimit", device)
    major, minor = nvml.pair("DeviceGetCudaComputeCapability", device)
    return {
        "index": str(number),
        "uuid": nvml.text("DeviceGetUUID", device),
        "pci.bus_id": pci.bus_id.decode(errors="replace"),
        "name": nvml.text("DeviceGetName", device),
        "memory.total": str(memory.total >> 20),
        "compute_cap": f"{major}.{minor}",
        **{name: known(nvml.number, *words) for name, words in numbers.items()},
        "power.limit": f"{int(milliwatts) / 1000:.2f}" if milliwatts.isdigit() else milliwatts,
        "persistence_mode": known(lambda: SWITCH[nvml.number("DeviceGetPersistenceMode", device)]),
        "ecc.mode.current": known(lambda: SWITCH[nvml.pair("DeviceGetEccMode", device)[0]]),
        "mig.mode.current": known(lambda: SWITCH[nvml.pair("DeviceGetMigMode", device)[0]]),
        "mig": list(instances(nvml, device)),
    }


def instances(nvml: NvmlLibrary, device: Any) -> Iterator[tuple[str, int, str, str]]:
    """Return profile, number, UUID, and GPU/compute instance of all MIG instances."""
    count = known(nvml.number, "DeviceGetMaxMigDeviceCount", device)
    for number in range(int(count) if count.isdigit() else 0):
        part = ctypes.c_void_p()
        try:
            place = (device, ctypes.c_uint(number), ctypes.byref(part))
            nvml.call("DeviceGetMigDeviceHandleByIndex", *place)
        except OSError:
            continue  # no instance in this place
        name = nvml.text("DeviceGetName", part)
        profile = re.search(r"\bMIG (\S+)", name)
        kinds = ("DeviceGetGpuInstanceId", "DeviceGetComputeInstanceId")
        ids = "/".join(known(nvml.number, kind, part) for kind in kinds)
        uuid = nvml.text("DeviceGetUUID", part)
        yield profile[1] if profile else name, number, uuid, "" if "N/A" in ids else ids


def describe_driver() -> dict[str, Any]:
    """Return the driver, newest CUDA and GPUs; raise ``OSError``."""
    nvml = NvmlLibrary()
    nvml.call("Init_v2")
    cuda = nvml.number("SystemGetCudaDriverVersion_v2")
    driver = nvml.text("SystemGetDriverVersion")
    gpus = [gpu(nvml, number) for number in range(nvml.number("DeviceGetCount_v2"))]
    if not gpus:
        raise OSError(ERRORS[6])
    for one in gpus:
        one["driver_version"] = driver
    return {"driver": driver, "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}", "gpus": gpus}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(describe_driver()))
    except OSError as problem:
        sys.exit(str(problem))
