"""What this machine has, in words, and the device that a form chooses beforehand for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache

from cmbench.format.model import Script
from cmbench.lib import neuron, nvidia
from cmbench.lib.host.machine import cpu_facts, memory_facts, usable_cores
from cmbench_gui.command import ComposedCommand

DEVICE = "device"
"""The input of a script that names the device to use."""


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """``words`` describe it; ``device`` is its accelerator as ``--device`` names it, or empty."""

    words: str
    device: str = ""


@cache
def this_machine() -> ThisMachine:
    """The machine of this server, looked at once: CPU, memory, and accelerators that work."""
    cpu, memory = cpu_facts(), memory_facts()
    parts = [
        cpu.model_name or cpu.architecture,
        _counted(usable_cores().cores, "core"),
        f"{(memory.limit or memory.total) / 1e9:.0f} GB of memory",
    ]
    device, accelerators = _accelerators()
    return ThisMachine(", ".join([*parts, accelerators or "no accelerator was found"]), device)


def _accelerators() -> tuple[str, str]:
    """The device and the accelerators in words; those that cannot be used say why."""
    if nvidia.signs():
        driver = nvidia.read()
        names = Counter(gpu.name or "a GPU of NVIDIA" for gpu in driver.gpus)
        if names and not driver.problem:
            return "cuda", ", ".join(f"{n} x {name}" for name, n in names.items())
        return "", f"a GPU of NVIDIA that cannot be used: {driver.problem or 'it is not listed'}"
    inferentia = neuron.read()
    if inferentia.devices and not inferentia.problem:
        count = _counted(len(inferentia.devices), "Neuron device")
        return inferentia.target, f"{count} ({inferentia.instance_type or inferentia.target})"
    return "", ""


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def default_inputs(script: Script, choice: ComposedCommand, machine: ThisMachine) -> dict[str, str]:
    """Return the default choice for a new form: the device of this machine."""
    untouched = not choice.variations and not choice.flags
    spec = script.inputs.get(DEVICE)
    if not untouched or spec is None or machine.device not in spec.choices:
        return {}
    return {DEVICE: machine.device}
