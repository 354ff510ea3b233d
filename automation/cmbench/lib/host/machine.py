"""Processors, memory, disks, and how much of them this process may use.

On Linux everything is read from ``/proc``, ``/sys`` and ``/etc``, in a few milliseconds and
without starting a process. Every function takes the ``root`` of the file tree, so that trees
recorded on other machines can be read as well. Unknown values are empty or zero, never made up.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cmbench.lib.host.arm import arm_names
from cmbench.lib.probe import probe
from cmbench.lib.text_files import read_or_empty

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class CpuCache:
    """One level of CPU cache: ``size`` in bytes of one instance, and how many there are."""

    name: str
    size: int
    instances: int

    def __str__(self) -> str:
        """Total size as ``lscpu`` shows it: ``64 KiB (2 instances)``."""
        plural = "s" if self.instances > 1 else ""
        return f"{_kibibytes(self.size * self.instances)} ({self.instances} instance{plural})"


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """The processors. Counts are of online ones; ``max_mhz`` is 0 if unknown."""

    architecture: str
    vendor: str
    model_name: str
    family: str
    model: str
    stepping: str
    microcode: str
    flags: tuple[str, ...]
    bugs: tuple[str, ...]
    online: str
    logical_cores: int
    physical_cores: int
    sockets: int
    threads_per_core: int
    numa_nodes: int
    max_mhz: float
    governor: str
    caches: tuple[CpuCache, ...]
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Main memory, in bytes; ``limit`` is that of the control group, 0 for none."""

    total: int
    available: int
    limit: int


@dataclass(frozen=True, slots=True)
class UsableCores:
    """How many logical cores this process may use: by affinity and by control group quota.

    ``quota`` is in cores and 0 for none; ``cores`` is what to start threads for.
    """

    affinity: int
    quota: float
    cores: int


def cpu_facts(root: Path = ROOT, machine: str = "") -> CpuFacts:
    """The processors of the tree ``root``; ``machine`` is what ``uname -m`` says there."""
    machine = machine or os.uname().machine
    if sys.platform == "darwin" and root == ROOT:
        return macos_cpu_facts(probe(["/usr/sbin/sysctl", "hw", "machdep.cpu"]).stdout, machine)
    return _linux_cpu_facts(root, machine)


def _linux_cpu_facts(root: Path, machine: str) -> CpuFacts:
    blocks = _cpuinfo_blocks(read_or_empty(root / "proc/cpuinfo"))
    first = {**blocks[-1], **blocks[0]} if blocks else {}
    cpus = root / "sys/devices/system/cpu"
    online = read_or_empty(cpus / "online").strip()
    numbers = parse_list(online) or [int(b["processor"]) for b in blocks if "processor" in b]
    cores = _core_ids(blocks, cpus, numbers)
    physical = len(set(cores)) or len(numbers)
    vendor, model_name = _cpu_names(first, blocks)
    return CpuFacts(
        architecture=machine,
        vendor=vendor,
        model_name=model_name,
        family=first.get("cpu family", first.get("CPU architecture", "")),
        model=first.get("model", first.get("CPU part", "")),
        stepping=first.get("stepping", first.get("CPU revision", "")),
        microcode=first.get("microcode", ""),
        flags=tuple((first.get("flags") or first.get("Features") or "").split()),
        bugs=tuple(first.get("bugs", "").split()),
        online=online,
        logical_cores=len(numbers),
        physical_cores=physical,
        sockets=len({package for package, _ in cores}) or min(1, len(numbers)),
        threads_per_core=max(1, len(numbers) // physical) if physical else 0,
        numa_nodes=numa_nodes(root / "sys/devices/system/node"),
        max_mhz=_max_mhz(cpus, numbers),
        governor=read_or_empty(cpus / "cpu0/cpufreq/scaling_governor").strip(),
        caches=_caches(cpus / "cpu0/cache", len(numbers)),
        fields=first,
    )


def numa_nodes(folder: Path) -> int:
    """How many nodes have processors, by the kernel's ``folder`` of nodes; 0 where it is not there.

    The memory of a GPU (Grace Hopper reports eight nodes of it) or of a CXL card is a node as well.
    """
    nodes = read_or_empty(folder / "has_cpu").strip() or read_or_empty(folder / "online")
    return len(parse_list(nodes))


def _max_mhz(cpus: Path, numbers: Sequence[int]) -> float:
    """The highest clock: the slow kind of cores comes first on Arm, and last on x86."""
    ends = {numbers[0], numbers[-1]} if numbers else {0}
    files = (cpus / f"cpu{number}/cpufreq/cpuinfo_max_freq" for number in ends)
    return max(_number(read_or_empty(file)) for file in files) / 1000


def _cpuinfo_blocks(text: str) -> list[dict[str, str]]:
    blocks = []
    for part in text.split("\n\n"):
        pairs = (line.partition(":") for line in part.splitlines() if ":" in line)
        block = {key.strip(): value.strip() for key, _, value in pairs}
        if block:
            blocks.append(block)
    return blocks


def _core_ids(
    blocks: list[dict[str, str]], cpus: Path, numbers: Iterable[int]
) -> list[tuple[str, str]]:
    """Return (package, core) of all logical cores: from cpuinfo on x86, from /sys elsewhere."""
    listed = [
        (b["physical id"], b["core id"]) for b in blocks if "physical id" in b and "core id" in b
    ]
    if listed:
        return listed
    ids = []
    for number in numbers:
        topology = cpus / f"cpu{number}/topology"
        # Ids of cores begin again in every cluster of big or little ones; their threads do not.
        core = read_or_empty(topology / "thread_siblings_list").strip()
        core = core or read_or_empty(topology / "core_id").strip()
        if core:
            # Arm machines without the package in their firmware tables say -1: one socket then.
            package = read_or_empty(topology / "physical_package_id").strip()
            ids.append(("0" if package == "-1" else package, core))
    return ids


_ARM = "CPU implementer"


def _cpu_names(first: Mapping[str, str], blocks: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """Vendor and model name; the names of big and little cores with a plus between them."""
    if _ARM in first:
        numbers = [(b[_ARM], b.get("CPU part", "")) for b in (first, *blocks) if _ARM in b]
        names = [arm_names(*number) for number in dict.fromkeys(numbers)]
        return names[0][0], first.get("model name", " + ".join(name for _, name in names))
    return first.get("vendor_id", ""), first.get("model name", first.get("cpu", ""))


def _caches(folder: Path, logical_cores: int) -> tuple[CpuCache, ...]:
    """Caches as the first core sees them, taken as the same for all cores."""
    caches = []
    for index in sorted(folder.glob("index[0-9]*"), key=lambda path: path.name):
        level, kind = read_or_empty(index / "level").strip(), read_or_empty(index / "type").strip()
        size = _parse_size(read_or_empty(index / "size"))
        sharing = len(parse_list(read_or_empty(index / "shared_cpu_list"))) or 1
        suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
        if level and size:
            caches.append(CpuCache(f"L{level}{suffix}", size, max(1, logical_cores // sharing)))
    return tuple(caches)


def macos_cpu_facts(sysctl: str, machine: str) -> CpuFacts:
    """Return the processors as ``sysctl hw machdep.cpu`` of macOS reports them."""
    pairs = (line.partition(":") for line in sysctl.splitlines() if ":" in line)
    known = {key.strip(): value.strip() for key, _, value in pairs}
    logical = _count(known, "hw.logicalcpu")
    physical = _count(known, "hw.physicalcpu") or logical
    name = known.get("machdep.cpu.brand_string", "")
    sizes = {"L1d": "hw.l1dcachesize", "L1i": "hw.l1icachesize", "L2": "hw.l2cachesize"}
    return CpuFacts(
        architecture=machine,
        vendor=known.get("machdep.cpu.vendor", "Apple" if name.startswith("Apple") else ""),
        model_name=name,
        family=known.get("machdep.cpu.family", ""),
        model=known.get("machdep.cpu.model", ""),
        stepping=known.get("machdep.cpu.stepping", ""),
        microcode="",
        flags=tuple(known.get("machdep.cpu.features", "").lower().split()),
        bugs=(),
        online=f"0-{logical - 1}" if logical else "",
        logical_cores=logical,
        physical_cores=physical,
        sockets=_count(known, "hw.packages") or 1,
        threads_per_core=max(1, logical // physical) if physical else 0,
        numa_nodes=1,
        max_mhz=_count(known, "hw.cpufrequency_max") / 1e6,
        governor="",
        caches=tuple(
            CpuCache(k, _count(known, v), 1) for k, v in sizes.items() if _count(known, v)
        ),
        fields={},
    )


def memory_facts(root: Path = ROOT) -> MemoryFacts:
    """Main memory of the tree ``root``."""
    if sys.platform == "darwin" and root == ROOT:
        total = int(_number(probe(["/usr/sbin/sysctl", "-n", "hw.memsize"]).stdout))
        return MemoryFacts(total, 0, 0)
    pairs = (line.partition(":") for line in read_or_empty(root / "proc/meminfo").splitlines())
    known = {key: int(_number(value.split()[0])) * 1024 for key, _, value in pairs if value.split()}
    values = [
        _number(read_or_empty(path)) for path in _control_files(root, "memory", _MEMORY_FILES)
    ]
    total = known.get("MemTotal", 0)
    # Version 1 writes a number near 2**63 for "no limit".
    limits = [int(value) for value in values if 0 < value < (total or 2**60)]
    return MemoryFacts(total, known.get("MemAvailable", 0), min(limits, default=0))


def disk_capacity(root: Path = ROOT) -> int:
    """Bytes of all local disks that are mounted; network file systems are not touched."""
    lines = [line.split() for line in read_or_empty(root / "proc/mounts").splitlines()]
    points = [words[1] for words in lines if len(words) > 2 and words[0].startswith("/dev/")]
    sizes: dict[int, int] = {}
    for point in points or ["/"]:
        with suppress(OSError, UnicodeError):
            place = root / _unescape(point).lstrip("/")
            info = os.statvfs(place)
            sizes[os.stat(place).st_dev] = info.f_blocks * info.f_frsize
    return sum(sizes.values())


def usable_cores(root: Path = ROOT) -> UsableCores:
    """How many logical cores this process may keep busy."""
    try:
        affinity = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        affinity = os.cpu_count() or 1
    quotas = [_quota(path) for path in _control_files(root, "cpu", _CPU_FILES)]
    quota = min((q for q in quotas if q > 0), default=0.0)
    cores = min(affinity, max(1, int(quota))) if quota else affinity
    return UsableCores(affinity, quota, cores)


_CPU_FILES = ("cpu.max", "cpu.cfs_quota_us")
_MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")


def _control_files(root: Path, controller: str, names: tuple[str, str]) -> list[Path]:
    """The limit files of our control group and of all above it, in version 2 and version 1."""
    files = []
    mounted = root / "sys/fs/cgroup"
    for line in read_or_empty(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        base = mounted if not controllers else mounted / controller
        name = names[0] if not controllers else names[1]
        parts = [part for part in group.split("/") if part not in ("", ".", "..")]
        files += [base.joinpath(*parts[:depth], name) for depth in range(len(parts) + 1)]
    return files


def _quota(path: Path) -> float:
    """Cores allowed by one control file; 0 for no limit."""
    words = read_or_empty(path).split()
    if path.name == "cpu.cfs_quota_us":
        words += read_or_empty(path.with_name("cpu.cfs_period_us")).split()
    if len(words) < 2 or words[0] == "max":
        return 0.0
    period = _number(words[1])
    return max(0.0, _number(words[0]) / period) if period > 0 else 0.0


def parse_list(text: str) -> list[int]:
    """The numbers of a kernel list such as ``0-3,8,10-11``."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match:
            numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    return numbers


def short_size(count: int) -> str:
    """Bytes as ``free -h --si`` and ``df -h`` write them: ``25G``."""
    size = float(count)
    for unit in ("", "K", "M", "G"):
        if size < 999.5:
            return f"{size:.0f}{unit}"
        size /= 1000
    return f"{size:.1f}T" if size < 10 else f"{size:.0f}T"


def _kibibytes(size: int) -> str:
    if size >= 1 << 20:
        return f"{size / (1 << 20):g} MiB"
    return f"{size / 1024:g} KiB"


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]] if match else 0


def _count(known: Mapping[str, str], key: str) -> int:
    return int(_number(known.get(key, "")))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _unescape(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
