"""The NeuronCores that a process may use, and the SDK that opens models for them."""

from __future__ import annotations

import os
from importlib import import_module, metadata
from pathlib import Path

from ..errors import HarnessError

DEV = Path("/dev")
VISIBLE = "NEURON_RT_VISIBLE_CORES"
# The package that makes PyTorch open a compiled model, and the cores of a device, by the target.
# AWS's pages on the architectures of Inferentia and Trainium.
SDKS = {"inf1": "torch_neuron", "inf2": "torch_neuronx", "trn1": "torch_neuronx"}
CORES = {"inf1": 4, "inf2": 2, "trn1": 2}
GET_SDK = "cm run script --tags=get,neuron-sdk"
DETECT = "cm run script --tags=detect,neuron"
# What the public index has under the SDK's names: packages of this version that fail on import.
PLACEHOLDER = "1.0"


def package_of(device: str) -> str:
    """Return the package of the SDK that opens models compiled for a device."""
    return SDKS[device].replace("_", "-")


def visible_cores(device: str) -> int:
    """Return how many NeuronCores this process may use.

    Raises HarnessError where the machine has none, or the cores that are named are no numbers.
    """
    nodes = [path for path in DEV.glob("neuron[0-9]*") if path.name[6:].isdigit()]
    if not nodes:
        text = f"this machine has no Neuron device, and the model is to run on {device}"
        advice = f"ask what it has: `{DETECT}`; without one, try the same with --device=cpu"
        raise HarnessError(text, advice)
    there = len(nodes) * CORES[device]
    named = os.environ.get(VISIBLE, "")
    wanted = numbers(named) if named else range(there)
    if not wanted or max(wanted) >= there:
        text = f"{VISIBLE}={named}, and there are the NeuronCores 0-{there - 1}"
        raise HarnessError(text, "name some of them, such as --backend_options=cores=0-3")
    return len(wanted)


def numbers(text: str) -> list[int]:
    """Return the cores in ``0-3``, ``0;2`` (``--backend_options`` has other commas) or ``0,2``.

    Return no cores for other texts.
    """
    cores: list[int] = []
    for part in text.replace(";", ",").split(","):
        first, _, last = part.partition("-")
        if not (first.strip().isdigit() and (last or first).strip().isdigit()):
            return []
        cores += range(int(first), int(last or first) + 1)
    return sorted(set(cores))


def sdk_version(device: str) -> str:
    """Return the version of the SDK's part of PyTorch, imported; raises HarnessError without it."""
    package = package_of(device)
    try:
        import_module(SDKS[device])
        version = metadata.version(package)
    except (ImportError, metadata.PackageNotFoundError) as error:
        text = f"{package}, which opens models compiled for {device}, cannot be used: {error}"
        raise HarnessError(" ".join(text.split()), f"`{GET_SDK}` says how to install it") from error
    if version == PLACEHOLDER:
        text = f"{package} {version} is the placeholder of the public index"
        raise HarnessError(text, f"`{GET_SDK}` says where the real one is")
    return version
