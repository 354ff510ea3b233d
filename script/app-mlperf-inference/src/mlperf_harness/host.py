"""Facts of the machine that belong to a result, and how much of it may be used."""

from __future__ import annotations

import math
import os
import platform
import re
from pathlib import Path

from mlperf_catalog.values import dataclass

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a reader must know of a machine; an empty text means that it cannot be found out."""

    system: str
    python: str
    cpu_model: str
    cores_usable: int
    memory_bytes: int
    governor: str


def facts() -> HostFacts:
    """Read the facts of this machine."""
    return HostFacts(
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cpu_model=_field(CPUINFO, "model name") or platform.processor(),
        cores_usable=usable_cores(),
        memory_bytes=meminfo("MemTotal") or 0,
        governor=read(GOVERNOR).strip(),
    )


def usable_cores() -> int:
    """Cores that this process may really use: its affinity, at most a container's quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(allowed or 1, _quota(read(CPU_MAX))))


def _quota(cpu_max: str) -> int:
    """Whole cores in a cgroup's ``quota period`` line, rounded up; huge when there is no quota."""
    words = cpu_max.split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or words[1] == "0":
        return 1 << 20
    return max(1, math.ceil(int(words[0]) / int(words[1])))


def load_average() -> float | None:
    """The load average of the last minute, where the system has one."""
    try:
        return round(os.getloadavg()[0], 2)
    except (OSError, AttributeError):
        return None


def _field(path: Path, name: str) -> str:
    match = re.search(rf"^{name}\s*:\s*(.+)$", read(path), re.MULTILINE)
    return match.group(1).strip() if match else ""


def meminfo(name: str) -> int | None:
    """A line of the kernel's facts about memory, in bytes; None where it has none of that name."""
    size = _field(MEMINFO, name).split()
    return int(size[0]) * 1024 if size else None


def read(path: Path) -> str:
    """The text of a file, empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
