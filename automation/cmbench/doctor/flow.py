"""Checks for every vendor's flow: its user, containers, room, memory, data, left-overs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cmbench.doctor.checks import containers
from cmbench.doctor.vendors import INFO, LOOK, OK, STOP, Check, Finding, View
from cmbench.lib.host.machine import memory_facts

AUDIT = "audit.config"
SCRATCH = "MLPERF_SCRATCH_PATH"
LINKS = ("data", "models", "preprocessed_data")
EVERYTHING = 3 * 10**12
"""Bytes that NVIDIA's guides recommend for the scratch space."""
DLRM_MEMORY = 40 * 10**9
"""Bytes of memory that NVIDIA's guide asks for where DLRM is run."""
THP = "sys/kernel/mm/transparent_hugepage/enabled"


def root(view: View) -> Iterator[Finding]:
    """Files of root are in the way of everybody else."""
    uid = view.machine.uid
    if uid != 0 or view.subject.allow_root:
        yield view.found(OK, f"user {uid}")
        return
    told = "this runs as root: other users cannot change what it writes"
    place = view.subject.folder
    if place is None:
        yield view.found(LOOK, told, "run as another user, or with _workdir … --allow_root")
        return
    remedy = f"run as another user, or set allow_root: true in {place / 'flow.yaml'}"
    yield view.found(LOOK, f"{told}; make link_dirs and make build refuse it", remedy)


def folder(view: View) -> Iterator[Finding]:
    """The folder of the flow can be written."""
    place = view.subject.folder
    if place is None:
        return
    if not place.is_dir():
        word = "not a folder" if place.exists() else "not there"
        yield view.found(STOP, f"{place} is {word}", "name the folder of the flow: --path=DIR")
    elif os.access(place, os.W_OK | os.X_OK):
        yield view.found(OK, f"{place} can be written")
    else:
        remedy = f"sudo chown -R {view.machine.uid} {place}"
        yield view.found(STOP, f"{place} cannot be written by user {view.machine.uid}", remedy)


def engines(view: View) -> Iterator[Finding]:
    """A container engine that answers, and lets this user in; the words need none."""
    for found in containers(view.machine):
        yield view.found(found.state, found.text, found.remedy)


def _scratch(view: View) -> Path | None:
    told = view.subject.scratch or view.env(SCRATCH)
    return Path(told) if told else None


def scratch(view: View) -> Iterator[Finding]:
    """The scratch space is there, and can be read and written."""
    place = _scratch(view)
    if place is None:
        remedy = f"export {SCRATCH}=DIR, on a disk with 3 TB for everything"
        yield view.found(INFO, f"{SCRATCH} is not set", remedy)
    elif _can_be_made(place):
        remedy = "make link_dirs makes it; where it belongs to another disk, mount that first"
        yield view.found(INFO, f"{place} is not there yet", remedy)
    elif not place.is_dir():
        yield view.found(STOP, f"{place} is not a folder", f"mount it, or mkdir -p {place}")
    elif not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"see its owner and mode: ls -ld {place}; for a network file system: /etc/fstab"
        yield view.found(
            STOP, f"{place} cannot be read and written by user {view.machine.uid}", remedy
        )
    else:
        yield view.found(OK, f"{place} can be read and written")


def _can_be_made(place: Path) -> bool:
    """Whether only the last folder of a path lacks; what lacks more is not mounted, or misspelt."""
    above = place.parent
    return not os.path.lexists(place) and above.is_dir() and os.access(above, os.W_OK | os.X_OK)


def links(view: View) -> Iterator[Finding]:
    """The links of the scratch space show something."""
    for name in LINKS if view.subject.folder else ():
        place = view.subject.folder / "build" / name if view.subject.folder else Path(name)
        if place.is_symlink() and not place.exists():
            told = f"build/{name} points to {os.readlink(place)}, which does not exist"
            yield view.found(STOP, told, "mount it, or make link_dirs")


def _existing(place: Path) -> Path:
    return next(path for path in (place, *place.parents) if path.exists())


def room(view: View) -> Iterator[Finding]:
    """Disk space for what each benchmark takes; for everything where none is named.

    Models and data lie in the cache, whatever disk the scratch space is on.
    """
    store = Path(view.machine.store)
    free = shutil.disk_usage(_existing(store)).free
    told = f"{_gb(free)} free in {store}, where models and data lie"
    wanted = [(each.name, each.disk) for each in view.subject.needs]
    large = [f"{name} ({_gb(size)})" for name, size in wanted if size > free]
    remedy = "export CM_REPOS=DIR on a larger disk, or fewer benchmarks: BENCHMARKS="
    if large:
        yield view.found(LOOK, f"{told}: not enough for {', '.join(large)}", remedy)
    elif not view.subject.folder and free < EVERYTHING:
        yield view.found(INFO, f"{told}; all benchmarks together take {_gb(EVERYTHING)}")
    else:
        yield view.found(OK, told)


def memory(view: View) -> Iterator[Finding]:
    """Memory of the machine, or of the control group that it runs in, for what takes much."""
    facts = memory_facts(view.machine.root)
    have = min(filter(None, (facts.total, facts.limit)), default=0)
    if not have:
        return
    wanted = [(each.name, each.memory) for each in view.subject.needs]
    if not view.subject.folder:
        wanted = [("dlrm", DLRM_MEMORY)]
    large = [f"{name} takes {_gb(size)}" for name, size in wanted if size > have]
    if large:
        told = f"{_gb(have)} of memory: {', '.join(large)}, and ends with std::bad_alloc"
        remedy = "leave it out: BENCHMARKS=…, --benchmarks=…"
        yield view.found(LOOK if view.subject.folder else INFO, told, remedy)
    else:
        yield view.found(OK, f"{_gb(have)} of memory")


def data(view: View) -> Iterator[Finding]:
    """Folders of data that were begun and are not whole."""
    place = _scratch(view)
    for need in view.subject.needs if place else ():
        for path, end, least in need.data:
            whole = (place / path) if place else Path(path)
            there = _count(whole, end, least)
            if 0 < there < least:
                told = f"{need.name}: {whole} holds {there} of {least} files ({end or 'any'})"
                yield view.found(STOP, told, "make download_data again, or copy what is missing")


def _count(place: Path, end: str, least: int) -> int:
    """How many files of that name are below; counting ends where there are enough."""
    if not place.is_dir():
        return 0
    every = (name for _, _, names in os.walk(place) for name in names if name.endswith(end))
    return sum(1 for _ in islice(every, least))


def audit(view: View) -> Iterator[Finding]:
    """A left-over audit.config makes a compliance run of every run."""
    places = [*([view.subject.folder] if view.subject.folder else []), Path.cwd()]
    left = [place / AUDIT for place in dict.fromkeys(places) if (place / AUDIT).is_file()]
    for path in left:
        yield view.found(STOP, f"{path} changes the results of every run", f"rm {path}")
    if not left:
        yield view.found(OK, f"no {AUDIT} is left over")


def pages(view: View) -> Iterator[Finding]:
    """Transparent huge pages, which the tuning guide recommends for Server."""
    told = view.machine.read(THP).partition("[")[2].partition("]")[0]
    server = not view.subject.scenarios or "Server" in view.subject.scenarios
    if told == "always":
        yield view.found(OK, "transparent huge pages: always")
    elif told and server:
        remedy = f"for Server, as root: echo always > /{THP}"
        yield view.found(LOOK, f"transparent huge pages: {told}", remedy)


def _gb(size: int) -> str:
    return f"{size / 10**9:.0f} GB"


CHECKS = (
    Check("user.root", root),
    Check("folder.writable", folder),
    Check("container.engine", engines),
    Check("scratch.space", scratch),
    Check("scratch.link", links),
    Check("disk.room", room),
    Check("memory.room", memory),
    Check("memory.thp", pages),
    Check("data.whole", data),
    Check("audit.left-over", audit),
)
