"""Facts of the machine that belong to a result, and how much of it may be used."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
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
    """Cores that this process may really use: its affinity, at most a quota rounded up."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(allowed or 1, math.ceil(quota_cores() or allowed or 1)))


def quota_cores() -> float | None:
    """The number of cores, such as 1.5, that a container or session may use; None without a quota.

    Cgroups of both versions are looked at, and those around ours: the least quota holds.
    """
    limits = [read(folder / "cpu.max") for folder in cgroups()]
    old = CGROUPS / "cpu"
    limits.append(read(old / "cpu.cfs_quota_us") + " " + read(old / "cpu.cfs_period_us"))
    return min((cores for text in limits if (cores := _quota(text))), default=None)


def cgroups() -> Iterator[Path]:
    """Folders of this process's cgroup and of those around it; in a container its own is first."""
    own = next((line[3:] for line in read(MEMBERSHIP).splitlines() if line.startswith("0::")), "/")
    folder = CGROUPS / own.strip("/")
    while folder != CGROUPS:
        yield folder
        folder = folder.parent
    yield CGROUPS


def _quota(limit: str) -> float | None:
    """Cores in a cgroup's ``quota period``, None where there is no quota."""
    words = limit.split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or "0" in words:
        return None
    return int(words[0]) / int(words[1])


def load_average() -> float | None:
    """Return the load average of the last minute, where the system has one."""
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
    """Return the text of a file, empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
