"""Requirements of the scripts of a request, as far as they are known before a run.

Programs are read from their native scripts and hooks; downloads, room and privileges are those of
the plan. Nothing runs and nothing is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from cmbench.api.planning import PlannedRun, plan
from cmbench.doctor.checks import TOOLS, accelerators, containers, network
from cmbench.doctor.finding import INFO, LOOK, OK, STOP, Finding, MachineProbe, checked
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import os_facts
from cmbench.lib.text_files import counted, size_text
from cmbench.plan.needs import NOTHING
from cmbench.plan.planned_step import PlannedStep, sure, walk
from cmbench.session.call import RunRequest

_PACKAGES = {name: known for _, names, _, known in TOOLS for name in names[:1]}
_PROGRAMS = frozenset(
    [*_PACKAGES, "clang", "clang++", "ninja", "wget", "aria2c", "bazel", "cargo", "rsync"]
    + ["dmidecode", "ffmpeg", "git-lfs", "go", "java", "javac", "ldconfig", "lscpu"]
    + ["mvn", "node", "npm", "numactl", "nvcc", "nvidia-smi", "patch", "perf", "protoc", "rclone"]
    + ["rocminfo", "ssh", "scp", "sudo", "swig", "systemctl", "xz", "zip", "7z", "autoconf"]
    + ["automake", "libtool", "bison", "flex", "docker", "podman", "apptainer", "singularity"]
)
"""Programs that scripts of the collections call and that a machine may lack."""
_COMPILERS = frozenset(name for area, names, _, _ in TOOLS if area == "compilers" for name in names)
_ACCELERATED = re.compile(r"cuda|nvidia|tensorrt|rocm|qaic|habana|tpu")


def needs_of(request: RunRequest, machine: MachineProbe) -> list[Finding]:
    """Return what a run of ``request`` needs and what of it is there, in the order of the doctor.

    Raises ``Error`` where the request cannot be planned.
    """
    planned = plan(request)
    planned_steps = [
        planned_step
        for planned_step in walk(planned.plan.root)
        if planned_step.detail.needs is not NOTHING
    ]
    programs = _called(request, _certain(planned, planned_steps))
    perhaps = {k: v for k, v in _called(request, planned_steps).items() if k not in programs}
    checks = (
        partial(_steps, planned=planned, planned_steps=planned_steps),
        partial(_programs, programs=programs),
        partial(_perhaps, programs=perhaps),
        partial(_packages, planned_steps=planned_steps),
        partial(_room, planned=planned),
        partial(_network, planned=planned),
        partial(_privileges, planned=planned),
        partial(_accelerators, planned_steps=planned_steps),
    )
    return [finding for check in checks for finding in checked(check, machine)]


def _steps(
    machine: MachineProbe, planned: PlannedRun, planned_steps: list[PlannedStep]
) -> Iterator[Finding]:
    text = f"{counted(planned.plan.steps, 'step')}, {planned.plan.hits} of them from the cache"
    open_steps = sum(not planned_step.script for planned_step in planned_steps)
    if open_steps:
        text += f"; what {open_steps} of them will be is known only during the run"
    yield Finding("plan", INFO, text)
    licences = ", ".join(planned.totals["licences"])
    if licences:
        yield Finding("licences", LOOK, f"to be accepted: {licences}")


def _certain(planned: PlannedRun, planned_steps: list[PlannedStep]) -> list[PlannedStep]:
    """Return those that are wanted whatever the run finds on its way."""
    certain = {id(planned_step) for planned_step in sure(planned.plan.root)}
    return [planned_step for planned_step in planned_steps if id(planned_step) in certain]


def _perhaps(machine: MachineProbe, programs: Mapping[str, list[str]]) -> Iterator[Finding]:
    """Yield what is missing for steps that the run may or may not need."""
    missing = [
        f"{name} (called by {', '.join(dict.fromkeys(users))})"
        for name, users in sorted(programs.items())
        if not machine.find(name)
    ]
    if missing:
        yield Finding("perhaps", INFO, f"missing, but called only if needed: {', '.join(missing)}")


def _called(request: RunRequest, planned_steps: list[PlannedStep]) -> dict[str, list[str]]:
    """Programs with the scripts that call them, but for those that a step of the plan finds."""
    step_runs = [
        planned_step.step_run for planned_step in planned_steps if planned_step.step_run is not None
    ]
    brought = {tag for step_run in step_runs for tag in step_run.script.tags}
    users_by_program: dict[str, list[str]] = {}
    for step_run in step_runs:
        programs = request.workspace.index.contents.programs(step_run.script.path).called_programs
        for name in (programs & _PROGRAMS) - brought:
            users_by_program.setdefault(name, []).append(step_run.script.alias)
    return users_by_program


def _programs(machine: MachineProbe, programs: Mapping[str, list[str]]) -> Iterator[Finding]:
    for area, names in _by_area(programs):
        present = [name for name in names if machine.find(name)]
        if present:
            yield Finding(area, OK, ", ".join(present))
        for name in names:
            if name not in present:
                users = ", ".join(dict.fromkeys(programs[name]))
                text = f"missing: {name} (called by {users})"
                yield Finding(area, LOOK, text, _install(machine, name))
    if not programs.keys().isdisjoint(("docker", "podman", "apptainer", "singularity")):
        yield from containers(machine)


def _by_area(programs: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    names = sorted(programs)
    for area, fits in (("compilers", True), ("tools", False)):
        members = [name for name in names if (name in _COMPILERS) == fits]
        if members:
            yield area, members


def _install(machine: MachineProbe, name: str) -> str:
    manager = os_facts(machine.root).package_manager
    packages = _PACKAGES.get(name, {}).get(manager, name).split()
    return install_command(manager, packages, as_root=machine.uid == 0)


def _packages(machine: MachineProbe, planned_steps: list[PlannedStep]) -> Iterator[Finding]:
    """Packages of the system and of Python that steps of the plan look for, else install."""
    packages_by_kind: dict[str, list[str]] = {"system": [], "Python": []}
    for planned_step in planned_steps:
        kind = _KINDS.get(planned_step.step_run.script.alias if planned_step.step_run else "")
        if kind and planned_step.variations:
            packages_by_kind[kind].append(planned_step.variations[0].removeprefix("package."))
    names = [name for name in dict.fromkeys(packages_by_kind["system"]) if not machine.find(name)]
    if names:
        manager = os_facts(machine.root).package_manager or "a package manager"
        text = f"looked for and, if missing, installed with {manager}: {', '.join(names)}"
        may = machine.uid == 0 or machine.find("sudo") is not None
        remedy = "" if may else "ask an administrator to install them: there is no sudo here"
        yield Finding("libraries", INFO if may else LOOK, text, remedy)
    if packages_by_kind["Python"]:
        packages = ", ".join(dict.fromkeys(packages_by_kind["Python"]))
        yield Finding("Python", INFO, f"packages that are installed if missing: {packages}")


_KINDS = {"get-generic-sys-util": "system", "get-generic-python-lib": "Python"}


def _room(machine: MachineProbe, planned: PlannedRun) -> Iterator[Finding]:
    needed, free = planned.totals["disk_bytes"], planned.totals["disk_free_bytes"]
    unknown = planned.totals["steps_of_unknown_disk"]
    text = f"{size_text(needed)} needed, {size_text(free)} free in {machine.store}"
    if unknown:
        text += f"; {unknown} step{'' if unknown == 1 else 's'} of which nothing is known"
    state = STOP if needed > free else OK
    remedy = "make room, or use another disk: `export CM_REPOS=/path/with/space`"
    yield Finding("disk", state, text, remedy if state == STOP else "")


def _network(machine: MachineProbe, planned: PlannedRun) -> Iterator[Finding]:
    hosts = planned.totals["network"]
    if not hosts:
        yield Finding("network", OK, "nothing is downloaded")
        return
    count, size = planned.totals["downloads"], planned.totals["download_bytes"]
    text = f"{count} download{'' if count == 1 else 's'} from {', '.join(hosts)}"
    if size:
        text += f", {size_text(size)}"
    if planned.totals["downloads_of_unknown_size"]:
        text += f"; {planned.totals['downloads_of_unknown_size']} of unknown size"
    yield Finding("network", INFO, text)
    yield from network(machine)


def _privileges(machine: MachineProbe, planned: PlannedRun) -> Iterator[Finding]:
    privileges = planned.totals["privileges"]
    if not privileges:
        yield Finding("privileges", OK, "none")
    elif machine.uid == 0 or machine.find("sudo"):
        yield Finding("privileges", INFO, "; ".join(privileges))
    else:
        text = f"{'; '.join(privileges)}; there is no sudo here"
        yield Finding("privileges", LOOK, text, "run as root, or install what is missing before")


def _accelerators(machine: MachineProbe, planned_steps: list[PlannedStep]) -> Iterator[Finding]:
    if any(_ACCELERATED.search(planned_step.tags) for planned_step in planned_steps):
        yield from accelerators(machine)
