"""Print PyCUDA's values of all GPUs, in the lines of the program that nvcc compiles."""

from __future__ import annotations

import sys

AXES = ("X", "Y", "Z")


def version(number: int) -> str:
    """12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def main() -> int:
    """Print one block a device; 1 with the error of the driver where there is none."""
    import pycuda.driver as cuda

    try:
        cuda.init()
    except cuda.Error as problem:
        # The driver's API has codes of its own; no driver and no device are what users meet.
        print(f"error: 100 {problem}", file=sys.stderr)
        return 1
    runtime = ".".join(map(str, cuda.get_version()[:2]))
    for number in range(cuda.Device.count()):
        device = cuda.Device(number)
        of = device.get_attributes()
        names = cuda.device_attribute
        major, minor = device.compute_capability()
        lines = {
            "GPU Device ID": number,
            "GPU Name": device.name(),
            "GPU compute capability": f"{major}.{minor}",
            "CUDA driver version": version(cuda.get_driver_version()),
            "CUDA runtime version": runtime,
            "Global memory": device.total_memory(),
            "Max clock rate": f"{of[names.CLOCK_RATE] / 1000:f} MHz",
            "Total amount of shared memory per block": of[names.MAX_SHARED_MEMORY_PER_BLOCK],
            "Total number of registers available per block": of[names.MAX_REGISTERS_PER_BLOCK],
            "Warp size": of[names.WARP_SIZE],
            "Maximum number of threads per multiprocessor": of[
                names.MAX_THREADS_PER_MULTIPROCESSOR
            ],
            "Maximum number of threads per block": of[names.MAX_THREADS_PER_BLOCK],
        }
        for what, stem in (("thread block", "MAX_BLOCK_DIM"), ("grid size", "MAX_GRID_DIM")):
            for axis in AXES:
                label = f"Max dimension size of a {what} {axis}"
                lines[label] = of[getattr(names, f"{stem}_{axis}")]
        lines["PCI bus ID"] = device.pci_bus_id()
        lines["Number of multiprocessors"] = of[names.MULTIPROCESSOR_COUNT]
        lines["ECC"] = "on" if of[names.ECC_ENABLED] else "off"
        print("\n".join(f"{label}: {value}" for label, value in lines.items()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
