"""What the machine was like during a run, and warnings of what spoils a measurement."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import host
from ..jobs import RunEnergy
from ..records import WHEN_GIVEN
from ..wording import cores_in_words
from . import contention, energy, gpu, gpu_log, gpu_watch
from .contention import CpuContention

CPUS = Path("/sys/devices/system/cpu")
NODES = Path("/sys/devices/system/node")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
THERMAL = Path("/sys/class/thermal")
SENSORS = Path("/sys/class/hwmon")
STAT = Path("/proc/stat")
CPUINFO = Path("/proc/cpuinfo")

SAMPLE_S = 2.0
# The columns of a course: s, shares of 1, MHz and bytes; so many rows are enough for a chart.
COURSE = ("seconds", "busy", "taken by others", "clock", "memory used")
LARGEST_COURSE = 200

BUSY = "the machine was busy with something else"
# Above these a measurement is worth a warning.
IDLE_LOAD = 0.25
HOT_C = 90.0
LEAST_FREE_SHARE = 0.05
THROTTLED_SHARE = 0.8
SAME_KIND_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class SampledRange:
    """The least, mean and greatest of what was sampled."""

    least: float
    mean: float
    greatest: float


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The state of the machine around and during one run; None or empty where not readable.

    ``energy_j`` is what the counters of processors say, by counter. ``steal_share`` is the share
    of CPU time that other virtual machines took, ``busy_share`` that of all CPUs together.
    ``taken`` is what others took of the CPUs that we may use.
    """

    governors: tuple[str, ...] = ()
    frequency_mhz: SampledRange | None = None
    temperature_c: SampledRange | None = None
    load_before: float | None = None
    load_after: float | None = None
    busy_share: float | None = None
    steal_share: float | None = None
    memory_total_bytes: int = 0
    memory_free_bytes: int | None = None
    numa_nodes: int | None = None
    huge_pages: str = ""
    energy_j: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    taken: CpuContention | None = None
    gpus: tuple[gpu.GpuSummary, ...] = field(default=(), metadata=WHEN_GIVEN)


class Monitor:
    """Watches the machine from its making until ``finish``; ``sample`` is called now and then."""

    def __init__(self, device: str = "cpu", gpus: Sequence[int] | None = None) -> None:
        self._gpus = gpu_watch.watch(device, gpus)
        self._beside = contention.beside()
        self._watch = contention.ContentionWatch(
            contention.cores(), contention.read(self._beside), host.quota_cores()
        )
        self._began = time.monotonic()
        self._load = host.load_average()
        self._times = cpu_times()
        self._meter = energy.EnergyMeter()
        self._meter.add(self._began, energy.counters())
        self._frequencies: list[float] = []
        self._temperatures: list[float] = []
        self._course: list[tuple[float, float, float, float, float]] = []
        self._before = self._times
        self._free = [free for free in [host.meminfo("MemAvailable")] if free is not None]
        self._next = self._window = 0.0

    def sample(self, run: int = 0) -> None:
        """Note what others take, and at most every ``SAMPLE_S`` seconds clock, heat and memory.

        ``run`` is the process that computes now.
        """
        now = time.monotonic()
        if now >= self._window:
            self._window = now + contention.WINDOW_S
            self._watch.add(contention.read(self._beside, run))
        if now < self._next:
            return
        self._next = now + SAMPLE_S
        self._meter.add(now, energy.counters())
        clocks = frequencies()
        self._frequencies += clocks
        self._temperatures += temperatures()
        free = host.meminfo("MemAvailable")
        self._free += [] if free is None else [free]
        self._note(now, sum(clocks) / len(clocks) if clocks else 0.0, free or 0)

    def _note(self, now: float, clock_mhz: float, free: int) -> None:
        times = cpu_times()
        busy, _ = shares(self._before, times)
        self._before = times
        others = self._watch.last_share
        if busy is not None and others is not None:
            used = (host.meminfo("MemTotal") or 0) - free if free else 0
            row = (now - self._began, busy, others, clock_mhz, float(used))
            self._course.append(row)

    def course(self) -> dict[str, Any]:
        """Return the sampled values, for charts; 0 where unreadable."""
        step = max(1, len(self._course) // LARGEST_COURSE)
        rows = [[round(value, 4) for value in row] for row in self._course[::step]]
        whole = {"columns": COURSE, "rows": rows}
        if self._gpus is None:
            return whole
        gpus = self._gpus.course(self._began, LARGEST_COURSE)
        return {**whole, "gpu_columns": gpu_log.COLUMNS, "gpus": gpus}

    def finish(self, span: energy.Span | None = None) -> Telemetry:
        """Return everything that was seen, with the warnings that follow from it.

        The figures of GPUs are those within ``span``.
        """
        busy, steal = shares(self._times, cpu_times())
        self._meter.add(time.monotonic(), energy.counters())
        gpus = self._gpus.finish(span) if self._gpus else ()
        telemetry = Telemetry(
            governors=governors(),
            frequency_mhz=_range(self._frequencies),
            temperature_c=_range(self._temperatures),
            load_before=self._load,
            load_after=host.load_average(),
            busy_share=busy,
            steal_share=steal,
            memory_total_bytes=host.meminfo("MemTotal") or 0,
            memory_free_bytes=min(self._free) if self._free else None,
            numa_nodes=_nodes() or None,
            huge_pages=_chosen(host.read(HUGE_PAGES)),
            energy_j=self._meter.total(),
            seconds=round(time.monotonic() - self._began, 3),
            taken=self._watch.total(contention.read(self._beside)),
            gpus=gpus,
        )
        said = [*warnings(telemetry, host.usable_cores()), *self._missing()]
        return replace(telemetry, warnings=tuple(said))

    def energy(
        self, span: energy.Span, samples: int, gpus: Sequence[gpu.GpuSummary]
    ) -> RunEnergy | None:
        """Return what a run of so many samples took within ``span``, after ``finish``."""
        return energy.of_run(span, samples, self._meter.whole(), gpu.energies(gpus, span))

    @property
    def gpu_problem(self) -> str:
        """Return why the GPUs cannot be read, or no more; empty where they can, or are not used."""
        return self._gpus.missing if self._gpus else ""

    def _missing(self) -> Iterator[str]:
        if self.gpu_problem:
            yield f"no telemetry of the GPU: {self.gpu_problem}"


def _nodes() -> int:
    """Nodes with processors: the memory of a GPU, or of a CXL card, is a node without any."""
    return sum(bool(host.read(node / "cpulist").strip()) for node in NODES.glob("node[0-9]*"))


def warnings(telemetry: Telemetry, cores: int) -> Iterator[str]:
    """What of this spoils a measurement, in words."""
    load, taken = telemetry.load_before, telemetry.taken
    if taken is not None:
        if taken.disturbs:
            yield f"{BUSY}: {taken.in_words()}"
    elif load is not None and load > max(IDLE_LOAD * cores, 0.5):
        yield f"the load was {load:g} on {cores_in_words(cores)} at the start"
    yield from _clock_warnings(telemetry)
    yield from gpu.warnings(telemetry.gpus)
    free, total = telemetry.memory_free_bytes, telemetry.memory_total_bytes
    if free is not None and total and free < LEAST_FREE_SHARE * total:
        yield f"only {free / 2**20:.0f} MiB of memory were left: the system may have swapped"


def _clock_warnings(telemetry: Telemetry) -> Iterator[str]:
    """What has slowed the processor down, or may have."""
    slow = [governor for governor in telemetry.governors if governor != "performance"]
    if slow:
        yield f"the CPU governor is {', '.join(slow)}, not performance: the clock comes and goes"
    heat, clock = telemetry.temperature_c, telemetry.frequency_mhz
    if heat is not None and heat.greatest >= HOT_C:
        yield f"a sensor reached {heat.greatest:.0f} C: the clock may have been lowered"
    if clock is not None and clock.least < THROTTLED_SHARE * clock.greatest:
        yield f"the clock varied between {clock.least:.0f} and {clock.greatest:.0f} MHz"


def governors() -> tuple[str, ...]:
    """Return the different frequency governors of this machine's CPUs."""
    names = {host.read(path).strip() for path in CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return tuple(sorted(names - {""}))


def _fast_cores(name: str) -> list[Path]:
    """Return the file ``name`` of every CPU whose highest clock is about the highest of all.

    Slow cores next to fast ones always have another clock: that is no throttling.
    """
    folders = list(CPUS.glob("cpu[0-9]*/cpufreq"))
    most = [_number(folder / "cpuinfo_max_freq") or 0.0 for folder in folders]
    least = SAME_KIND_SHARE * max(most, default=0.0)
    return [folder / name for folder, own in zip(folders, most, strict=True) if own >= least]


def frequencies() -> list[float]:
    """The present clock of every CPU in MHz; where there are fast and slow cores, of the fast."""
    readings = [_number(path) for path in _fast_cores("scaling_cur_freq")]
    known = [value / 1000 for value in readings if value is not None]
    if known:
        return known
    lines = [line for line in host.read(CPUINFO).splitlines() if line.startswith("cpu MHz")]
    return [float(line.rpartition(":")[2]) for line in lines]


def temperatures() -> list[float]:
    """What sensors of processors say, in degrees Celsius."""
    paths = [*THERMAL.glob("thermal_zone*/temp"), *SENSORS.glob("hwmon*/temp*_input")]
    readings = [_number(path) for path in paths]
    return [value / 1000 for value in readings if value is not None and 0 < value < 150_000]


def cpu_times() -> tuple[int, ...]:
    """User, nice, system, idle, iowait, irq, softirq and steal ticks of all CPUs; or nothing."""
    words = (host.read(STAT).splitlines() or [""])[0].split()
    return tuple(int(word) for word in words[1:9]) if words[:1] == ["cpu"] else ()


def shares(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[float | None, float | None]:
    """Busy and stolen shares of the time between two readings of ``cpu_times``."""
    if len(before) != 8 or len(after) != 8:
        return None, None
    passed = [max(0, end - start) for start, end in zip(before, after, strict=True)]
    total = sum(passed)
    if not total:
        return None, None
    idle = passed[3] + passed[4]
    return round(1 - idle / total, 4), round(passed[7] / total, 4)


def _range(values: list[float]) -> SampledRange | None:
    if not values:
        return None
    mean = sum(values) / len(values)
    return SampledRange(round(min(values), 1), round(mean, 1), round(max(values), 1))


def _chosen(text: str) -> str:
    """Return the word in brackets of ``always [madvise] never``."""
    return text.partition("[")[2].partition("]")[0]


def _number(path: Path) -> float | None:
    try:
        return float(host.read(path))
    except ValueError:
        return None
