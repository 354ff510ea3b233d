"""The GPUs that CUDA shows to this process, by the driver itself. Not verified on hardware."""

from __future__ import annotations

import ctypes

from ..errors import HarnessError

LIBRARY = "libcuda.so.1"
LONGEST_NAME = 256


def gpu_names(library: str = LIBRARY) -> list[str]:
    """Return the names of the GPUs in CUDA's order; raise HarnessError without a driver."""
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        raise HarnessError(f"the GPUs cannot be listed: {error}") from error
    count = ctypes.c_int()
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        raise HarnessError(f"the GPUs cannot be listed: CUDA's driver answers with {status}")
    return [_name(driver, number) for number in range(count.value)]


def _name(driver: ctypes.CDLL, number: int) -> str:
    device, name = ctypes.c_int(), ctypes.create_string_buffer(LONGEST_NAME)
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(name, LONGEST_NAME, device)
    return name.value.decode(errors="replace")
