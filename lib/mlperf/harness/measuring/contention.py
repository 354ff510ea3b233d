"""What others took of the machine while something was measured, in figures.

The kernel says how long the CPUs worked and how much of that the hypervisor gave to other virtual
machines (steal). What our own processes used of it is known; the rest others used. That alone does
no harm where a core is free, so the time counts too that our threads were ready and waited for one
(``/proc/PID/task/*/schedstat``). Nothing here waits or measures by itself: readings are compared.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import host
from ..wording import cores_in_words

PROC = Path("/proc")

# Of the mean over a run, and of the worst half second: less than this is what every system does.
MEAN_SHARE = 0.02
WORST_SHARE = 0.2
# Threads that never waited for a core longer than this share of the time were not kept from work.
WAITED_SHARE = 0.005
# A window shorter than this says nothing: the kernel counts in hundredths of a second.
WINDOW_S = 0.4


@dataclass(frozen=True, slots=True)
class CpuReading:
    """The counters of the CPUs that we may use, in seconds, and what our own processes used.

    ``waited_s`` is by thread, empty where the kernel does not report it.
    """

    busy_s: float
    idle_s: float
    steal_s: float
    ours_s: float = 0.0
    waited_s: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CpuContention:
    """CPU time lost to other processes and to the host, as shares of the available time.

    ``others_share`` used other programs, ``steal_share`` other virtual machines; ``worst_share``
    is that of both in the worst half second. ``waited_s`` is how long in ``seconds`` our threads
    were ready and waited for a core, all together; None where it cannot be known.
    """

    cores: int
    seconds: float
    others_share: float
    steal_share: float
    worst_share: float = 0.0
    waited_s: float | None = None

    @property
    def share(self) -> float:
        """Return the share of the CPU time that both took, 0 to 1."""
        return round(self.others_share + self.steal_share, 4)

    @property
    def disturbs(self) -> bool:
        """Whether this is enough to make answers late: much was taken, and we went short of it."""
        much = self.share >= MEAN_SHARE or self.worst_share >= WORST_SHARE
        spared = self.waited_s is not None and self.waited_s < WAITED_SHARE * self.seconds
        return much and not (spared and self.steal_share < MEAN_SHARE)

    @property
    def left(self) -> float:
        """Return the share of the CPU time that was there for us in the worst moment."""
        return max(0.25, 1.0 - max(self.share, self.worst_share))

    def in_words(self) -> str:
        """Return the figures in a line."""
        parts = [f"other programs used {_percent(self.others_share)} of {_cores(self.cores)}"]
        if self.steal_share >= 0.001:
            parts.append(f"{_percent(self.steal_share)} went to other virtual machines")
        if self.worst_share > self.share:
            parts.append(f"{_percent(self.worst_share)} was taken in the worst half second")
        if self.waited_s is not None and self.waited_s >= 0.01:
            waited = f"{self.waited_s:.2g}" if self.waited_s < 10 else f"{self.waited_s:.0f}"
            parts.append(f"our threads waited {waited} s for a core in {self.seconds:.3g} s")
        return ", ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def _cores(count: int) -> str:
    return "the core" if count == 1 else cores_in_words(count)


def compared(
    before: CpuReading, after: CpuReading, cores: int, quota: float | None = None
) -> CpuContention | None:
    """Return the contention between two readings; None when too little time passed.

    With a ``quota`` of fewer cores than the readings are about, what others use of the rest takes
    nothing from us: only what we could neither use nor find idle was taken.
    """
    busy, idle, steal = (
        max(0.0, getattr(after, name) - getattr(before, name))
        for name in ("busy_s", "idle_s", "steal_s")
    )
    total = busy + idle + steal
    if total < WINDOW_S * cores:
        return None
    ours, seconds = max(0.0, after.ours_s - before.ours_s), total / cores
    others, ours_by_right = max(0.0, busy - ours), total
    if quota is not None and quota < cores:
        ours_by_right = quota * seconds
        lacked = max(0.0, ours_by_right - ours - idle)
        kept = min(1.0, lacked / (others + steal)) if others + steal else 0.0
        others, steal = others * kept, steal * kept
    return CpuContention(
        cores=math.ceil(ours_by_right / seconds - 1e-9),
        seconds=seconds,
        others_share=round(others / ours_by_right, 4),
        steal_share=round(steal / ours_by_right, 4),
    )


class ContentionWatch:
    """Sums readings, taken about twice a second, to the contention of a run."""

    def __init__(self, cores: int, first: CpuReading | None, quota: float | None = None) -> None:
        self._cores, self._quota = cores, quota
        self._first = self._last = first
        self._worst = 0.0
        self.last_share: float | None = None
        self._waited: dict[int, float] = {}

    def add(self, reading: CpuReading | None) -> None:
        """The next reading; the worst window is that between two of them."""
        if reading is None or self._last is None:
            return
        # A thread that has ended is in no later reading.
        self._waited.update(reading.waited_s)
        window = compared(self._last, reading, self._cores, self._quota)
        if window is not None:
            self.last_share = window.share
            self._worst = max(self._worst, window.share)
            self._last = reading

    def total(self, last: CpuReading | None) -> CpuContention | None:
        """From the first reading to ``last``, with the worst window between."""
        self.add(last)
        if self._first is None or last is None:
            return None
        whole = compared(self._first, last, self._cores, self._quota)
        if whole is None:
            return None
        waited = round(sum(self._waited.values()), 3) if self._waited else None
        return replace(whole, worst_share=max(self._worst, whole.share), waited_s=waited)


# ---------------------------------------------------------------- reading


def read(beside: Iterable[int] = (), run: int = 0) -> CpuReading | None:
    """Return the counters now; None where the system has none.

    Ours is what this process and the ended ones that it started have used, that of the processes
    ``beside`` it, and that of ``run``, whose threads compute.
    """
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    times = cpu_times(host.read(PROC / "stat"), usable_cpus())
    if times is None:
        return None
    busy, idle, steal = (each / ticks for each in times)
    mine = used_ticks(host.read(PROC / str(os.getpid()) / "stat"), ended=True)
    others = {*beside, *((run,) if run else ())} - {os.getpid()}
    ours = mine + sum(used_ticks(host.read(PROC / str(pid) / "stat")) for pid in others)
    return CpuReading(busy, idle, steal, ours / ticks, waits(PROC / str(run) / "task"))


def cores() -> int:
    """Return how many CPUs the readings are about."""
    return len(usable_cpus()) or host.usable_cores()


def usable_cpus() -> frozenset[int]:
    """The numbers of the CPUs that this process may use; none where the system does not say."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def cpu_times(stat: str, cpus: Collection[int]) -> tuple[int, int, int] | None:
    """Busy, idle and stolen ticks of some CPUs, from the text of ``/proc/stat``."""
    counters = [
        [int(word) for word in words[1:9]]
        for words in map(str.split, stat.splitlines())
        if len(words) >= 9 and words[0][:3] == "cpu" and words[0][3:].isdigit()
        if not cpus or int(words[0][3:]) in cpus
    ]
    if not counters:
        return None
    # user nice system idle iowait irq softirq steal
    idle = sum(counter[3] + counter[4] for counter in counters)
    steal = sum(counter[7] for counter in counters)
    return sum(map(sum, counters)) - idle - steal, idle, steal


def used_ticks(stat: str, ended: bool = False) -> int:
    """Ticks that a process has used, from the text of its ``stat``; 0 when it is gone.

    ``ended`` adds those of the processes that it has started and that have ended.
    """
    words = stat.rpartition(")")[2].split()
    return sum(map(int, words[11 : 15 if ended else 13]))


def waits(tasks: Path) -> dict[int, float]:
    """Return the seconds that threads were ready and waited, by number, where reported."""
    try:
        threads = [path for path in tasks.iterdir() if path.name.isdigit()]
    except OSError:
        return {}
    statistics = {int(path.name): host.read(path / "schedstat").split() for path in threads}
    return {thread: int(words[1]) / 1e9 for thread, words in statistics.items() if len(words) == 3}


def beside(proc: Path = PROC) -> frozenset[int]:
    """Return the processes of this session: those it has started, and those waiting for it."""
    parents: dict[int, int] = {}
    for path in proc.glob("[0-9]*/stat"):
        words = host.read(path).rpartition(")")[2].split()
        if len(words) > 1:
            parents[int(path.parent.name)] = int(words[1])
    return family(os.getpid(), parents) | waiting(os.getpid(), parents)


def family(root: int, parents: Mapping[int, int]) -> frozenset[int]:
    """Return a process and all that have come from it."""
    pids = {root}
    while new := {pid for pid, parent in parents.items() if parent in pids} - pids:
        pids |= new
    return frozenset(pids)


def waiting(process: int, parents: Mapping[int, int]) -> frozenset[int]:
    """Return the shell of the step and the engine, which started ``process`` and follow it."""
    shell = parents.get(process, 0)
    return frozenset({shell, parents.get(shell, 0)} - {0})
