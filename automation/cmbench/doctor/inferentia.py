"""Checks before the flow for AWS Inferentia: devices, driver, SDK, Triton's Python, clients.

The failures that they prevent were reported by users of Neuron and Triton; the page
docs/how-to/doctor.md has the list. Not verified on hardware.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from cmbench.doctor.vendors import INFO, LOOK, OK, STOP, Finding, FlowCheck, FlowView
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


def check_devices(view: FlowView) -> Iterator[Finding]:
    """Check that the devices answer, where there is a sign of one."""
    facts = view.neuron
    if facts.problem and (facts.devices or facts.says):
        says = f": {facts.says[0]}" if facts.says else ""
        yield view.finding(STOP, facts.problem + says, facts.remedy)
    elif facts.problem:
        yield view.finding(INFO, f"{facts.problem}: a CPU model is used instead")
    else:
        about = f"{len(facts.devices)} devices, {facts.cores or 'unknown'} NeuronCores"
        yield view.finding(OK, f"{about}, detected with {facts.source}")


def check_permissions(view: FlowView) -> Iterator[Finding]:
    """Check that this user may open the devices."""
    shut = [path for path in neuron.nodes(view.machine.root) if not os.access(path, 6)]
    if shut:
        names = ", ".join(f"/dev/{path.name}" for path in shut)
        remedy = "check their owner: `ls -l /dev/neuron*`; the driver's package has rules for udev"
        yield view.finding(STOP, f"user {view.machine.uid} may not open {names}", remedy)


def check_instance_type(view: FlowView) -> Iterator[Finding]:
    """Check that the type of the instance is known, by which the values of the flow are chosen."""
    facts = view.neuron
    if facts.instance_type:
        target = (
            f"for models compiled for {facts.target}" if facts.target else neuron.UNKNOWN_FAMILY
        )
        yield view.finding(OK, f"{facts.instance_type}, {target}")
    elif facts.devices:
        text = "the type of this instance is unknown: no answer from IMDSv2, none in the firmware"
        remedy = (
            "in a container: --metadata-options HttpPutResponseHopLimit=2; "
            "or name the system: --system_name=ID in RUN_ARGS"
        )
        yield view.finding(LOOK, text, remedy)


def check_driver(view: FlowView) -> Iterator[Finding]:
    """Check that the driver supports these devices: the newest ones leave inf1 out."""
    version = view.machine.read(DRIVER).strip()
    if not version:
        return
    if view.neuron.target == "inf1" and compare(version, neuron.LAST_DRIVER_INF1) > 0:
        same = version.startswith(f"{neuron.LAST_DRIVER_INF1}.")
        if not same:
            text = f"driver {version} does not know inf1, {neuron.LAST_DRIVER_INF1} is the last"
            remedy = f"sudo apt-get install 'aws-neuronx-dkms={neuron.LAST_DRIVER_INF1}.*'"
            yield view.finding(STOP, text, remedy)
            return
    yield view.finding(OK, f"driver {version}")


def check_old_runtime(view: FlowView) -> Iterator[Finding]:
    """Check that no runtime of an old SDK holds the devices."""
    left = [path for path in DAEMON if view.machine.glob(path)]
    for path in left[:1]:
        text = f"/{path}: the runtime of SDKs before 1.16, which holds the devices"
        yield view.finding(LOOK, text, "sudo systemctl disable --now neuron-rtd")


def check_support(view: FlowView) -> Iterator[Finding]:
    """Report until when AWS supports these devices."""
    if view.neuron.target == "inf1":
        yield view.finding(INFO, neuron.END_OF_INF1)


def check_busy_cores(view: FlowView) -> Iterator[Finding]:
    """Check that no other process holds the NeuronCores."""
    for line in view.neuron.held:
        yield view.finding(LOOK, line, neuron.END_HOLDERS)


def check_visible_cores(view: FlowView) -> Iterator[Finding]:
    """Check that the variables of the runtime name existing cores."""
    available = view.neuron.cores
    for name in (VISIBLE, COUNT):
        value = view.env(name)
        if not value:
            continue
        highest = _most(value, counted=name == COUNT)
        if highest is None:
            remedy = f"{name}={'4' if name == COUNT else '0-3'}, or unset {name}"
            yield view.finding(STOP, f"{name}={value} is not a list of cores", remedy)
        elif available and highest > available:
            text = f"{name}={value}, and there are {available} NeuronCores"
            yield view.finding(STOP, text, f"unset {name}")
        else:
            yield view.finding(OK, f"{name}={value}")


def _most(text: str, counted: bool) -> int | None:
    """How many cores must be there for it; None where it names none."""
    if counted:
        return int(text) if text.isdigit() and int(text) else None
    ends = [part.strip().rpartition("-")[2] for part in text.split(",")]
    well = all(re.fullmatch(r"\d+(-\d+)?", part.strip()) for part in text.split(","))
    return max(map(int, ends)) + 1 if well else None


# ---- the SDK


def check_sdk(view: FlowView) -> Iterator[Finding]:
    """Check that a Python has the SDK of these devices, and name placeholders of packages."""
    package, installed = SDKS.get(view.neuron.target, ""), list(_packages(view))
    for environment, name, version in installed:
        if version in PLACEHOLDERS and name != "neuron_cc":
            text = f"{environment} has {name} {version}: a placeholder of the public index"
            yield view.finding(LOOK, text, f"`{GET_SDK}` shows how to install the real one")
    real = [row for row in installed if row[1] == package and row[2] not in PLACEHOLDERS]
    for environment, name, version in real:
        yield view.finding(OK, f"{environment} has {name} {version}")
    if package and not real:
        variation = "_pytorch" if package == "torch_neuron" else "_neuronx"
        text = f"neither AWS's images nor this environment have a Python with {package}"
        yield view.finding(LOOK, text, f"`{GET_SDK},{variation}` searches everywhere and shows how")


def check_separate_sdks(view: FlowView) -> Iterator[Finding]:
    """Check that the SDK for inf1 and that for inf2 are in Pythons of their own."""
    environments: dict[str, set[str]] = {}
    for environment, name, _ in _packages(view):
        environments.setdefault(environment, set()).add(name)
    for environment, names in environments.items():
        if {"torch_neuron", "torch_neuronx"} <= names:
            text = f"{environment} has torch_neuron and torch_neuronx, for different torch versions"
            yield view.finding(LOOK, text, "use one environment for each")


def _packages(view: FlowView) -> Iterator[tuple[str, str, str]]:
    """Python, package and version, by the records that pip keeps."""
    root = view.machine.root
    pythons = [path for pattern in ENVIRONMENTS for path in view.machine.glob(pattern)]
    active = view.env("VIRTUAL_ENV") or view.env("CONDA_PREFIX")
    pythons += [Path(active)] if active else []
    for python in dict.fromkeys(pythons):
        for record in sorted(python.glob("lib/python3*/site-packages/*.dist-info")):
            name, _, version = record.name.removesuffix(".dist-info").partition("-")
            if name.lower() in PACKAGES:
                inside = python.is_relative_to(root)
                yield str(Path("/") / python.relative_to(root) if inside else python), name, version


def check_pip_index(view: FlowView) -> Iterator[Finding]:
    """Check that no configuration of pip uses AWS's index for all packages of all users."""
    home = Path(view.env("HOME") or "/")
    shared = [(f"/{path}", view.machine.read(path)) for path in PIP]
    own = [(str(home / path), _text(home / path)) for path in PIP_OF_USER]
    for path, content in (*shared, *own):
        if INDEX.search(content):
            text = f"{path} uses AWS's index for every package"
            remedy = f"remove the line: `{GET_SDK}` names the index in each command"
            yield view.finding(LOOK, text, remedy)
    if "neuron" in view.env("PIP_EXTRA_INDEX_URL"):
        yield view.finding(
            LOOK, "PIP_EXTRA_INDEX_URL uses AWS's index for every package", "unset it"
        )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# ---- Triton and its clients


def check_triton_python(view: FlowView) -> Iterator[Finding]:
    """Check that Triton's Python backend is of the Python that has the SDK."""
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
    package = SDKS.get(view.neuron.target, "torch_neuron")
    of_sdk = {
        match[1]
        for environment, name, _ in _packages(view)
        if name == package and (match := _python_of(view, environment))
    }
    if of_sdk and version not in of_sdk:
        text = f"{path} is of Python {version}, the SDK of {', '.join(sorted(of_sdk))}"
        remedy = "a stub of the SDK's Python: gen,triton,model-repository and its page say how"
        yield view.finding(STOP, text, remedy)
    else:
        yield view.finding(OK, f"Triton's Python backend is of Python {version}")


def _python_of(view: FlowView, environment: str) -> re.Match[str] | None:
    folders = (view.machine.root / environment.lstrip("/")).glob("lib/python3*")
    matches = [re.search(r"python(3\.\d+)$", path.name) for path in sorted(folders)]
    return next((match for match in matches if match), None)


def check_client_cores(view: FlowView) -> Iterator[Finding]:
    """Check that a client has cores that the server does not use."""
    count = len(os.sched_getaffinity(0))
    if count < 2:
        text = "one core for client and server: the client limits what is measured"
        remedy = "run the client elsewhere; bench,triton-client reports its share of the CPU time"
        yield view.finding(LOOK, text, remedy)
    else:
        yield view.finding(OK, f"{count} cores for client and server")


def check_load_generator(view: FlowView) -> Iterator[Finding]:
    """Check that perf_analyzer starts here, or name the client that does."""
    own = "cm run script --tags=bench,triton-client measures the same without it"
    if view.machine.find("perf_analyzer") is None:
        yield view.finding(INFO, f"no perf_analyzer: {own}")
        return
    answer = view.machine.say("perf_analyzer", "--version")
    if answer.ok:
        yield view.finding(OK, f"perf_analyzer {' '.join(answer.output.split())}")
    else:
        lines = answer.output.strip().splitlines() or [answer.problem or "no output"]
        yield view.finding(LOOK, f"perf_analyzer does not start: {lines[-1]}", own)


CHECKS = (
    FlowCheck("neuron.works", check_devices),
    FlowCheck("neuron.open", check_permissions),
    FlowCheck("neuron.instance", check_instance_type),
    FlowCheck("neuron.driver", check_driver),
    FlowCheck("neuron.daemon", check_old_runtime),
    FlowCheck("neuron.support", check_support),
    FlowCheck("neuron.held", check_busy_cores),
    FlowCheck("neuron.cores", check_visible_cores),
    FlowCheck("sdk.package", check_sdk),
    FlowCheck("sdk.both", check_separate_sdks),
    FlowCheck("sdk.pip", check_pip_index),
    FlowCheck("triton.stub", check_triton_python),
    FlowCheck("client.room", check_client_cores),
    FlowCheck("client.analyzer", check_load_generator),
)
