"""GPUs during a run: by a library with NVML's functions that is made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

import cuda_lab
from mlperf.harness import records
from mlperf.harness.measuring import gpu
from mlperf.harness.measuring.gpu import GpuReading, GpuSummary
from mlperf.harness.measuring.telemetry import Monitor, Telemetry

NUMBER = "(void *device, unsigned *value)"
WORD = "(void *device, unsigned word, unsigned *value)"
TEXT = "(void *device, char *text, unsigned size)"
CALLS = {
    "int nvmlInit_v2(void)": "return 0;",
    "int nvmlDeviceGetCount_v2(unsigned *value)": "*value = 1; return 0;",
    "int nvmlDeviceGetHandleByIndex_v2(unsigned n, void **device)": "*device = &device; return 0;",
    f"int nvmlDeviceGetUUID{TEXT}": '__builtin_strcpy(text, "GPU-1"); return 0;',
    f"int nvmlDeviceGetName{TEXT}": '__builtin_strcpy(text, "Tesla T4"); return 0;',
    f"int nvmlDeviceGetPowerUsage{NUMBER}": "*value = 69500; return 0;",
    f"int nvmlDeviceGetPersistenceMode{NUMBER}": "*value = 0; return 0;",
    f"int nvmlDeviceGetClockInfo{WORD}": "*value = word == 1 ? 1590 : 7; return 0;",
    f"int nvmlDeviceGetTemperature{WORD}": "*value = word == 0 ? 86 : 7; return 0;",
    "int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *v)": (
        "v[0] = 16; v[1] = 4; v[2] = 12; return 0;"
    ),
    "int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *v)": (
        "*v = 0x24; return 0;"
    ),
    # A T4 in WSL does not tell, and another driver does not have it.
    "int nvmlDeviceGetTotalEccErrors(void *d, unsigned a, unsigned b, unsigned long long *v)": (
        "return 3;"
    ),
}


def test_what_a_gpu_tells_is_recorded_and_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = cuda_lab.library(tmp_path / "libnvidia-ml.so.1", CALLS)
    watch = gpu.GpuWatch
    monkeypatch.setattr(gpu, "GpuWatch", lambda: watch(str(library)))
    monitor = Monitor("cuda")
    monitor.sample()
    found = monitor.finish()
    (card,) = found.gpus
    assert (card.uuid, card.name, card.looks) == ("GPU-1", "Tesla T4", 1)
    assert (card.mean_clock_mhz, card.hottest_c, card.mean_power_w) == (1590, 86, 69.5)
    assert (card.most_memory_bytes, card.persistence, card.ecc_errors) == (12, False, None)
    said = "; ".join(found.warnings)
    for text in ("its power limit", "its temperature limit", "86 C", "persistence mode"):
        assert text in said
    assert records.decode(Telemetry, records.encode(found)) == found


def test_without_the_library_there_are_none_and_nothing_is_written(tmp_path: Path) -> None:
    assert gpu.GpuWatch(str(tmp_path / "none.so")).finish() == ()
    assert "gpus" not in records.encode(Monitor().finish())


def test_readings_are_summed_up() -> None:
    seen = [GpuReading(1000, 60, 50, 5), GpuReading(1500, 70, 70, 9, 0x4), GpuReading(reasons=0x1)]
    found = gpu.summed(GpuSummary("u", "n"), seen)
    assert (found.least_clock_mhz, found.mean_clock_mhz, found.most_clock_mhz) == (1000, 1250, 1500)
    assert (found.hottest_c, found.mean_power_w, found.most_memory_bytes) == (70, 60, 9)
    assert found.slowed_share == {"its power limit": 0.333}, "being idle slows nobody down"
    assert gpu.summed(GpuSummary("u", "n"), []).mean_clock_mhz is None
    (said,) = gpu.warnings([GpuSummary("u", "n", ecc_errors=2)])
    assert said.endswith("not be corrected")
