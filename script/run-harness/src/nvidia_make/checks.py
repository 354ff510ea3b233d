"""Checks before the long part: each with an id, what was found, and what to do about it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nvidia_flow.errors import FlowError
from nvidia_flow.space import FOLDERS, too_large

from nvidia_make import neuron
from nvidia_make.flow import Flow
from nvidia_make.work import Work

OK, LOOK, STOP = "ok", "look", "stop"
AUDIT = "audit.config"
DLRM_BYTES = 40 * 10**9
"""What the guide says that DLRM's data take in memory."""
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
ENGINES = ("docker", "podman", "buildah", "apptainer")


@dataclass(frozen=True, slots=True)
class Check:
    """A finding: ``state`` is ok, look (may get in the way) or stop (nothing runs)."""

    id: str
    state: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.state:5}{self.id}: {self.found}"
        return f"{line}\n     do: {self.remedy}" if self.remedy else line


def of_user(flow: Flow) -> Iterator[Check]:
    """Files of root are in the way of everybody else."""
    if os.geteuid() == 0 and not flow.settings.allow_root:
        told = "these words run as root: what they write, others cannot change"
        yield Check("user.root", LOOK, told, "another user, or _workdir … --allow_root")
    else:
        yield Check("user.root", OK, f"user {os.geteuid()}")


def of_folder(flow: Flow) -> Iterator[Check]:
    """The folder of the flow can be written."""
    if os.access(flow.folder, os.W_OK):
        yield Check("folder.writable", OK, f"{flow.folder} can be written")
    else:
        remedy = f"sudo chown -R {os.geteuid()} {flow.folder}"
        yield Check("folder.writable", STOP, f"{flow.folder} cannot be written", remedy)


def of_containers(flow: Flow) -> Iterator[Check]:
    """Whether there is a container engine; the words need none."""
    del flow
    there = [name for name in ENGINES if shutil.which(name)]
    told = f"{', '.join(there)}: there" if there else "no container engine, and none is needed"
    yield Check("container.engine", OK, told)


def of_links(flow: Flow) -> Iterator[Check]:
    """The links of the scratch space show something."""
    for name in FOLDERS:
        place = flow.build / name
        if place.is_symlink() and not place.exists():
            told = f"build/{name} shows {os.readlink(place)}, which is not there"
            yield Check("scratch.link", STOP, told, "mount it, or make link_dirs")


def of_room(flow: Flow) -> Iterator[Check]:
    """Room for the full data sets of this round's benchmarks."""
    from nvidia_make.data import benchmarks

    free = shutil.disk_usage(flow.folder).free
    large = too_large([word for word, _ in benchmarks(flow)], free)
    if flow.settings.form == "full" and large:
        told = f"{free / 1e9:.0f} GB free are too few for {', '.join(large)}"
        yield Check("disk.room", LOOK, told, "MLPERF_SCRATCH_PATH on a larger disk, or BENCHMARKS=")
    else:
        yield Check("disk.room", OK, f"{free / 1e9:.0f} GB free")


def of_memory(flow: Flow) -> Iterator[Check]:
    """DLRM's 40 GB, where it is among the benchmarks in full."""
    from nvidia_make.data import benchmarks

    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    asked = any(word.startswith("dlrm") for word, _ in benchmarks(flow))
    if flow.settings.form == "full" and asked and have < DLRM_BYTES:
        told = f"dlrm needs 40 GB of memory, this machine has {have / 1e9:.0f} GB"
        yield Check("memory.dlrm", LOOK, told, "leave dlrm out: BENCHMARKS=…, --benchmarks=…")
    else:
        yield Check("memory.dlrm", OK, f"{have / 1e9:.0f} GB of memory")


def of_gpus(flow: Flow) -> Iterator[Check]:
    """The GPUs, and that CUDA_VISIBLE_DEVICES names some of them."""
    if flow.vendor == neuron.ACCELERATOR:
        yield Check("neuron.there", OK, str(neuron.device(flow)))
        return
    machine = flow.doer.machine()
    if machine is None:
        yield Check("gpu.there", OK, "no NVIDIA GPU: ONNX Runtime is the stand-in")
        return
    yield Check("gpu.there", OK, f"{machine}; its use is not verified on hardware")
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    beyond = [word for word in named.split(",") if word.isdigit() and int(word) >= machine.count]
    if beyond:
        told = f"CUDA_VISIBLE_DEVICES={named} names a GPU that is not there"
        yield Check("gpu.visible", STOP, told, "unset CUDA_VISIBLE_DEVICES")


def of_pages(flow: Flow) -> Iterator[Check]:
    """Transparent huge pages, which the guide wants for Server."""
    del flow
    try:
        told = THP.read_text(encoding="ascii").partition("[")[2].partition("]")[0]
    except OSError:
        return
    if told == "always":
        yield Check("memory.thp", OK, "transparent huge pages: always")
    else:
        remedy = f"for Server, as root: echo always > {THP}"
        yield Check("memory.thp", LOOK, f"transparent huge pages: {told}", remedy)


def of_audit(flow: Flow) -> Iterator[Check]:
    """A left-over audit.config makes a compliance run of every run."""
    left = [path for path in (flow.folder / AUDIT, Path(AUDIT)) if path.is_file()]
    for path in left[:1]:
        yield Check("audit.left-over", STOP, f"{path} spoils every run", f"rm {path}")
    if not left:
        yield Check("audit.left-over", OK, "no audit.config is left over")


CHECKS: tuple[Callable[[Flow], Iterator[Check]], ...] = (
    of_user,
    of_folder,
    of_containers,
    of_links,
    of_room,
    of_memory,
    of_gpus,
    of_pages,
    of_audit,
)


def made(flow: Flow) -> list[Check]:
    """All checks of a folder."""
    return [found for check in CHECKS for found in check(flow)]


def report(flow: Flow) -> None:
    """Show all checks; raises FlowError where one says stop."""
    found = made(flow)
    flow.tell(str(check) for check in found)
    refuse(found)


def before_runs(flow: Flow, work: Work) -> None:
    """The checks that count for runs: what is not ok is shown, and stop stops."""
    server = any(item.config.scenario == "Server" for item in work.items)
    found = [check for check in made(flow) if server or check.id != "memory.thp"]
    flow.tell(str(check) for check in found if check.state != OK)
    refuse(found)


def refuse(found: list[Check]) -> None:
    """Raise FlowError with every finding that says stop."""
    stops = [check for check in found if check.state == STOP]
    if stops:
        told = "; ".join(f"{check.id}: {check.found}" for check in stops)
        raise FlowError("bad-value", told, "; ".join(check.remedy for check in stops))
