"""The facts of a Linux machine for the description of a system.

Everything is read; what is not readable stays out, and nothing is guessed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mlperf.harness import host
from mlperf.harness.host import read

SYS = Path("/sys")
PROC = Path("/proc")
SECTOR = 512
SPEEDS = {10000: "10G Ethernet", 1000: "Gig Ethernet", 100: "100 Mbit Ethernet"}


def facts(gpus: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the readable fields of this machine; ``gpus`` as ``accelerators`` takes them."""
    fields = {**_processor(), **_memory(), **_storage(), **_network()}
    release = _release()
    if release:
        fields["operating_system"] = release
    modules = memory_modules(_output("dmidecode", "--type", "memory"))
    if modules:
        fields["host_memory_configuration"] = modules
    return {**fields, **accelerators(gpus)}


def memory_text(size: int) -> str:
    """A number of bytes as a description has it; empty for none."""
    return f"{size / 2**30:.0f}GB" if size else ""


def _memory() -> dict[str, str]:
    text = memory_text(host.facts().memory_bytes)
    return {"host_memory_capacity": text} if text else {}


def _cores() -> set[tuple[str, str]]:
    """Return the ids of socket and core of all cores; none where the kernel lacks them."""
    text = read(PROC / "cpuinfo")
    pairs = set(
        zip(
            re.findall(r"^physical id\s*:\s*(\d+)", text, re.MULTILINE),
            re.findall(r"^core id\s*:\s*(\d+)", text, re.MULTILINE),
            strict=False,
        )
    )
    # On other processors than x86 cpuinfo has no such lines.
    folders = () if pairs else (SYS / "devices/system/cpu").glob("cpu[0-9]*/topology")
    ids = ((read(f / "physical_package_id").strip(), read(f / "core_id").strip()) for f in folders)
    return pairs | {(package, core) for package, core in ids if package.isdigit() and core}


def _model_name() -> str:
    match = re.search(r"^Model name:\s*(.+)$", _output("lscpu"), re.MULTILINE)
    return host.facts().cpu_model or (match[1].strip() if match else "")


def _processor() -> dict[str, str]:
    fields = {}
    if name := _model_name():
        fields["host_processor_model_name"] = name
    if pairs := _cores():
        sockets = {package for package, _ in pairs}
        fields["host_processors_per_node"] = str(len(sockets))
        fields["host_processor_core_count"] = str(len(pairs) // len(sockets))
    highest = read(SYS / "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").strip()
    if highest.isdigit():
        fields["host_processor_frequency"] = f"{int(highest) / 1000:.0f} MHz (max)"
    caches = ", ".join(_caches())
    if caches:
        fields["host_processor_caches"] = caches
    return fields


def _caches() -> Iterator[str]:
    kinds = {"Data": "d", "Instruction": "i", "Unified": ""}
    for cache in sorted((SYS / "devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind = read(cache / "level").strip(), read(cache / "type").strip()
        size = read(cache / "size").strip()
        if level and size:
            yield f"L{level}{kinds.get(kind, '')}: {size}"


def _storage() -> dict[str, str]:
    sizes, kinds = 0, set()
    for disk in sorted((SYS / "block").glob("*")):
        if re.match(r"(loop|ram|zram|sr|dm-|md|fd)", disk.name):
            continue
        size = read(disk / "size").strip()
        if not size.isdigit() or int(size) == 0:
            continue
        sizes += int(size) * SECTOR
        kinds.add(_kind(disk))
    if not sizes:
        return {}
    fields = {"host_storage_capacity": f"{sizes / 1e9:.0f} GB"}
    if all(kinds):
        fields["host_storage_type"] = ", ".join(sorted(kinds))
    return fields


def _kind(disk: Path) -> str:
    """Return the type of a disk; empty for a virtual one."""
    if disk.name.startswith("nvme"):
        return "NVMe SSD"
    if disk.name.startswith(("vd", "xvd")):
        return "virtual disk"
    return {"0": "SSD", "1": "HDD"}.get(read(disk / "queue/rotational").strip(), "")


def _network() -> dict[str, str]:
    cards = [card for card in sorted((SYS / "class/net").glob("*")) if (card / "device").exists()]
    if not cards:
        return {}
    kinds = sorted({kind for kind in map(_card, cards) if kind})
    fields = {"host_network_card_count": str(len(cards))}
    if kinds:
        fields["host_networking"] = ", ".join(kinds)
    return fields


def _card(card: Path) -> str:
    if (card / "wireless").exists():
        return "Wi-Fi"
    speed = read(card / "speed").strip()
    if not speed.isdigit():
        return "Ethernet"
    return SPEEDS.get(int(speed), f"{int(speed) // 1000}G Ethernet")


def _release() -> str:
    text = read(Path("/etc/os-release"))
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)', text, re.MULTILINE)
    kernel = read(PROC / "sys/kernel/osrelease").strip()
    if not name:
        return ""
    return f"{name.group(1)} (Linux {kernel})" if kernel else name.group(1)


def memory_modules(text: str) -> str:
    """The modules in the output of ``dmidecode --type memory``: ``4 x 16 GB DDR4 3200 MT/s``."""
    counts: dict[str, int] = {}
    for block in re.split(r"\n\s*\n", text):
        if "Memory Device" not in block:
            continue
        module = dict(re.findall(r"^\s*([A-Z][\w ]*?):\s*(.+?)\s*$", block, re.MULTILINE))
        if not re.match(r"\d", module.get("Size", "")):
            continue
        words = [module["Size"], module.get("Type", ""), module.get("Speed", "")]
        description = " ".join(word for word in words if word and word not in ("Unknown", "None"))
        counts[description] = counts.get(description, 0) + 1
    return ", ".join(f"{count} x {description}" for description, count in sorted(counts.items()))


def accelerators(gpus: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return accelerator fields from the facts of NVIDIA's driver; none where GPUs differ.

    A GPU is a text per field as ``nvidia-smi --query-gpu`` calls it, memory in MiB.
    """
    if not gpus or any(gpu != gpus[0] for gpu in gpus):
        return {}
    first = gpus[0]
    fields = {"accelerators_per_node": str(len(gpus)), "accelerator_model_name": first["name"]}
    memory, clock = first["memory.total"], first["clocks.max.sm"]
    generation, width = first["pcie.link.gen.max"], first["pcie.link.width.max"]
    if memory.isdigit():
        fields["accelerator_memory_capacity"] = f"{int(memory) / 1024:.0f} GB"
    if generation.isdigit() and width.isdigit():
        fields["accelerator_host_interconnect"] = f"PCIe Gen{generation} x{width}"
    if clock.isdigit():
        fields["accelerator_frequency"] = f"{clock} MHz (max)"
    return fields


def _output(*words: str) -> str:
    path = shutil.which(words[0])
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *words[1:]], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
