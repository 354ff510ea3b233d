"""What the machine says of itself, from files as the kernel writes them, and what spoils a run."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlperf.harness import host
from mlperf.harness.measuring import contention, energy, telemetry
from mlperf.harness.measuring.telemetry import Monitor, SampledRange, Telemetry
from mlperf.harness.pipeline import recorder
from mlperf.harness.pipeline.recorder import Latencies, ThroughputRecorder


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two CPUs, one sensor, one counter of energy and one NUMA node."""
    for cpu, clock in ((0, 3_000_000), (1, 1_500_000)):
        put(tmp_path / f"cpu/cpu{cpu}/cpufreq/scaling_governor", "powersave\n")
        put(tmp_path / f"cpu/cpu{cpu}/cpufreq/scaling_cur_freq", f"{clock}\n")
    put(tmp_path / "node/node0/cpulist", "0-1\n")
    put(tmp_path / "node/node1/cpulist", "\n")  # memory of a GPU
    put(tmp_path / "thermal/thermal_zone0/temp", "95000\n")
    put(tmp_path / "huge", "always [madvise] never\n")
    put(tmp_path / "meminfo", "MemTotal: 1000000 kB\nMemAvailable:   20000 kB\n")
    put(tmp_path / "stat", "cpu  100 0 50 800 10 0 0 0 0 0\ncpu0 1 2\n")
    zone = tmp_path / "powercap/intel-rapl:0"
    put(zone / "name", "package-0\n")
    put(zone / "energy_uj", "5000000\n")
    put(zone / "max_energy_range_uj", "100000000\n")
    for name, place in (
        ("CPUS", "cpu"),
        ("NODES", "node"),
        ("HUGE_PAGES", "huge"),
        ("THERMAL", "thermal"),
        ("SENSORS", "none"),
        ("STAT", "stat"),
        ("CPUINFO", "none"),
    ):
        monkeypatch.setattr(telemetry, name, tmp_path / place)
    monkeypatch.setattr(contention, "PROC", tmp_path / "none")
    monkeypatch.setattr(host, "MEMINFO", tmp_path / "meminfo")
    counters = energy.counters
    monkeypatch.setattr(energy, "counters", lambda: counters(tmp_path / "powercap"))
    monkeypatch.setattr(host, "load_average", lambda: 3.0)
    monkeypatch.setattr(host, "usable_cores", lambda: 2)
    return tmp_path


def test_everything_readable_is_recorded(machine: Path) -> None:
    monitor = Monitor()
    monitor.sample()
    put(machine / "stat", "cpu  190 0 50 800 10 0 0 10 0 0\n")
    put(machine / "powercap/intel-rapl:0/energy_uj", "7500000\n")
    seen = monitor.finish()
    assert seen.governors == ("powersave",)
    assert seen.frequency_mhz == SampledRange(1500, 2250, 3000)
    assert seen.temperature_c == SampledRange(95, 95, 95)
    assert (seen.busy_share, seen.steal_share) == (1.0, 0.1)
    assert seen.memory_free_bytes == 20000 * 1024
    assert (seen.numa_nodes, seen.huge_pages) == (1, "madvise")
    assert seen.energy_j["rapl 0 package-0"] == 2.5
    for word in ("load was 3", "powersave", "95 C", "1500 and 3000 MHz", "MiB of memory"):
        assert any(word in text for text in seen.warnings), word


def test_slow_cores_beside_fast_ones_are_no_throttling(machine: Path) -> None:
    for cpu, most, now in ((0, 2_064_000, 2_064_000), (1, 3_204_000, 3_100_000)):
        put(machine / f"cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq", f"{most}\n")
        put(machine / f"cpu/cpu{cpu}/cpufreq/scaling_cur_freq", f"{now}\n")
    monitor = Monitor()
    monitor.sample()
    seen = monitor.finish()
    assert seen.frequency_mhz == SampledRange(3100, 3100, 3100)
    assert not any("MHz" in text for text in seen.warnings)


def test_what_is_not_readable_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("CPUS", "NODES", "HUGE_PAGES", "THERMAL", "SENSORS", "STAT", "CPUINFO")
    monkeypatch.setattr(host, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(contention, "PROC", tmp_path / "none")
    for name in names:
        monkeypatch.setattr(telemetry, name, tmp_path / "none")
    monkeypatch.setattr(energy, "counters", dict)
    monkeypatch.setattr(host, "load_average", lambda: None)
    monitor = Monitor()
    monitor.sample()
    seen = monitor.finish()
    assert seen == Telemetry(seconds=seen.seconds)


def test_a_quiet_machine_gets_no_warning() -> None:
    quiet = Telemetry(
        governors=("performance",),
        frequency_mhz=SampledRange(2900, 3000, 3000),
        load_before=0.1,
        steal_share=0.0,
        memory_total_bytes=100,
        memory_free_bytes=50,
    )
    assert list(telemetry.warnings(quiet, 4)) == []


def test_a_counter_that_starts_again_is_understood() -> None:
    assert energy.used({"a": (90.0, 100.0)}, {"a": (10.0, 100.0)}) == {"a": 20.0}
    assert energy.used({"a": (90.0, 0.0)}, {"a": (10.0, 0.0)}) == {}
    assert energy.used({}, {"a": (10.0, 0.0)}) == {}


# ---------------------------------------------------------------- recording


def test_long_runs_are_thinned_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "LARGEST_RECORD", 64)
    latencies = Latencies()
    now = 0.0
    monkeypatch.setattr(recorder, "time", SimpleNamespace(perf_counter=lambda: now))
    for number in range(10_000):
        now = number / 1000
        latencies.add(now - 0.5)
    assert 32 <= len(latencies.seconds) <= 64
    assert len(latencies.ended) == len(latencies.seconds)
    assert list(latencies.seconds) == pytest.approx([0.5] * len(latencies.seconds))
    gaps = [b - a for a, b in zip(latencies.ended, latencies.ended[1:], strict=False)]
    assert min(gaps) > 0


def test_the_distribution_counts_every_record(tmp_path: Path) -> None:
    count = [0]
    latencies = Latencies()
    with ThroughputRecorder(lambda: count[0], tmp_path / "live.json") as watching:
        for _ in range(50):
            latencies.add_batch([time.perf_counter()] * 4)
            count[0] += 4
    series = watching.series([latencies, Latencies()])
    assert series["recorded"] == sum(series["counts"]) == 200
    assert len(series["edges_ms"]) == len(series["counts"]) + 1
    assert series["progress"][-1][1] == 200
    assert not (tmp_path / "live.json").exists()
    assert ThroughputRecorder(lambda: 0, tmp_path / "x").series([])["recorded"] == 0
