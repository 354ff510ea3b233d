"""List the Neuron devices, before anything is installed for one."""

from __future__ import annotations

from typing import Any

from cmbench.errors import Error
from cmbench.lib import neuron


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Count devices and cores; raises Error where none can be used."""
    env = i["env"]
    machine = neuron.read()
    if machine.problem:
        raise Error(
            "no-driver" if machine.devices or machine.says else "no-device",
            machine.problem,
            context=machine.says or [f"looked for: {', '.join(neuron.LOOKED_FOR)}"],
            hint=machine.remedy,
        )
    devices = machine.devices
    print("\n".join(lines(machine)))
    env["CM_NEURON_DEVICES"] = ",".join(f"/dev/neuron{device.number}" for device in devices)
    env["CM_NEURON_NUM_DEVICES"] = str(len(devices))
    env["CM_NEURON_NUM_CORES"] = str(machine.cores)
    env["CM_NEURON_TARGET"] = machine.target
    env["CM_NEURON_INSTANCE_TYPE"] = machine.instance_type
    return {"return": 0}


def lines(machine: neuron.NeuronMachine) -> list[str]:
    """Return the report on the machine."""
    report = [f"asked: {machine.source}"]
    for device in machine.devices:
        about = f"{device.cores or 'unknown'} cores, {device.memory >> 30} GiB"
        report.append(f"/dev/neuron{device.number} {device.bdf or '-'}: {about}")
    report += [f"warning: {line}; {neuron.END_HOLDERS}" for line in machine.held]
    known = {"inf1": [neuron.END_OF_INF1], "": [neuron.UNKNOWN_FAMILY]}
    return [*report, *known.get(machine.target, [])]
