"""Looks at the machine before anything is started, and says what will get in the way.

A check is a function from a ``MachineProbe`` to findings; ``CHECKS`` lists them in display order.
Nothing is changed, nothing is sent, no privilege is requested, and every program that is started
has a timeout.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from cmbench.doctor.finding import INFO, LOOK, OK, STOP, Check, Finding, MachineProbe, checked
from cmbench.lib import nvidia
from cmbench.lib.host.machine import memory_facts, usable_cores
from cmbench.lib.host.packages import install_command
from cmbench.lib.host.system import os_facts
from cmbench.lib.text_files import counted, size_text
from common import python_path

_GB = 10**9
_LITTLE_SPACE, _NO_SPACE = 20 * _GB, _GB


def examine(machine: MachineProbe) -> list[Finding]:
    """All findings; a check that fails itself is a finding too."""
    return [finding for check in CHECKS for finding in checked(check, machine)]


def _system(machine: MachineProbe) -> Iterator[Finding]:
    facts = os_facts(machine.root)
    libc = f"glibc {facts.glibc}" if facts.glibc else "no glibc"
    uname = os.uname()
    text = f"{facts.flavor or uname.sysname} {facts.version}, {uname.machine}, {libc}"
    yield Finding("system", OK, " ".join(text.split()))
    if uname.sysname == "Linux" and machine.glob("lib/ld-musl-*"):
        yield Finding(
            "system",
            LOOK,
            "the C library is musl: most ready-made Python packages are for glibc",
            "use a container with Debian, Ubuntu or Fedora",
        )
    if facts.in_container:
        yield Finding("system", INFO, "this runs inside a container")


def _python(machine: MachineProbe) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", OK, f"{version}, {sys.executable}")
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        yield Finding(
            "Python",
            STOP,
            "it cannot make environments: ensurepip or venv is missing",
            _install(machine, {"apt": "python3-venv"}, "python3"),
        )
    import sysconfig

    marker = Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
    if marker.exists() and sys.prefix == sys.base_prefix:
        yield Finding(
            "Python",
            INFO,
            "it belongs to the system, so packages need an environment",
            'cm run script "install python-venv" --name=mlperf',
        )
    if machine.environ.get("CONDA_PREFIX"):
        yield Finding(
            "Python",
            LOOK,
            f"conda is active ({machine.environ['CONDA_PREFIX']}): its libraries come before the"
            " system's, which breaks compiled packages",
            "conda deactivate",
        )
    for name in (python_path.VARIABLE, "PYTHONHOME", "PIP_TARGET", "PIP_USER", "PYTHONNOUSERSITE"):
        if machine.environ.get(name) and name != "PYTHONNOUSERSITE":
            yield Finding(
                "Python",
                LOOK,
                f"{name} is set: every Python takes modules from there",
                f"unset {name}",
            )


TOOLS: tuple[tuple[str, tuple[str, ...], str, Mapping[str, str]], ...] = (
    ("compilers", ("gcc", "clang"), "C", {"apt": "gcc libc6-dev"}),
    ("compilers", ("g++", "clang++"), "C++", {"apt": "g++", "dnf": "gcc-c++", "yum": "gcc-c++"}),
    ("compilers", ("make", "ninja"), "builds", {}),
    ("compilers", ("cmake",), "builds", {}),
    ("tools", ("git",), "repositories", {}),
    ("tools", ("tar",), "archives", {}),
    ("tools", ("unzip",), "zip archives", {}),
    ("tools", ("curl", "wget"), "downloads of other repositories' scripts", {}),
)


def _tools(machine: MachineProbe) -> Iterator[Finding]:
    present: dict[str, list[str]] = {}
    missing: dict[str, list[tuple[str, str]]] = {}
    packages: dict[str, list[str]] = {}
    manager = os_facts(machine.root).package_manager
    for area, names, use, known in TOOLS:
        name = next((n for n in names if machine.find(n)), "")
        if name:
            present.setdefault(area, []).append(f"{name}{_version(machine, name)}")
            continue
        missing.setdefault(area, []).append((names[0], use))
        packages.setdefault(area, []).extend(known.get(manager, names[0]).split())
    for area in ("compilers", "tools"):
        if area in present:
            yield Finding(area, OK, ", ".join(present[area]))
        if area in missing:
            text = ", ".join(f"{name} (for {use})" for name, use in missing[area])
            command = install_command(manager, packages[area], as_root=machine.uid == 0)
            yield Finding(area, LOOK, f"missing: {text}", command)


def _compiled(machine: MachineProbe) -> Iterator[Finding]:
    """LoadGen comes compiled for x86-64 alone on Linux: elsewhere pip compiles it."""
    if machine.architecture == "x86_64":
        return
    import sysconfig

    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    lacking = {}
    if not (machine.find("g++") or machine.find("c++")):
        lacking["a C++ compiler"] = {"apt": "g++", "dnf": "gcc-c++", "yum": "gcc-c++"}
    if not (machine.root / header.lstrip("/")).exists():
        lacking["the Python headers"] = {"apt": "python3-dev"}
    why = f"LoadGen has no wheel for {machine.architecture}"
    if not lacking:
        yield Finding("compilers", INFO, f"{why}: it is compiled on its first use")
        return
    manager = os_facts(machine.root).package_manager
    usual = {"a C++ compiler": "g++", "the Python headers": "python3-devel"}
    packages = [known.get(manager, usual[name]) for name, known in lacking.items()]
    command = install_command(manager, packages, as_root=machine.uid == 0)
    yield Finding(
        "compilers", LOOK, f"{why}, and to compile it {' and '.join(lacking)} is missing", command
    )


def _version(machine: MachineProbe, name: str) -> str:
    if name in ("unzip", "tar", "curl", "wget"):
        return ""
    match = re.search(r"\d+\.\d+(\.\d+)*", machine.say(name, "--version").output)
    return f" {match[0]}" if match else ""


def _install(machine: MachineProbe, known: Mapping[str, str], usual: str) -> str:
    manager = os_facts(machine.root).package_manager
    return install_command(manager, known.get(manager, usual).split(), as_root=machine.uid == 0)


def _cores_and_memory(machine: MachineProbe) -> Iterator[Finding]:
    usable = usable_cores(machine.root)
    total = os.cpu_count() or 1
    quota = f", limited to {usable.quota:g} by a control group" if usable.quota else ""
    yield Finding("cores", OK, f"{usable.cores} of {total} usable{quota}")
    with suppress(OSError):
        load = os.getloadavg()[0]
        if load > max(1.0, 0.25 * usable.cores):
            yield Finding(
                "cores",
                LOOK,
                f"other programs are running (load average {load:.1f} on "
                f"{counted(usable.cores, 'core')}): results will be too low",
                "end them before you measure",
            )
    governor = machine.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    if governor and governor != "performance":
        yield Finding(
            "cores",
            LOOK,
            f'the frequency governor is "{governor}": measured times will vary',
            "sudo cpupower frequency-set --governor performance",
        )
    memory = memory_facts(machine.root)
    limit = f", limited to {size_text(memory.limit)}" if memory.limit else ""
    text = f"{size_text(memory.total)}, {size_text(memory.available)} available{limit}"
    state = LOOK if 0 < memory.available < 2 * _GB else OK
    yield Finding("memory", state, text, "close other programs" if state == LOOK else "")


def _disk(machine: MachineProbe) -> Iterator[Finding]:
    places = {"cache": machine.store, "TMPDIR": machine.environ.get("TMPDIR") or "/tmp"}
    for name, path in places.items():
        existing = Path(path)
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        yield from _free_space(name, existing)
    kind = _file_system(machine, machine.store)
    if kind.startswith(("nfs", "cifs", "lustre", "gpfs", "fuse", "9p")):
        yield Finding(
            "disk",
            LOOK,
            f"the cache is on {kind}, where locks and many small files are slow",
            "keep it on a local disk: `export CM_REPOS=/path/on/a/local/disk`",
        )


def _free_space(name: str, path: Path) -> Iterator[Finding]:
    info = os.statvfs(path)
    free = info.f_bavail * info.f_frsize
    state = STOP if free < _NO_SPACE else LOOK if free < _LITTLE_SPACE else OK
    move = "CM_REPOS" if name == "cache" else "TMPDIR"
    remedy = f"make room, or use another disk: export {move}=/path/with/space"
    text = f"{size_text(free)} free for the {'cache' if name == 'cache' else 'builds'} in {path}"
    yield Finding("disk", state, text, "" if state == OK else remedy)
    if info.f_files and info.f_favail < 10_000:
        yield Finding("disk", LOOK, f"only {info.f_favail} more files fit into {path}", remedy)
    if not os.access(path, os.W_OK):
        yield Finding("disk", STOP, f"{path} cannot be written", f"export {move}=/your/own/folder")
    if info.f_flag & os.ST_NOEXEC:
        yield Finding(
            "disk",
            LOOK,
            f"programs cannot be run from {path} (it is mounted noexec)",
            f"export {move}=/path/on/another/disk",
        )


def _file_system(machine: MachineProbe, path: str) -> str:
    """The type of the file system that holds ``path``."""
    best = ("", "")
    for line in machine.read("proc/mounts").splitlines():
        words = line.split()
        if len(words) > 2:
            point = words[1].rstrip("/")
            if (path == point or path.startswith(point + "/")) and len(point) >= len(best[0]):
                best = (point, words[2])
    return best[1]


def network(machine: MachineProbe) -> Iterator[Finding]:
    """Settings that keep programs from the network."""
    env = machine.environ
    yield from _differing(env)
    yield from _proxies(env)
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "PIP_CERT", "CURL_CA_BUNDLE"):
        if env.get(name) and not os.path.exists(env[name]):
            text = f"{name} names {env[name]}, which does not exist: nothing can be fetched"
            yield Finding("network", STOP, text, f"unset {name}")
    if env.get("PIP_NO_INDEX"):
        yield Finding(
            "network", LOOK, "PIP_NO_INDEX keeps pip from its index", "unset PIP_NO_INDEX"
        )


def _differing(env: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("http_proxy", "https_proxy"):
        values = {env[key] for key in (name, name.upper()) if env.get(key)}
        if len(values) > 1:
            yield Finding(
                "network",
                LOOK,
                f"{name} and {name.upper()} differ, and programs disagree on which counts",
                "give both the same value",
            )


def _proxies(env: Mapping[str, str]) -> Iterator[Finding]:
    proxies = [k for k, v in env.items() if k.lower() in ("http_proxy", "https_proxy") and v]
    if not proxies:
        yield Finding("network", INFO, "no proxy is set (the network itself was not tried)")
        return
    yield Finding("network", OK, f"a proxy is set by {', '.join(sorted(proxies))}")
    if "localhost" not in (env.get("no_proxy") or env.get("NO_PROXY") or ""):
        yield Finding(
            "network",
            LOOK,
            "requests to this machine itself go to the proxy as well",
            "export no_proxy=localhost,127.0.0.1 NO_PROXY=localhost,127.0.0.1",
        )
    if len({key.lower() for key in proxies}) == 1:
        yield Finding("network", LOOK, "only one of http_proxy and https_proxy is set")


def containers(machine: MachineProbe) -> Iterator[Finding]:
    """Container engines, and whether they answer."""
    programs = [
        name for name in ("docker", "podman", "apptainer", "singularity") if machine.find(name)
    ]
    if not programs:
        yield Finding("containers", INFO, "no engine (needed for vendors' implementations only)")
        return
    if "docker" in programs:
        yield from _docker(machine)
    for name in programs:
        if name != "docker":
            yield Finding("containers", OK, f"{name}{_version(machine, name)}")


def _docker(machine: MachineProbe) -> Iterator[Finding]:
    answer = machine.say("docker", "info", "--format", "{{.ServerVersion}} {{.SecurityOptions}}")
    words = answer.output.strip()
    if answer.ok and re.match(r"\d", words):
        rootless = ", rootless" if "rootless" in words else ""
        yield Finding("containers", OK, f"docker {words.split()[0]}{rootless}")
    elif "permission denied" in words:
        yield Finding(
            "containers",
            LOOK,
            "docker is installed, but you may not use it",
            "ask the machine's owner to run: usermod -aG docker "
            + machine.environ.get("USER", "YOU"),
        )
    else:
        why = answer.problem or "no daemon answers"
        yield Finding("containers", LOOK, f"docker does not answer: {why}", "start its daemon")


def _privileges(machine: MachineProbe) -> Iterator[Finding]:
    if machine.uid == 0:
        yield Finding("privileges", INFO, "you are root; nothing here needs that")
    elif machine.find("sudo"):
        yield Finding("privileges", OK, "sudo is available; it is used only if you allow it")
    else:
        yield Finding("privileges", OK, "no sudo; nothing here needs it")


def _limits(machine: MachineProbe) -> Iterator[Finding]:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    state = OK if files >= 4096 or files == resource.RLIM_INFINITY else LOOK
    shown = "no limit of" if files == resource.RLIM_INFINITY else f"{files}"
    yield Finding(
        "limits", state, f"{shown} open files", "ulimit -n 65536" if state == LOOK else ""
    )
    shared = machine.root / "dev/shm"
    if shared.is_dir():
        info = os.statvfs(shared)
        size = info.f_blocks * info.f_frsize
        if size < _GB:
            yield Finding(
                "limits",
                LOOK,
                f"/dev/shm holds {size_text(size)}: workers that share memory will crash",
                "start the container with --shm-size=8g or --ipc=host",
            )


def accelerators(machine: MachineProbe) -> Iterator[Finding]:
    """Accelerators, their drivers and toolkits."""
    kinds = (_nvidia, _other_accelerators, _cuda_toolkit)
    findings = [finding for kind in kinds for finding in kind(machine)]
    if not any(f.area == "devices" for f in findings):
        yield Finding("devices", INFO, "no accelerator was found: benchmarks run on the CPU")
    yield from findings


def _nvidia(machine: MachineProbe) -> Iterator[Finding]:
    driver = nvidia.read(machine.root, machine.find, lambda words: machine.say(*words))
    if driver.problem:
        if nvidia.signs(machine.root, machine.find):
            says = f": {driver.says[0]}" if driver.says and driver.trouble != "other" else ""
            yield Finding("devices", LOOK, driver.problem + says, driver.remedy)
        return
    seen = Counter((gpu.name, gpu.memory) for gpu in driver.gpus)
    for (name, memory), count in sorted(seen.items()):
        size = f", {memory} MiB" if memory else ""
        yield Finding("devices", OK, f"{count} x {name}{size}, driver {driver.version}")
    for gpu in driver.gpus:
        if gpu.mig_is_on:
            text = f"{gpu.name} {gpu.index}: MIG is on, with {len(gpu.mig)} instances"
            yield Finding("devices", INFO, f"{text}, and programs use one of those")


def _other_accelerators(machine: MachineProbe) -> Iterator[Finding]:
    known = (
        ("dev/kfd", "AMD GPU (ROCm)", "rocm-smi"),
        ("dev/neuron[0-9]*", "AWS Neuron device", "neuron-ls"),
        ("dev/accel/accel[0-9]*", "accelerator", ""),
        ("dev/dri/renderD*", "", ""),
    )
    for pattern, name, tool in known:
        nodes = machine.glob(pattern)
        if not nodes or not name:
            continue
        lost = tool and not machine.find(tool)
        text = f"{len(nodes)} x {name}" + (f", and its tool {tool} is not on PATH" if lost else "")
        yield Finding("devices", LOOK if lost else OK, text)


def _cuda_toolkit(machine: MachineProbe) -> Iterator[Finding]:
    libraries = machine.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    stubs = [folder for folder in libraries if folder.rstrip("/").endswith("/stubs")]
    if stubs:
        yield Finding(
            "CUDA",
            LOOK,
            f"LD_LIBRARY_PATH holds {stubs[0]}: the driver's stub hides the real one",
            "take that folder out of LD_LIBRARY_PATH",
        )
    if not machine.find("nvcc"):
        return
    match = re.search(r"release (\d+\.\d+)", machine.say("nvcc", "--version").output)
    version = match[1] if match else "of unknown version"
    if nvidia.signs(machine.root, machine.find):
        yield Finding("CUDA", OK, f"toolkit {version}")
    else:
        text = f"toolkit {version}, no driver: it can compile, but its programs cannot run"
        yield Finding("CUDA", LOOK, text)


_PLACEHOLDERS = {
    "torch-neuron": "1.0",
    "torch-neuronx": "1.0",
    "neuronx-cc": "1.0",
    "libneuronxla": "1.0",
    "perf-analyzer": "0.1.0",
    "nvidia-tensorrt": "99.0.0",
}


def _placeholders(machine: MachineProbe) -> Iterator[Finding]:
    for name, version in _PLACEHOLDERS.items():
        with suppress(importlib.metadata.PackageNotFoundError):
            if importlib.metadata.version(name).startswith(version):
                yield Finding(
                    "traps",
                    LOOK,
                    f"the package {name} {version} is a placeholder that does nothing",
                    f"pip uninstall {name}",
                )


def _surroundings(machine: MachineProbe) -> Iterator[Finding]:
    """Variables that change what runs, or how."""
    relative = [
        p for p in machine.environ.get("PATH", "").split(os.pathsep) if not os.path.isabs(p)
    ]
    if relative:
        text = f'PATH holds "{relative[0]}": what runs depends on where you are'
        yield Finding("traps", LOOK, text, "remove relative folders from PATH")
    languages = map(machine.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))
    chosen = next(filter(None, languages), "C")
    if not re.search(r"utf-?8|^C$|^POSIX$", chosen, re.IGNORECASE):
        yield Finding("traps", LOOK, f"the locale {chosen} is not UTF-8", "export LC_ALL=C.UTF-8")
    for name in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        if name in machine.environ:
            text = f"{name}={machine.environ[name]} limits what benchmarks use"
            yield Finding("traps", INFO, text)


CHECKS: tuple[Check, ...] = (
    _system,
    _python,
    _tools,
    _compiled,
    _cores_and_memory,
    _disk,
    network,
    containers,
    _privileges,
    _limits,
    accelerators,
    _placeholders,
    _surroundings,
)
