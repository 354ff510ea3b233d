"""Checks for every vendor's flow: its user, containers, room, memory, data, left-overs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cmbench.doctor.checks import containers
from cmbench.doctor.vendors import INFO, LOOK, OK, STOP, Finding, FlowCheck, FlowView
from cmbench.lib.host.machine import memory_facts

AUDIT_FILE = "audit.config"
SCRATCH_VARIABLE = "MLPERF_SCRATCH_PATH"
LINK_NAMES = ("data", "models", "preprocessed_data")
ALL_BENCHMARKS_BYTES = 3 * 10**12
"""Bytes that NVIDIA's guides recommend for the scratch space."""
DLRM_MEMORY_BYTES = 40 * 10**9
"""Bytes of memory that NVIDIA's guide asks for where DLRM is run."""
HUGE_PAGES_FILE = "sys/kernel/mm/transparent_hugepage/enabled"


def check_root(view: FlowView) -> Iterator[Finding]:
    """Check that the user is not root, whose files others cannot change."""
    uid = view.machine.uid
    if uid != 0 or view.subject.allow_root:
        yield view.finding(OK, f"user {uid}")
        return
    text = "this runs as root: other users cannot change what it writes"
    flow_folder = view.subject.folder
    if flow_folder is None:
        yield view.finding(LOOK, text, "run as another user, or with _workdir … --allow_root")
        return
    remedy = f"run as another user, or set allow_root: true in {flow_folder / 'flow.yaml'}"
    yield view.finding(LOOK, f"{text}; make link_dirs and make build refuse it", remedy)


def check_folder(view: FlowView) -> Iterator[Finding]:
    """Check that the folder of the flow can be written."""
    path = view.subject.folder
    if path is None:
        return
    if not path.is_dir():
        word = "not a folder" if path.exists() else "not there"
        yield view.finding(STOP, f"{path} is {word}", "name the folder of the flow: --path=DIR")
    elif os.access(path, os.W_OK | os.X_OK):
        yield view.finding(OK, f"{path} can be written")
    else:
        remedy = f"`sudo chown -R {view.machine.uid} {path}`"
        yield view.finding(STOP, f"{path} cannot be written by user {view.machine.uid}", remedy)


def check_engines(view: FlowView) -> Iterator[Finding]:
    """Check for a container engine that this user may use; make's targets need none."""
    for finding in containers(view.machine):
        yield view.finding(finding.state, finding.text, finding.remedy)


def _scratch(view: FlowView) -> Path | None:
    path = view.subject.scratch or view.env(SCRATCH_VARIABLE)
    return Path(path) if path else None


def check_scratch(view: FlowView) -> Iterator[Finding]:
    """Check that the scratch space exists, and can be read and written."""
    path = _scratch(view)
    if path is None:
        remedy = f"export {SCRATCH_VARIABLE}=DIR, on a disk with 3 TB for everything"
        yield view.finding(INFO, f"{SCRATCH_VARIABLE} is not set", remedy)
    elif _can_be_made(path):
        remedy = "`make link_dirs` makes it; where it belongs to another disk, mount that first"
        yield view.finding(INFO, f"{path} is not there yet", remedy)
    elif not path.is_dir():
        yield view.finding(STOP, f"{path} is not a folder", f"mount it, or `mkdir -p {path}`")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"see its owner and mode: `ls -ld {path}`; for a network file system: /etc/fstab"
        yield view.finding(
            STOP, f"{path} cannot be read and written by user {view.machine.uid}", remedy
        )
    else:
        yield view.finding(OK, f"{path} can be read and written")


def _can_be_made(path: Path) -> bool:
    """Return whether only the last folder of a path is missing.

    Where more is missing, a disk is not mounted, or the path is misspelt.
    """
    parent = path.parent
    return not os.path.lexists(path) and parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)


def check_links(view: FlowView) -> Iterator[Finding]:
    """Check that the links of the scratch space have targets."""
    for name in LINK_NAMES if view.subject.folder else ():
        path = view.subject.folder / "build" / name if view.subject.folder else Path(name)
        if path.is_symlink() and not path.exists():
            text = f"build/{name} points to {os.readlink(path)}, which does not exist"
            yield view.finding(STOP, text, "mount it, or `make link_dirs`")


def _existing(start: Path) -> Path:
    return next(path for path in (start, *start.parents) if path.exists())


def check_room(view: FlowView) -> Iterator[Finding]:
    """Check the disk space for the benchmarks; for all of them where none is named.

    Models and data lie in the cache, whatever disk the scratch space is on.
    """
    store = Path(view.machine.store)
    free = shutil.disk_usage(_existing(store)).free
    text = f"{_gb(free)} free in {store}, where models and data lie"
    sizes = [(need.name, need.disk) for need in view.subject.needs]
    large = [f"{name} ({_gb(size)})" for name, size in sizes if size > free]
    remedy = "`export CM_REPOS=DIR` on a larger disk, or fewer benchmarks: BENCHMARKS="
    if large:
        yield view.finding(LOOK, f"{text}: not enough for {', '.join(large)}", remedy)
    elif not view.subject.folder and free < ALL_BENCHMARKS_BYTES:
        yield view.finding(
            INFO, f"{text}; all benchmarks together take {_gb(ALL_BENCHMARKS_BYTES)}"
        )
    else:
        yield view.finding(OK, text)


def check_memory(view: FlowView) -> Iterator[Finding]:
    """Check the memory of the machine, or of its control group, for large benchmarks."""
    facts = memory_facts(view.machine.root)
    have = min(filter(None, (facts.total, facts.limit)), default=0)
    if not have:
        return
    sizes = [(need.name, need.memory) for need in view.subject.needs]
    if not view.subject.folder:
        sizes = [("dlrm", DLRM_MEMORY_BYTES)]
    large = [f"{name} takes {_gb(size)}" for name, size in sizes if size > have]
    if large:
        text = f"{_gb(have)} of memory: {', '.join(large)}, and ends with std::bad_alloc"
        remedy = "leave it out: BENCHMARKS=…, --benchmarks=…"
        yield view.finding(LOOK if view.subject.folder else INFO, text, remedy)
    else:
        yield view.finding(OK, f"{_gb(have)} of memory")


def check_data(view: FlowView) -> Iterator[Finding]:
    """Check for folders of data that are incomplete."""
    base = _scratch(view)
    for need in view.subject.needs if base else ():
        for path, end, least in need.data:
            directory = (base / path) if base else Path(path)
            count = _count(directory, end, least)
            if 0 < count < least:
                text = f"{need.name}: {directory} holds {count} of {least} files ({end or 'any'})"
                yield view.finding(
                    STOP, text, "`make download_data` again, or copy what is missing"
                )


def _count(directory: Path, end: str, least: int) -> int:
    """How many files of that name are below; counting ends where there are enough."""
    if not directory.is_dir():
        return 0
    every = (name for _, _, names in os.walk(directory) for name in names if name.endswith(end))
    return sum(1 for _ in islice(every, least))


def check_audit(view: FlowView) -> Iterator[Finding]:
    """Check for a left-over audit.config, which makes a compliance run of every run."""
    directories = [*([view.subject.folder] if view.subject.folder else []), Path.cwd()]
    leftovers = [
        directory / AUDIT_FILE
        for directory in dict.fromkeys(directories)
        if (directory / AUDIT_FILE).is_file()
    ]
    for path in leftovers:
        yield view.finding(STOP, f"{path} changes the results of every run", f"rm {path}")
    if not leftovers:
        yield view.finding(OK, f"no {AUDIT_FILE} is left over")


def check_huge_pages(view: FlowView) -> Iterator[Finding]:
    """Check for transparent huge pages, which the tuning guide recommends for Server."""
    setting = view.machine.read(HUGE_PAGES_FILE).partition("[")[2].partition("]")[0]
    server = not view.subject.scenarios or "Server" in view.subject.scenarios
    if setting == "always":
        yield view.finding(OK, "transparent huge pages: always")
    elif setting and server:
        remedy = f"for Server, as root: echo always > /{HUGE_PAGES_FILE}"
        yield view.finding(LOOK, f"transparent huge pages: {setting}", remedy)


def _gb(size: int) -> str:
    return f"{size / 10**9:.0f} GB"


CHECKS = (
    FlowCheck("user.root", check_root),
    FlowCheck("folder.writable", check_folder),
    FlowCheck("container.engine", check_engines),
    FlowCheck("scratch.space", check_scratch),
    FlowCheck("scratch.link", check_links),
    FlowCheck("disk.room", check_room),
    FlowCheck("memory.room", check_memory),
    FlowCheck("memory.thp", check_huge_pages),
    FlowCheck("data.whole", check_data),
    FlowCheck("audit.left-over", check_audit),
)
