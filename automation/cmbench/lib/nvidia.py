"""NVIDIA's GPUs and their driver on this machine: the one reader of both.

A sign is a device node, or something that only comes with a driver; it is found without starting a
process. Where there is none, no program can use such a device; where there is one, only the driver
itself knows whether it works, and is asked by ``nvidia-smi`` or by its library (NVML, in a process
of its own). ``root`` is the file tree, ``find`` gives the path of a program, ``ask`` runs a
command: tests, and trees of other machines, put their own in their place.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from cmbench.errors import Error
from cmbench.lib.probe import ProbeResult, json_values, probe, which
from cmbench.lib.text_files import read_or_empty
from cmbench.lib.versions import compare

ROOT = Path("/")
Find = Callable[[str], Path | None]
Ask = Callable[[Sequence[str]], ProbeResult]

NODES = "dev/nvidia[0-9]*"
# Below the root: the driver's own nodes, the one of WSL, those of a Jetson, the driver's state.
TRACES = (
    "dev/nvidia*",
    "dev/dxg",
    "dev/nvhost-*",
    "proc/driver/nvidia",
)
TOOL = "nvidia-smi"
# Its exit status where a GPU's infoROM is damaged, which is a warning: its manual page.
INFOROM = 14
LOOKED_FOR = (*(f"/{trace}" for trace in TRACES), f"{TOOL} on PATH")
WSL_TOOL = "usr/lib/wsl/lib/nvidia-smi"
"""Where Windows puts it in WSL; that folder is not on everybody's PATH."""

OF_ONE = ("index", "uuid", "pci.bus_id")
OF_KIND = (
    "name",
    "driver_version",
    "memory.total",
    "compute_cap",
    "pcie.link.gen.max",
    "pcie.link.width.max",
    "clocks.max.sm",
    "power.limit",
    "persistence_mode",
    "ecc.mode.current",
    "mig.mode.current",
)
"""The fields to query of each GPU, by nvidia-smi's names; older drivers do not know all of them."""

LEAST_DRIVERS = {"10": "440.33", "11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}
"""The oldest driver for a major version of CUDA: NVIDIA's page on CUDA compatibility."""
ROUND_DRIVERS = {"v0.7": "450", "v1.0": "460", "v1.1": "470", "v2.0": "510", "v3.1": "515"}
"""The oldest driver for NVIDIA's submission of a round: its makefiles, and its guides."""


class DriverFault(NamedTuple):
    """A state in which the driver does not work: what its tool prints then, why, what to do."""

    name: str
    match: str
    why: str
    remedy: str


TROUBLES = (
    DriverFault(
        "mismatch",
        r"Driver/library version mismatch|RM_VERSION_MISMATCH",
        "the driver was updated, and the old one is still loaded",
        "restart the machine, or let its owner reload the kernel modules",
    ),
    DriverFault(
        "not-loaded",
        r"couldn't communicate with the NVIDIA driver|Driver Not Loaded",
        "the driver is installed, but its kernel module is not loaded",
        "load it: `sudo modprobe nvidia`; after an update of the kernel, install the driver anew "
        "(its module is compiled for one kernel); with Secure Boot, its key must be enrolled",
    ),
    DriverFault(
        "no-library",
        r"couldn't find libnvidia-ml|NVML Shared Library Not Found|libnvidia-ml\S*: cannot open",
        "the driver's library libnvidia-ml was not found",
        "install the driver's libraries; start a container with the GPU "
        "(`cm docker ... --all_gpus`)",
    ),
    DriverFault(
        "blocked",
        r"GPU access blocked by the operating system",
        "the system that lends the GPU (Windows, for WSL) does not let it be used",
        "update Windows' NVIDIA driver and WSL: wsl --update",
    ),
    DriverFault(
        "lost",
        r"GPU is lost|Unable to determine the device handle",
        "a GPU no longer answers",
        "look into the kernel's log for Xid messages (dmesg), and restart the machine",
    ),
    DriverFault(
        "no-permission",
        r"Insufficient Permissions",
        "this user may not use the GPU",
        "ask the machine's owner to check the permissions of /dev/nvidia*",
    ),
    DriverFault(
        "no-devices",
        r"(?i)no devices were found",
        "the driver works, but finds no GPU",
        "see whether the machine has one: lspci -d 10de:",
    ),
)


@dataclass(frozen=True, slots=True)
class Mig:
    """A MIG instance: its profile (``1g.5gb``), its number on its GPU, its UUID.

    ``ids`` has the numbers of its GPU instance and its compute instance, ``7/0``; empty where the
    driver was not asked for them.
    """

    profile: str
    number: int
    uuid: str
    ids: str = ""

    @property
    def memory(self) -> int:
        """Memory in MiB, as its profile says it; 0 where that does not."""
        match = re.search(r"\.(\d+)gb", self.profile)
        return int(match[1]) << 10 if match else 0


@dataclass(frozen=True, slots=True)
class NvidiaGpu:
    """One GPU. ``kind`` is what GPUs of the same model and settings share, ``OF_KIND``.

    Memory is in MiB, clocks in MHz, power in W; a value that the driver does not know is as it
    wrote it, such as ``[N/A]``.
    """

    index: int
    uuid: str
    bus_id: str
    kind: Mapping[str, str]
    mig: tuple[Mig, ...] = ()

    @property
    def name(self) -> str:
        """Its model: ``NVIDIA H100 80GB HBM3``."""
        return self.kind.get("name", "")

    @property
    def memory(self) -> int:
        """Memory in MiB; 0 where it is not known, as on a Jetson."""
        text = self.kind.get("memory.total", "")
        return int(text) if text.isdigit() else 0

    @property
    def usable(self) -> int:
        """Memory in MiB that one program has at most: that of the smallest part of one in parts."""
        return min((part.memory for part in self.mig), default=self.memory)

    @property
    def mig_is_on(self) -> bool:
        """Whether it is cut into MIG instances, or can be."""
        return self.kind.get("mig.mode.current") == "Enabled"


@dataclass(frozen=True, slots=True)
class Driver:
    """NVIDIA's driver: what is loaded, the newest CUDA that it runs, its GPUs; what is wrong.

    ``problem`` is empty where it works. ``source`` is what reported it, and ``says`` what that one
    said last when it failed.
    """

    version: str = ""
    cuda: str = ""
    gpus: tuple[NvidiaGpu, ...] = ()
    source: str = ""
    problem: str = ""
    remedy: str = ""
    trouble: str = ""
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Jetson:
    """A Jetson: its board, its release of Linux for Tegra, and the JetPack that this one is of."""

    board: str
    l4t: str
    jetpack: str = field(default="")


def nodes(root: Path = ROOT) -> list[Path]:
    """Return the device nodes of the GPUs, one per GPU."""
    return sorted(root.glob(NODES))


def signs(root: Path = ROOT, find: Find = which) -> tuple[str, ...]:
    """What speaks for a GPU that programs can use: paths; empty where nothing does."""
    traces = [path for trace in TRACES for path in sorted(root.glob(trace))]
    tool = find(TOOL)
    return tuple(str(path) for path in (*traces, *([tool] if tool else [])))


def read(
    root: Path = ROOT, find: Find = which, ask: Ask = probe, *, library_first: bool = False
) -> Driver:
    """Query the driver: by ``nvidia-smi``, or by its library where that is missing.

    With ``library_first`` in the other order. Where one fails, the other is the fallback.
    """
    tool = find(TOOL) or _existing(root / WSL_TOOL)
    by_tool = (lambda: _ask_tool(str(tool), ask)) if tool else None
    by_library = (lambda: _ask_library(ask)) if library_first or signs(root, find) else None
    sources = (by_library, by_tool) if library_first else (by_tool, by_library)
    failed: list[Driver] = []
    for ask_source in sources:
        driver = ask_source() if ask_source else None
        if driver and not driver.problem:
            return _with_module(driver, root)
        failed += [driver] if driver else []
    # Where neither is installed, the devices say more than the failure to load.
    informative = [one for one in failed if tool or one.trouble != "no-library"]
    return _with_module(informative[0] if informative else _nothing(root), root)


def rows_of(
    fields: Iterable[str], root: Path = ROOT, find: Find = which, ask: Ask = probe
) -> list[dict[str, str]]:
    """What nvidia-smi reports for every GPU now, by its field names; those that it knows.

    Empty where there is no nvidia-smi, or where it fails.
    """
    tool = find(TOOL) or _existing(root / WSL_TOOL)
    if tool is None:
        return []
    known = list(fields)
    answer = _table(str(tool), known, ask)
    return _rows(answer.stdout, known) if answer.ok else []


def processes(
    root: Path = ROOT, find: Find = which, ask: Ask = probe
) -> tuple[tuple[str, str, str], ...]:
    """What computes on the GPUs now: the UUID of the GPU, the process's number and name."""
    tool = find(TOOL) or _existing(root / WSL_TOOL)
    query = [str(tool), "--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader"]
    answer = ask(query) if tool else None
    lines = answer.stdout.splitlines() if answer and answer.ok else []
    cells = ([cell.strip() for cell in line.split(",", 2)] for line in lines)
    return tuple((row[0], row[1], row[2]) for row in cells if len(row) == 3 and row[1].isdigit())


def words_of(value: str) -> list[str]:
    """The words of a variable that chooses GPUs, such as CUDA_VISIBLE_DEVICES."""
    return [word.strip() for word in value.split(",") if word.strip()]


def find_gpu(word: str, gpus: Iterable[NvidiaGpu]) -> NvidiaGpu | None:
    """The GPU that such a word names: by its number, its UUID or the start of it, or by a part.

    A part is named by its UUID, or as ``0:1``, the second MIG instance of the first GPU; the GPU
    is given with that part alone.
    """
    number, _, part = word.partition(":")
    for gpu in gpus:
        if number.isdigit() and gpu.index == int(number) and not part:
            return gpu
        if word.startswith("GPU-") and gpu.uuid.startswith(word):
            return gpu
        parts = [each for each in gpu.mig if f"{gpu.index}:{each.number}" == word]
        parts += [each for each in gpu.mig if each.uuid == word]
        parts += _by_old_name(word, gpu)
        if parts:
            return replace(gpu, mig=tuple(parts[:1]))
    return None


def _by_old_name(word: str, gpu: NvidiaGpu) -> list[Mig]:
    """Return the parts that ``MIG-GPU-UUID/7/0`` may name, as drivers before 470 have it.

    It has the numbers of the GPU instance and of the compute instance. A part whose numbers are
    not known may be any.
    """
    own, numbers = f"MIG-{gpu.uuid}/", word.removeprefix(f"MIG-{gpu.uuid}/")
    if numbers == word:
        return []
    return [p for p in gpu.mig if p.ids in ("", numbers) and not p.uuid.startswith(own)]


def visible(gpus: Sequence[NvidiaGpu], value: str | None) -> tuple[NvidiaGpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves to a program, with those parts alone that it names.

    Raises ``no-device`` where it names one that is not there, or hides all.
    """
    if value is None or not gpus:
        return tuple(gpus)
    chosen: dict[str, NvidiaGpu] = {}
    for word in words_of(value):
        gpu = find_gpu(word, gpus)
        if gpu is None:
            raise _hidden(f"CUDA_VISIBLE_DEVICES={value}: {word} names no GPU here")
        before = chosen.get(gpu.uuid)
        chosen[gpu.uuid] = replace(gpu, mig=before.mig + gpu.mig) if before else gpu
    if not chosen:
        raise _hidden("CUDA_VISIBLE_DEVICES is set and empty: it hides every GPU")
    return tuple(chosen.values())


def _hidden(why: str) -> Error:
    hint = "`unset CUDA_VISIBLE_DEVICES`; what there is: `nvidia-smi -L`"
    return Error("no-device", why, hint=hint)


def kinds() -> tuple[Mapping[str, str], ...]:
    """Return the driver's report on the GPUs' models and settings; may be empty."""
    return tuple(gpu.kind for gpu in read().gpus)


def jetson(root: Path = ROOT) -> Jetson | None:
    """Which Jetson this is; None on other machines. It is read from its release file and board."""
    release = read_or_empty(root / "etc/nv_tegra_release")
    board = read_or_empty(root / "proc/device-tree/model").strip("\0\n ")
    match = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", release)
    if not match:
        return Jetson(board, "") if "jetson" in board.lower() else None
    l4t = f"{match[1]}.{match[2]}"
    return Jetson(board or "Jetson", l4t, _jetpack(l4t))


JETPACKS = {
    "32.4.2": "4.4 DP",
    "32.4.3": "4.4",
    "32.4.4": "4.4.1",
    "32.5": "4.5",
    "32.5.1": "4.5.1",
    "32.6.1": "4.6",
    "32.7.1": "4.6.1",
    "34.1": "5.0 DP",
    "35.1": "5.0.2",
    "35.2.1": "5.1",
    "35.3.1": "5.1.1",
    "35.4.1": "5.1.2",
    "36.2": "6.0 DP",
    "36.3": "6.0",
    "36.4": "6.1",
    "36.4.3": "6.2",
}
"""JetPack by the release of Linux for Tegra: the release notes of the latter."""


def _jetpack(l4t: str) -> str:
    return next((name for known, name in JETPACKS.items() if compare(known, l4t) == 0), "")


def least_driver(cuda: str) -> str:
    """The oldest driver that runs programs of this CUDA; empty for one that is not known."""
    return LEAST_DRIVERS.get(cuda.partition(".")[0], "")


def no_driver(
    driver: Driver, *, needed: str = "", cuda: str = "", context: Sequence[str] = ()
) -> Error:
    """The failure to raise where the driver is missing, broken, or too old for ``cuda``."""
    needed = needed or least_driver(cuda)
    wants = f"; {f'CUDA {cuda}' if cuda else 'this'} needs driver {needed} or newer"
    problem = driver.problem or f"the driver {driver.version} is too old"
    lines = (*context, *driver.says)
    return Error(
        "no-driver",
        problem + (wants if needed else ""),
        hint=driver.remedy or f"update the driver to {needed} or newer",
        context=lines or (f"looked for: {', '.join(LOOKED_FOR)}",),
    )


def _nothing(root: Path) -> Driver:
    """No tool and no library: why, by what else there is."""
    paths = nodes(root)
    if paths:
        return Driver(
            problem=f"{len(paths)} NVIDIA devices were found, but not nvidia-smi",
            remedy="install the driver's utilities; a container needs the NVIDIA container toolkit",
            trouble="no-tool",
        )
    return Driver(
        problem="there is no NVIDIA driver",
        remedy="install NVIDIA's driver; start a container with the GPU (`cm docker script ... "
        "--all_gpus`); without a GPU: --device=cpu",
        trouble="not-there",
    )


def _with_module(driver: Driver, root: Path) -> Driver:
    """With the version of the loaded module: the one that counts where the library differs."""
    text = read_or_empty(root / "proc/driver/nvidia/version")
    match = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]+)", text)
    loaded = match[1] if match else ""
    says = driver.says
    if driver.trouble == "mismatch" and loaded:
        says = (*says, f"loaded is {loaded}")
    return replace(driver, version=loaded or driver.version, says=says)


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


# ---- nvidia-smi


def _ask_tool(tool: str, ask: Ask) -> Driver:
    answer = _table(tool, [*OF_ONE, *OF_KIND], ask)
    rows = _rows(answer.stdout) if answer.ok or answer.status == INFOROM else []
    if not rows:
        return _troubled(answer, TOOL)
    mig: dict[str, tuple[Mig, ...]] = {}
    if any(row.get("mig.mode.current") == "Enabled" for row in rows):
        mig = mig_instances(ask([tool, "-L"]).stdout, ask([tool]).stdout)
    header = ask([tool, "-q", "-d", "COMPUTE"])
    # Since driver 610 it is called "CUDA UMD Version", that of the libraries of the user.
    cuda = re.search(r"^CUDA (?:UMD )?Version\s*:\s*([\d.]+)", header.stdout, re.MULTILINE)
    gpus = tuple(_gpu(number, row, mig) for number, row in enumerate(rows))
    version = gpus[0].kind.get("driver_version", "").replace("[N/A]", "")
    return Driver(version, cuda[1] if header.ok and cuda else "", gpus, source=TOOL)


def _table(tool: str, fields: list[str], ask: Ask) -> ProbeResult:
    """The answer to those of the fields that this nvidia-smi knows."""
    answer = ask(_query(tool, fields))
    while not answer.ok and (unknown := _unknown_field(answer.output)) in fields:
        fields.remove(unknown)
        answer = ask(_query(tool, fields))
    return answer


def _query(tool: str, fields: Iterable[str]) -> list[str]:
    return [tool, f"--query-gpu={','.join(fields)}", "--format=csv,nounits"]


def _unknown_field(said: str) -> str:
    match = re.search(r'Field "([^"]+)" is not a valid field', said)
    return match[1] if match else ""


def _rows(text: str, fields: Iterable[str] = ("name",)) -> list[dict[str, str]]:
    """The table as nvidia-smi writes it, by the names in its head without their units.

    Its head is the first line with one of ``fields``; warnings before and between are left out.
    """
    # Line by line: a quotation mark in a warning would swallow what follows.
    lines = [next(csv.reader([line], skipinitialspace=True), []) for line in text.splitlines()]
    named = [[name.partition(" [")[0].strip() for name in line] for line in lines]
    wanted = {*fields}
    start = next((n for n, names in enumerate(named) if wanted & {*names}), len(lines))
    heads = named[start] if start < len(lines) else []
    rows = [[cell.strip() for cell in line] for line in lines[start + 1 :]]
    return [dict(zip(heads, row, strict=True)) for row in rows if len(row) == len(heads)]


def _gpu(number: int, row: Mapping[str, str], mig: Mapping[str, tuple[Mig, ...]]) -> NvidiaGpu:
    uuid, index = row.get("uuid", ""), row.get("index", "")
    kind = {name: row[name] for name in OF_KIND if name in row}
    place = int(index) if index.isdigit() else number
    return NvidiaGpu(place, uuid, row.get("pci.bus_id", ""), kind, mig.get(uuid, ()))


def mig_instances(text: str, table: str = "") -> dict[str, tuple[Mig, ...]]:
    """The instances of every GPU, by its UUID, out of what ``nvidia-smi -L`` prints.

    The numbers of their GPU and compute instances are in the ``table`` of ``nvidia-smi`` alone.
    """
    rows = re.findall(r"^\|\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+\|", table, re.MULTILINE)
    ids = {(gpu, part): f"{instance}/{compute}" for gpu, instance, compute, part in rows}
    instances: dict[str, tuple[Mig, ...]] = {}
    gpu = index = ""
    for line in text.splitlines():
        card = re.match(r"GPU (\d+): .*\(UUID: (\S+)\)", line)
        part = re.match(r"\s*MIG (\S+)\s+Device\s+(\d+): \(UUID: (\S+)\)", line)
        if card:
            index, gpu = card[1], card[2]
            instances[gpu] = ()
        elif part and gpu:
            numbers = ids.get((index, part[2]), "")
            instances[gpu] += (Mig(part[1], int(part[2]), part[3], numbers),)
    return instances


def _troubled(answer: ProbeResult, source: str) -> Driver:
    """Return the driver that reported this failure instead of its GPUs."""
    says = tuple(line.strip() for line in answer.output.splitlines() if line.strip())[:5]
    cause = next((one for one in TROUBLES if re.search(one.match, answer.output)), None)
    if cause:
        return Driver(
            source=source, problem=cause.why, remedy=cause.remedy, trouble=cause.name, says=says
        )
    return Driver(
        source=source,
        problem=f"the NVIDIA driver does not work: {answer.problem or 'it lists no GPU'}",
        remedy=f"see: {TOOL}; after an update, restart",
        trouble="other",
        says=says,
    )


# ---- NVML


def _ask_library(ask: Ask) -> Driver:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nvml.py")
    answer = ask([sys.executable, "-I", program])
    values = json_values(answer.stdout) if answer.ok else ()
    report = next((value for value in values if isinstance(value, dict) and value.get("gpus")), {})
    rows = report.get("gpus")
    if not rows:
        return _troubled(answer, "NVML")
    mig = {row["uuid"]: tuple(Mig(*part) for part in row.pop("mig")) for row in rows}
    gpus = tuple(_gpu(number, row, mig) for number, row in enumerate(rows))
    return Driver(report["driver"], report["cuda"], gpus, source="NVML")
