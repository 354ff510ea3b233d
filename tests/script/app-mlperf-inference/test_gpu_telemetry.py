"""GPUs during a run: by a library with NVML's functions, and tools that print recorded lines."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import cuda_lab
from mlperf.harness import records
from mlperf.harness.jobs import SourceEnergy
from mlperf.harness.measuring import energy, gpu, gpu_users, gpu_watch
from mlperf.harness.measuring.gpu import GpuReading, GpuSummary
from mlperf.harness.measuring.gpu_log import GpuLog, NoTelemetryError
from mlperf.harness.measuring.gpu_watch import GpuWatch
from mlperf.harness.measuring.nvml_source import NvmlSource
from mlperf.harness.measuring.smi_source import AMD, INTEL, SmiSource, SmiTable, SmiTool
from mlperf.harness.measuring.telemetry import Monitor, Telemetry
from steps import tool

NUMBER = "(void *device, unsigned *value)"
WORD = "(void *device, unsigned word, unsigned *value)"
TEXT = "(void *device, char *text, unsigned size)"
CALLS = {
    "int nvmlInit_v2(void)": "return 0;",
    "int nvmlDeviceGetCount_v2(unsigned *value)": "*value = 2; return 0;",
    "int nvmlDeviceGetHandleByIndex_v2(unsigned long n, void **device)": (
        "*device = (void *)(n + 1); return 0;"
    ),
    f"int nvmlDeviceGetUUID{TEXT}": (
        '__builtin_strcpy(text, device == (void *)1 ? "GPU-1" : "GPU-2"); return 0;'
    ),
    f"int nvmlDeviceGetName{TEXT}": '__builtin_strcpy(text, "Tesla T4"); return 0;',
    f"int nvmlDeviceGetPowerUsage{NUMBER}": "*value = 69500; return 0;",
    f"int nvmlDeviceGetPersistenceMode{NUMBER}": "*value = 0; return 0;",
    f"int nvmlDeviceGetClockInfo{WORD}": "*value = word == 1 ? 1590 : 7; return 0;",
    f"int nvmlDeviceGetTemperature{WORD}": "*value = word == 0 ? 86 : 7; return 0;",
    "int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *v)": (
        "v[0] = 16; v[1] = 4; v[2] = 12; return 0;"
    ),
    "int nvmlDeviceGetUtilizationRates(void *device, unsigned *v)": (
        "v[0] = 62; v[1] = 20; return 0;"
    ),
    "int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *v)": (
        "*v = 0x24; return 0;"
    ),
    # A T4 in WSL does not tell, and another driver does not have it.
    "int nvmlDeviceGetTotalEccErrors(void *d, unsigned a, unsigned b, unsigned long long *v)": (
        "return 3;"
    ),
    "int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)": (
        '*device = (void *)9; return __builtin_strcmp(uuid, "MIG-a") ? 6 : 0;'
    ),
    "int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *part, void **device)": (
        "*device = (void *)2; return part != (void *)9;"
    ),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(cuda_lab.library(tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1", CALLS))


def test_what_a_gpu_tells_is_recorded_and_warned_of(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setitem(gpu_watch.SOURCES, "cuda", lambda numbers: NvmlSource(library))  # type: ignore[arg-type]
    began = time.monotonic()
    monitor = Monitor("cuda")
    monitor.sample()
    span = (began, time.monotonic() + 1)
    seen = monitor.finish(span)
    joules = monitor.energy(span, 10, seen.gpus)
    (card,) = seen.gpus
    assert (card.uuid, card.name, card.looks) == ("GPU-1", "Tesla T4", 2)
    assert (card.mean_clock_mhz, card.hottest_c, card.mean_power_w) == (1590, 86, 69.5)
    assert (card.most_memory_bytes, card.persistence, card.ecc_errors) == (12, False, None)
    assert (card.mean_busy, card.peak_power_w) == (0.62, 69.5)
    said = "; ".join(seen.warnings)
    for text in ("its power limit", "its temperature limit", "86 C", "persistence mode"):
        assert text in said
    assert "busy 62 %" in card.in_words()
    assert "at most 70" in card.in_words()
    assert joules is not None
    assert joules.sources["GPU"].mean_w == pytest.approx(69.5, rel=0.01)
    assert records.decode(Telemetry, records.encode(seen)) == seen


@pytest.mark.parametrize(
    ("shown", "uuids"),
    [
        ("", ["GPU-1", "GPU-2"]),
        ("1", ["GPU-2"]),
        ("GPU-2,GPU-1", ["GPU-2", "GPU-1"]),
        ("MIG-a", ["GPU-2"]),  # the GPU that the instance is a part of has the sensors
        ("MIG-a,MIG-a", ["GPU-2"]),  # once, or its energy would count twice
        ("1,1", ["GPU-2"]),
        ("1,-1,0", ["GPU-2"]),  # what follows a word that names none is hidden
        ("1,", ["GPU-2"]),
        ("MIG-gone", ["GPU-1", "GPU-2"]),
    ],
)
def test_only_the_gpus_that_cuda_shows_are_read(
    library: str, monkeypatch: pytest.MonkeyPatch, shown: str, uuids: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    watch = GpuWatch(NvmlSource(library))
    assert [card.uuid for card in watch.finish()] == uuids


def test_only_the_gpus_that_a_run_uses_are_read(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    for numbers, uuids in (((0,), ["GPU-2"]), ((1, 0), ["GPU-1", "GPU-2"]), ((7,), [])):
        watch = GpuWatch(NvmlSource(library, numbers))
        assert [card.uuid for card in watch.finish()] == uuids
    # Of those that AMD's driver shows, the second.
    assert SmiSource(AMD, "2,5", (1,))._shown == {"5"}
    assert SmiSource(AMD, "", (1,))._shown == {"1"}


def test_without_the_library_the_run_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = str(tmp_path / "none.so")
    monkeypatch.setitem(gpu_watch.SOURCES, "cuda", lambda numbers: NvmlSource(missing))  # type: ignore[arg-type]
    seen = Monitor("cuda").finish()
    assert seen.gpus == ()
    (said,) = [text for text in seen.warnings if "telemetry" in text]
    assert said.startswith("no telemetry of the GPU: libnvidia-ml.so.1 cannot be loaded")
    assert "gpus" not in records.encode(Monitor().finish())


def test_readings_are_summed_up() -> None:
    why = ("its power limit",)
    seen = [
        GpuReading(0, 1000, 60, 50, 5),
        GpuReading(2, 1500, 70, 70, 9, reasons=why),
        GpuReading(4),
    ]
    summary = gpu.summed(GpuSummary("u", "n"), seen)
    clocks = summary.least_clock_mhz, summary.mean_clock_mhz, summary.most_clock_mhz
    assert clocks == (1000, 1250, 1500)
    assert (summary.hottest_c, summary.mean_power_w, summary.most_memory_bytes) == (70, 60, 9)
    assert (summary.peak_power_w, summary.energy_j) == (70, 120), "60 W for two seconds"
    assert summary.slowed_share == {"its power limit": 0.333}
    assert gpu.summed(GpuSummary("u", "n"), seen, (1.0, 3.0)).looks == 1
    assert gpu.summed(GpuSummary("u", "n"), []).mean_clock_mhz is None
    (said,) = gpu.warnings([GpuSummary("u", "n", ecc_errors=2)])
    assert said.endswith("not be corrected")


def test_energy_is_that_between_the_first_query_and_the_last_answer() -> None:
    course = [(0.0, 0.0), (10.0, 100.0), (20.0, 400.0)]
    assert energy.within(course, (5.0, 15.0)) == 200
    assert energy.within(course, (10.0, 21.0)) == 330, "it went on as in the last interval"
    assert energy.within(course, None) == 400
    assert energy.within(course[:1], (0.0, 1.0)) is None
    card = SourceEnergy(150.0, 15.0, 20.0)
    of_run = energy.of_run((5.0, 15.0), 100, [course], {"GPU": card})
    assert of_run is not None
    assert (of_run.per_sample_j, of_run.mean_w) == (3.5, 35.0)
    assert of_run.in_words() == "3.5 J a sample, GPU 15 W (at most 20), CPU 20 W"
    assert energy.of_run((5.0, 15.0), 100, [], {}) is None
    assert energy.of_run((5.0, 15.0), 0, [course], {}) is None


def test_cores_are_not_counted_beside_their_package() -> None:
    meter = energy.EnergyMeter()
    names = ("rapl 0 package-0", "rapl 0:0 core", "rapl 0:2 dram", "rapl 1 psys")
    for at, joules in ((0.0, 95.0), (1.0, 99.0), (2.0, 3.0)):
        meter.add(at, dict.fromkeys(names, (joules, 100.0)))
    assert meter.total() == dict.fromkeys(names, 8.0), "a counter has started again"
    assert [points[-1] for points in meter.whole()] == [(2.0, 8.0)] * 2


def test_a_gpu_that_is_lost_is_named(tmp_path: Path) -> None:
    calls = CALLS | {f"int nvmlDeviceGetPowerUsage{NUMBER}": "return 15;"}
    lost = cuda_lab.library(tmp_path / "libnvidia-ml.so.1", calls)
    watch = GpuWatch(NvmlSource(str(lost)), interval_s=600)
    assert [card.mean_clock_mhz for card in watch.finish()] == [1590, 1590]
    assert watch.missing == "NVML says that the GPU is lost"


# ---------------------------------------------------------------- who else is there

# As nvidia-smi of driver 580 prints them.
GPU_ROWS = "0, GPU-ef6ef310, 61340, 81559, 98\n1, GPU-11112222, 4, 81559, 0\n"
APP_ROWS = (
    "GPU-ef6ef310, 4711, /opt/conda/bin/python, 61330\nGPU-ef6ef310, 4712, [Not Found], [N/A]\n"
)


def smi_answers(folder: Path, gpus: str, apps: str) -> str:
    body = f"case $1 in --query-gpu*) printf '{gpus}';; *) printf '{apps}';; esac"
    tool(folder / "nvidia-smi", body.replace("\n", "\\n"))
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("gpus", "apps", "shown", "said"),
    [
        (GPU_ROWS, APP_ROWS, "", "python (process 4711, 61330 MiB), [Not Found] (process 4712,"),
        (GPU_ROWS, "", "0", "processes that nvidia-smi does not name here; 61340 of 81559 MiB"),
        (GPU_ROWS, APP_ROWS, "GPU-1111", ""),
        ("No devices were found\n", APP_ROWS, "", ""),
    ],
)
def test_who_uses_a_gpu_is_said_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: str, apps: str, shown: str, said: str
) -> None:
    monkeypatch.setenv("PATH", smi_answers(tmp_path, gpus, apps))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    notes = list(gpu_users.notes("cuda"))
    assert len(notes) == bool(said)
    assert said in "".join(notes)
    assert list(gpu_users.notes("cpu")) == []


@pytest.mark.parametrize(
    ("gpus", "shown", "free_mib"),
    [(GPU_ROWS, "", 81555), (GPU_ROWS, "0", 20219), ("0, GPU-1, [N/A], [N/A], 0\n", "", None)],
)
def test_the_memory_that_is_free_is_that_of_the_gpu_with_most_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: str, shown: str, free_mib: int | None
) -> None:
    monkeypatch.setenv("PATH", smi_answers(tmp_path, gpus, ""))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert gpu_users.most_free_bytes("cuda") == (free_mib and free_mib << 20)
    assert gpu_users.most_free_bytes("cpu") is None


def test_without_nvidia_smi_nobody_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(gpu_users.notes("cuda")) == []
    assert gpu_users.most_free_bytes("cuda") is None


# ---------------------------------------------------------------- tools of AMD and Intel

# Headings as in the source of amd-smi and the users' guide of xpu-smi, with values of two GPUs.
AMD_LINES = """\
timestamp,gpu,xcp,power_usage,max_power,hotspot_temperature,memory_temperature,gfx_clk,gfx,mem,\
mem_clock,vram_used,vram_free,vram_total,vram_percent,pviol,tviol,phot_tviol,vr_tviol,hbm_tviol
1740686195,0,0,412,750,61,45,1890,97,31,1300,81920,114688,196608,41.67,12,0,N/A,0,0
1740686195,1,0,131,750,40,38,132,0,0,900,283,196325,196608,0.14,0,0,N/A,0,0
"""
INTEL_LINES = """\
Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Frequency (MHz), GPU Core \
Temperature (Celsius Degree), GPU Energy Consumed (J), GPU Memory Used (MiB), Throttle reason
14:32:57.448,    0, 93.10, 106.60, 1550, 64.0, 1000.5, 2048.02, Thermal
14:32:57.449,    1, N/A, 105.25,    0,  N/A, N/A, 28.02, Not Throttled
"""


def readings(tool_of: SmiTool, text: str) -> dict[str, GpuReading]:
    table = SmiTable(tool_of)
    return dict(row for line in text.splitlines() if (row := table.reading(line)))


def test_lines_of_amd_smi_are_readings() -> None:
    seen = readings(AMD, AMD_LINES)
    one = seen["0"]
    assert (one.power_w, one.temperature_c, one.clock_mhz, one.busy) == (412, 61, 1890, 0.97)
    assert (one.memory_bytes, one.reasons) == (81920 * 2**20, ("its power limit",))
    assert seen["1"].reasons == ()


def test_lines_of_xpu_smi_are_readings() -> None:
    seen = readings(INTEL, INTEL_LINES)
    one, two = seen["0"], seen["1"]
    assert (one.power_w, one.temperature_c, one.clock_mhz) == (106.6, 64, 1550)
    assert one.busy == pytest.approx(0.931)
    assert (one.energy_j, one.reasons) == (1000.5, ("thermal",))
    assert (two.busy, two.temperature_c, two.reasons) == (None, None, ())


def test_older_headings_and_units_are_understood() -> None:
    old = "TIMESTAMP,GPU,POWER,GPU_T,GFX_CLOCK,GFX_UTIL,VRAM_USED\n1,0,8 W,28 C,500 MHz,3 %,16 MB\n"
    assert readings(AMD, old)["0"].power_w == 8
    assert readings(AMD, "WARNING: a line\n" + AMD_LINES).keys() == {"0", "1"}
    assert readings(AMD, "ERROR\n[{}]\n1,2\n") == {}


def smi(folder: Path, body: str) -> SmiTool:
    path = tool(folder / "some-smi", body)
    return SmiTool(((str(path), "-w", "{interval}"),), AMD.key, AMD.columns, AMD.violations)


def test_a_tool_is_read_while_it_runs(tmp_path: Path) -> None:
    body = f"cat <<'END'\n{AMD_LINES}END\nexec sleep 600\n"
    watch = GpuWatch(SmiSource(smi(tmp_path, body), shown="0"))
    deadline = time.monotonic() + 20
    while watch.missing and time.monotonic() < deadline:
        time.sleep(0.01)
    (card,) = watch.finish()
    assert (card.uuid, card.mean_power_w, watch.missing) == ("0", 412, "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo no device was found >&2; exit 1", "ended with status 1: no device was found"),
        ("echo '[{}]'", "printed no values: [{}]"),
        ("exit 0", "printed no values"),
    ],
)
def test_a_tool_that_fails_leaves_the_reason(tmp_path: Path, body: str, reason: str) -> None:
    with pytest.raises(NoTelemetryError, match="some-smi") as raised:
        SmiSource(smi(tmp_path, body)).follow(threading.Event(), GpuLog(), 1)
    assert str(raised.value).endswith(reason)


def test_a_tool_that_hangs_or_lacks_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = GpuWatch(SmiSource(smi(tmp_path, "exec sleep 600")))
    assert watch.finish() == ()
    assert watch.missing
    monkeypatch.setenv("PATH", str(tmp_path))
    lacks = GpuWatch(SmiSource(AMD))
    assert lacks.finish() == ()
    assert "amd-smi cannot be started" in lacks.missing


def test_a_library_that_hangs_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_watch, "PATIENCE_S", 0.01)

    class Hanging:
        def follow(self, stop: threading.Event, log: GpuLog, interval_s: float) -> None:
            stop.wait()
            time.sleep(2)

        def close(self) -> None: ...

    began = time.monotonic()
    watch = GpuWatch(Hanging())
    assert watch.finish() == ()
    assert time.monotonic() - began < 2
    assert watch.missing == "the tool gave no reading"
