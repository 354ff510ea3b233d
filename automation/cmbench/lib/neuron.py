"""AWS Inferentia and Trainium on this machine: the one reader of their devices.

A device shows as ``/dev/neuronN``. Its kind is reported by the driver in sysfs, ``neuron-ls -j``,
or the type of the EC2 instance, which DMI has and the instance's own metadata service (IMDSv2).
That service is queried only where DMI says that this is EC2, for half a second at most. ``root`` is
the file tree, ``find`` returns the path of a program, ``ask`` runs a command, ``fetch`` queries the
service: tests, and trees of other machines, replace them. Not verified on hardware.
"""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cmbench.lib.probe import ProbeResult, json_values, probe, which
from cmbench.lib.text_files import read_or_empty

ROOT = Path("/")
Find = Callable[[str], Path | None]
Ask = Callable[[Sequence[str]], ProbeResult]
Fetch = Callable[[], str]

NODES = "dev/neuron[0-9]*"
TOOL = "neuron-ls"
TOOL_OF_PACKAGE = "opt/aws/neuron/bin/neuron-ls"
"""Where the package aws-neuronx-tools puts it; that folder is not on everybody's PATH."""
ARCHITECTURE = "sys/devices/virtual/neuron_device/neuron0/info/architecture/instance_type"
DMI = "sys/devices/virtual/dmi/id"
LOOKED_FOR = (f"/{NODES}", f"{TOOL} on PATH", f"/{TOOL_OF_PACKAGE}")

CORES = {"inf1": 4, "inf2": 2, "trn1": 2}
"""NeuronCores of a device by what it is: AWS's pages on the architectures."""
FAMILIES = {"inf1": "inf1", "inf2": "inf2", "trn1": "trn1", "trn1n": "trn1"}
"""What models are compiled for, by the family of the instance."""

LAST_DRIVER_INF1 = "2.24"
END_OF_INF1 = (
    "inf1 is at its end of support: the last SDK for it is 2.26.1, whose pages AWS archived in "
    f"March 2026; only driver {LAST_DRIVER_INF1} gets security patches; no last day is published"
)
"""Said where somebody looks at the machine. Source: AWS's announcements for Neuron."""

END_HOLDERS = "end that process, or choose other cores: NEURON_RT_VISIBLE_CORES=..."
UNKNOWN_FAMILY = f"models are compiled for {', '.join(CORES)}; what these devices are is not known"

ENDPOINT, SWITCH = "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_DISABLED"
USUAL_ENDPOINT = "http://169.254.169.254"
PATIENCE_S = 0.5
MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds NeuronCores of a device; ``cores`` are empty if not reported."""

    pid: int
    command: str = ""
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NeuronDevice:
    """One device: its number, its place on the PCI bus, its NeuronCores, its memory in bytes.

    What is unknown is empty or 0.
    """

    number: int
    bdf: str = ""
    cores: int = 0
    memory: int = 0
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class NeuronMachine:
    """The devices, what models for them are compiled for, the type of the instance; what is wrong.

    ``problem`` is empty where the devices can be used. ``source`` is what reported them.
    """

    devices: tuple[NeuronDevice, ...] = ()
    target: str = ""
    instance_type: str = ""
    source: str = ""
    problem: str = ""
    remedy: str = ""
    says: tuple[str, ...] = ()

    @property
    def cores(self) -> int:
        """All NeuronCores together; 0 where that of a device is not known."""
        counts = [device.cores for device in self.devices]
        return sum(counts) if all(counts) else 0

    @property
    def held(self) -> tuple[str, ...]:
        """Return a line per process that holds cores: nothing else can use them."""
        return tuple(
            f"process {holder.pid}{f' ({holder.command})' if holder.command else ''} holds "
            f"{_cores(holder)} of /dev/neuron{device.number}"
            for device in self.devices
            for holder in device.holders
        )


def nodes(root: Path = ROOT) -> list[Path]:
    """Return the device nodes, one per device, by their numbers."""
    paths = [path for path in root.glob(NODES) if path.name[6:].isdigit()]
    return sorted(paths, key=_number)


def read(
    root: Path = ROOT, find: Find = which, ask: Ask = probe, fetch: Fetch | None = None
) -> NeuronMachine:
    """Return the devices; start and query nothing where no sign of one is seen."""
    paths = nodes(root)
    tool = find(TOOL) or _existing(root / TOOL_OF_PACKAGE)
    if not paths and not tool:
        return NeuronMachine(
            problem="this machine has no Neuron device",
            remedy="use an instance of the families inf1, inf2 or trn1; a container must be "
            "started with --device=/dev/neuron0 and so on",
        )
    instance = instance_type(root, fetch or ask_service)
    target = _target(root, instance)
    by_nodes = _with_cores(tuple(NeuronDevice(_number(path)) for path in paths), target)
    if tool is None:
        return NeuronMachine(by_nodes, target, instance, "device nodes")
    answer = ask([str(tool), "-j"])
    # A tool that lists devices and then ends with an error has still seen them.
    devices = parse(answer.stdout)
    if not devices:
        return _troubled(answer, by_nodes, target, instance)
    return NeuronMachine(_with_cores(devices, target), target, instance, TOOL)


def parse(text: str) -> tuple[NeuronDevice, ...]:
    """The devices out of what ``neuron-ls -j`` prints; none where it is something else.

    Older versions print a list, newer ones put it into an object.
    """
    for value in json_values(text):
        lists = [value] if not isinstance(value, dict) else list(value.values())
        rows: list[Any] = next(filter(_is_list_of_devices, lists), [])
        if rows:
            return tuple(sorted(map(_device, rows), key=lambda device: device.number))
    return ()


def _cores(holder: Holder) -> str:
    numbers = ", ".join(map(str, holder.cores))
    return f"NeuronCore{'s' if len(holder.cores) > 1 else ''} {numbers}" if numbers else "cores"


def _is_list_of_devices(value: Any) -> bool:
    rows = value if isinstance(value, list) else []
    return bool(rows) and all(
        isinstance(row, dict) and isinstance(row.get("neuron_device"), int) for row in rows
    )


def _device(row: Mapping[str, Any]) -> NeuronDevice:
    cores, memory = row.get("nc_count"), row.get("memory_size")
    return NeuronDevice(
        row["neuron_device"],
        str(row.get("bdf") or ""),
        cores if isinstance(cores, int) else 0,
        memory if isinstance(memory, int) else 0,
        tuple(_holders(row.get("neuron_processes"))),
    )


def _holders(rows: Any) -> Iterator[Holder]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("pid"), int):
            cores = row.get("neuroncore_ids")
            numbers = tuple(core for core in cores or () if isinstance(core, int))
            yield Holder(row["pid"], str(row.get("command") or ""), numbers)


def _with_cores(devices: tuple[NeuronDevice, ...], target: str) -> tuple[NeuronDevice, ...]:
    known = CORES.get(target, 0)
    return tuple(device if device.cores else replace(device, cores=known) for device in devices)


def _troubled(
    answer: ProbeResult, devices: tuple[NeuronDevice, ...], target: str, instance: str
) -> NeuronMachine:
    """The devices where ``neuron-ls`` fails: its driver is missing, or older than the tool."""
    says = tuple(line.strip() for line in answer.output.splitlines() if line.strip())[:5]
    problem = answer.problem or "it lists no device"
    return NeuronMachine(
        devices,
        target,
        instance,
        TOOL,
        problem=f"the Neuron driver does not work: {TOOL}: {problem}",
        remedy="see: neuron-ls; install the driver (aws-neuronx-dkms) for this kernel, or load it: "
        f"`sudo modprobe neuron`. The last driver for inf1 is {LAST_DRIVER_INF1}",
        says=says,
    )


def _target(root: Path, instance: str) -> str:
    """What models are compiled for: by the driver, else by the type of the instance."""
    for text in (read_or_empty(root / ARCHITECTURE).strip(), instance):
        family = FAMILIES.get(text.lower().partition(".")[0])
        if family:
            return family
    return ""


def _number(path: Path) -> int:
    return int(path.name[6:])


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


# ---- the instance


def is_ec2(root: Path = ROOT) -> bool:
    """Whether the firmware says that this is an EC2 instance."""
    vendor, tag = (read_or_empty(root / DMI / name) for name in ("sys_vendor", "board_asset_tag"))
    return vendor.strip() == "Amazon EC2" or tag.startswith("i-")


def instance_type(root: Path = ROOT, fetch: Fetch | None = None) -> str:
    """Such as ``inf1.6xlarge``: by IMDSv2, else by DMI; empty where this is not EC2."""
    if not is_ec2(root):
        return ""
    product = read_or_empty(root / DMI / "product_name").strip()
    return (fetch or ask_service)() or (product if "." in product else "")


def ask_service(environment: Mapping[str, str] = os.environ, patience: float = PATIENCE_S) -> str:
    """The type of the instance by IMDSv2; empty without an answer in ``patience`` seconds.

    ``AWS_EC2_METADATA_SERVICE_ENDPOINT`` names another address, ``AWS_EC2_METADATA_DISABLED=true``
    asks none. No proxy is used.
    """
    if environment.get(SWITCH, "").lower() == "true":
        return ""
    answers: list[str] = []
    endpoint = environment.get(ENDPOINT) or USUAL_ENDPOINT
    until = time.monotonic() + patience
    # A server that sends a byte now and then would hold a socket's own time limit for ever.
    asking = threading.Thread(target=_ask_twice, args=(endpoint, until, answers), daemon=True)
    asking.start()
    asking.join(patience)
    return answers[0] if answers else ""


def _ask_twice(endpoint: str, until: float, answers: list[str]) -> None:
    """A token, and with it the type; nothing is answered where one of them fails."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
    try:
        token = _exchange(endpoint, "PUT", "/latest/api/token", lifetime, until)
        if not token:
            return
        headers = {"X-aws-ec2-metadata-token": token}
        instance = _exchange(endpoint, "GET", "/latest/meta-data/instance-type", headers, until)
    except (OSError, ValueError, http.client.HTTPException):
        return
    if instance.replace(".", "").replace("-", "").isalnum():
        answers.append(instance)


def _exchange(
    endpoint: str, method: str, path: str, headers: Mapping[str, str], until: float
) -> str:
    parts = urlsplit(endpoint)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    left = max(0.01, until - time.monotonic())
    connection = kind(parts.hostname or "", parts.port, timeout=left)
    try:
        connection.request(method, f"{parts.path.rstrip('/')}{path}", headers=dict(headers))
        answer = connection.getresponse()
        text = answer.read(MOST_BYTES).decode("ascii")
        return text.strip() if answer.status == http.client.OK else ""
    finally:
        connection.close()
