"""Checks before the flow for AWS Inferentia: devices, driver, SDK, Triton's Python, clients.

What they keep from happening is told by complaints of users of Neuron and Triton; the page
docs/how-to/doctor.md has the list. Not verified on hardware.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from cmbench.doctor.vendors import INFO, LOOK, OK, STOP, Check, Finding, View
from cmbench.lib import neuron
from cmbench.lib.versions import compare

DRIVER = "sys/module/neuron/version"
DAEMON = ("lib/systemd/system/neuron-rtd.service", "usr/lib/systemd/system/neuron-rtd.service")
"""The runtime of its own that SDKs had until 1.15; newer ones have it in the process."""
SDKS = {"inf1": "torch_neuron", "inf2": "torch_neuronx", "trn1": "torch_neuronx"}
"""The package that opens compiled models, by what they are compiled for."""
PACKAGES = ("torch_neuron", "torch_neuronx", "neuronx_cc", "neuron_cc", "libneuronxla")
PLACEHOLDERS = ("1.0", "1.0.post1")
ENVIRONMENTS = (
    "opt/aws_neuron*_venv_*",
    "home/*/anaconda3/envs/aws_neuron_*",
    "opt/conda",
)
"""Where AWS's machine images have Pythons with the SDK."""
STUB = "backends/python/triton_python_backend_stub"
STUB_BYTES = 1 << 24
PIP = ("etc/pip.conf", "etc/xdg/pip/pip.conf")
PIP_OF_USER = (".config/pip/pip.conf", ".pip/pip.conf")
INDEX = re.compile(r"^\s*(extra-)?index-url\s*=.*\bneuron\b", re.MULTILINE)
GET_SDK = "cm run script --tags=get,neuron-sdk"
VISIBLE, COUNT = "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"


# ---- devices and their driver


def works(view: View) -> Iterator[Finding]:
    """The devices answer, where there is a sign of one."""
    found = view.neuron
    if found.problem and (found.devices or found.says):
        says = f": {found.says[0]}" if found.says else ""
        yield view.found(STOP, found.problem + says, found.remedy)
    elif found.problem:
        yield view.found(INFO, f"{found.problem}: a CPU model is used instead")
    else:
        about = f"{len(found.devices)} devices, {found.cores or 'unknown'} NeuronCores"
        yield view.found(OK, f"{about}, detected with {found.asked}")


def opened(view: View) -> Iterator[Finding]:
    """This user may open the devices."""
    shut = [path for path in neuron.nodes(view.machine.root) if not os.access(path, 6)]
    if shut:
        names = ", ".join(f"/dev/{path.name}" for path in shut)
        remedy = "check their owner: ls -l /dev/neuron*; the driver's package has rules for udev"
        yield view.found(STOP, f"user {view.machine.uid} may not open {names}", remedy)


def instance(view: View) -> Iterator[Finding]:
    """The type of the instance is told, by which the values of the flow are chosen."""
    found = view.neuron
    if found.instance_type:
        target = (
            f"for models compiled for {found.target}" if found.target else neuron.UNKNOWN_FAMILY
        )
        yield view.found(OK, f"{found.instance_type}, {target}")
    elif found.devices:
        told = "the type of this instance is unknown: no answer from IMDSv2, none in the firmware"
        remedy = (
            "in a container: --metadata-options HttpPutResponseHopLimit=2; "
            "or name the system: --system_name=ID in RUN_ARGS"
        )
        yield view.found(LOOK, told, remedy)


def driver(view: View) -> Iterator[Finding]:
    """The driver is one for these devices: the newest ones leave inf1 out."""
    version = view.machine.read(DRIVER).strip()
    if not version:
        return
    if view.neuron.target == "inf1" and compare(version, neuron.LAST_DRIVER_INF1) > 0:
        same = version.startswith(f"{neuron.LAST_DRIVER_INF1}.")
        if not same:
            told = f"driver {version} does not know inf1, {neuron.LAST_DRIVER_INF1} is the last"
            remedy = f"sudo apt-get install 'aws-neuronx-dkms={neuron.LAST_DRIVER_INF1}.*'"
            yield view.found(STOP, told, remedy)
            return
    yield view.found(OK, f"driver {version}")


def daemon(view: View) -> Iterator[Finding]:
    """No runtime of an old SDK holds the devices."""
    left = [path for path in DAEMON if view.machine.there(path)]
    for path in left[:1]:
        told = f"/{path}: the runtime of SDKs before 1.16, which holds the devices"
        yield view.found(LOOK, told, "sudo systemctl disable --now neuron-rtd")


def support(view: View) -> Iterator[Finding]:
    """What AWS still does for these devices."""
    if view.neuron.target == "inf1":
        yield view.found(INFO, neuron.END_OF_INF1)


def held(view: View) -> Iterator[Finding]:
    """No other process holds the NeuronCores."""
    for line in view.neuron.held:
        yield view.found(LOOK, line, neuron.END_HOLDERS)


def cores(view: View) -> Iterator[Finding]:
    """The variables of the runtime name cores that are there."""
    there = view.neuron.cores
    for name in (VISIBLE, COUNT):
        told = view.env(name)
        if not told:
            continue
        asked = _most(told, counted=name == COUNT)
        if asked is None:
            remedy = f"{name}={'4' if name == COUNT else '0-3'}, or unset {name}"
            yield view.found(STOP, f"{name}={told} is not a list of cores", remedy)
        elif there and asked > there:
            text = f"{name}={told}, and there are {there} NeuronCores"
            yield view.found(STOP, text, f"unset {name}")
        else:
            yield view.found(OK, f"{name}={told}")


def _most(text: str, counted: bool) -> int | None:
    """How many cores must be there for it; None where it names none."""
    if counted:
        return int(text) if text.isdigit() and int(text) else None
    ends = [part.strip().rpartition("-")[2] for part in text.split(",")]
    well = all(re.fullmatch(r"\d+(-\d+)?", part.strip()) for part in text.split(","))
    return max(map(int, ends)) + 1 if well else None


# ---- the SDK


def sdk(view: View) -> Iterator[Finding]:
    """A Python has the SDK of these devices; placeholders are named."""
    wanted, found = SDKS.get(view.neuron.target, ""), list(_packages(view))
    for place, name, version in found:
        if version in PLACEHOLDERS and name != "neuron_cc":
            told = f"{place} has {name} {version}: a placeholder of the public index"
            yield view.found(LOOK, told, f"{GET_SDK} shows how to install the real one")
    real = [each for each in found if each[1] == wanted and each[2] not in PLACEHOLDERS]
    for place, name, version in real:
        yield view.found(OK, f"{place} has {name} {version}")
    if wanted and not real:
        variation = "_pytorch" if wanted == "torch_neuron" else "_neuronx"
        told = f"neither AWS's images nor this environment have a Python with {wanted}"
        yield view.found(LOOK, told, f"{GET_SDK},{variation} searches everywhere and shows how")


def both(view: View) -> Iterator[Finding]:
    """The SDK for inf1 and that for inf2 are in Pythons of their own."""
    places: dict[str, set[str]] = {}
    for place, name, _ in _packages(view):
        places.setdefault(place, set()).add(name)
    for place, names in places.items():
        if {"torch_neuron", "torch_neuronx"} <= names:
            told = f"{place} has torch_neuron and torch_neuronx, for different torch versions"
            yield view.found(LOOK, told, "use one environment for each")


def _packages(view: View) -> Iterator[tuple[str, str, str]]:
    """Python, package and version, by the records that pip keeps."""
    root = view.machine.root
    pythons = [path for pattern in ENVIRONMENTS for path in view.machine.there(pattern)]
    active = view.env("VIRTUAL_ENV") or view.env("CONDA_PREFIX")
    pythons += [Path(active)] if active else []
    for python in dict.fromkeys(pythons):
        for record in sorted(python.glob("lib/python3*/site-packages/*.dist-info")):
            name, _, version = record.name.removesuffix(".dist-info").partition("-")
            if name.lower() in PACKAGES:
                inside = python.is_relative_to(root)
                yield str(Path("/") / python.relative_to(root) if inside else python), name, version


def pip(view: View) -> Iterator[Finding]:
    """No configuration of pip's uses AWS's index for every package of everybody."""
    home = Path(view.env("HOME") or "/")
    shared = [(f"/{path}", view.machine.read(path)) for path in PIP]
    own = [(str(home / path), _text(home / path)) for path in PIP_OF_USER]
    for path, text in (*shared, *own):
        if INDEX.search(text):
            told = f"{path} uses AWS's index for every package"
            remedy = f"remove the line: {GET_SDK} names the index in each command"
            yield view.found(LOOK, told, remedy)
    if "neuron" in view.env("PIP_EXTRA_INDEX_URL"):
        yield view.found(LOOK, "PIP_EXTRA_INDEX_URL uses AWS's index for every package", "unset it")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# ---- Triton and its clients


def stub(view: View) -> Iterator[Finding]:
    """Triton's Python backend is of the Python that has the SDK."""
    server = view.machine.find("tritonserver")
    if server is None:
        return
    above = Path(os.path.realpath(server)).parent.parent
    path = above / STUB
    try:
        with path.open("rb") as file:
            named = re.search(rb"libpython3\.(\d+)", file.read(STUB_BYTES))
    except OSError:
        return
    if named is None:
        return
    version = f"3.{named[1].decode()}"
    wanted = SDKS.get(view.neuron.target, "torch_neuron")
    of_sdk = {
        match[1]
        for place, name, _ in _packages(view)
        if name == wanted and (match := _python_of(view, place))
    }
    if of_sdk and version not in of_sdk:
        told = f"{path} is of Python {version}, the SDK of {', '.join(sorted(of_sdk))}"
        remedy = "a stub of the SDK's Python: gen,triton,model-repository and its page say how"
        yield view.found(STOP, told, remedy)
    else:
        yield view.found(OK, f"Triton's Python backend is of Python {version}")


def _python_of(view: View, place: str) -> re.Match[str] | None:
    folders = (view.machine.root / place.lstrip("/")).glob("lib/python3*")
    found = [re.search(r"python(3\.\d+)$", path.name) for path in sorted(folders)]
    return next((match for match in found if match), None)


def room(view: View) -> Iterator[Finding]:
    """A client has cores of its own beside the server."""
    count = len(os.sched_getaffinity(0))
    if count < 2:
        told = "one core for client and server: the client limits what is measured"
        remedy = "run the client elsewhere; bench,triton-client reports its share of the CPU time"
        yield view.found(LOOK, told, remedy)
    else:
        yield view.found(OK, f"{count} cores for client and server")


def analyzer(view: View) -> Iterator[Finding]:
    """perf_analyzer starts here, or the client that does is named."""
    own = "cm run script --tags=bench,triton-client measures the same without it"
    if view.machine.find("perf_analyzer") is None:
        yield view.found(INFO, f"no perf_analyzer: {own}")
        return
    answer = view.machine.say("perf_analyzer", "--version")
    if answer.ok:
        yield view.found(OK, f"perf_analyzer {' '.join(answer.output.split())}")
    else:
        lines = answer.output.strip().splitlines() or [answer.problem or "no output"]
        yield view.found(LOOK, f"perf_analyzer does not start: {lines[-1]}", own)


CHECKS = (
    Check("neuron.works", works),
    Check("neuron.open", opened),
    Check("neuron.instance", instance),
    Check("neuron.driver", driver),
    Check("neuron.daemon", daemon),
    Check("neuron.support", support),
    Check("neuron.held", held),
    Check("neuron.cores", cores),
    Check("sdk.package", sdk),
    Check("sdk.both", both),
    Check("sdk.pip", pip),
    Check("triton.stub", stub),
    Check("client.room", room),
    Check("client.analyzer", analyzer),
)
