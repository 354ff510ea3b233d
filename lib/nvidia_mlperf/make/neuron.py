"""The devices under USE_INFERENTIA: Neuron devices of this machine, or a stand-in."""

from __future__ import annotations

from collections.abc import Iterable

from aws_neuron import artifact
from common.problems import Problem
from nvidia_mlperf.flow.systems import CPU, BenchmarkSystem, NeuronDevices, system_of_id
from nvidia_mlperf.make.flow import Flow

ROUND = "v2.0"
"""The only round with systems of Inferentia."""
ACCELERATOR = "inferentia"
REFERENCE = "Triton_Inferentia_INF1_2XLARGEx1"
"""The system whose benchmarks and scenarios a machine without a device follows."""
SWITCH = "export USE_INFERENTIA=1"
SERVED = ("--backend=triton", "--triton_backend=neuron", "--triton_shared_memory=system")
"""How every version of the guide computes: in a Triton server, on the same machine as LoadGen."""


def device(flow: Flow) -> NeuronDevices:
    """The devices of this machine; raises Problem where they are there and cannot be used."""
    devices = flow.runner.neuron()
    if devices.problem:
        raise Problem("no-driver", devices.problem, devices.remedy)
    return devices


def target(flow: Flow) -> str:
    """What models are compiled for: ``cpu`` where there is no device."""
    return device(flow).target or CPU


def system(flow: Flow, name: str, systems: Iterable[BenchmarkSystem]) -> tuple[str, list[str]]:
    """Return the system of that name, else the one that this machine is; and what to say of it.

    Raises Problem where the machine is none, with the nearest one.
    """
    ours = [each for each in systems if each.accelerator == ACCELERATOR]
    devices = device(flow)
    if name:
        return system_of_id(name, ours, ROUND).id, []
    if not devices.target:
        note = f"there is no Neuron device: benchmarks and scenarios are those of {REFERENCE}"
        return REFERENCE, [f"{note}, its rates and batches of requests are not taken"]
    same = next((each for each in ours if each.instance == devices.instance), None)
    if same:
        return same.id, []
    alike = [each for each in ours if each.instance.partition(".")[0] == devices.target]
    known = ", ".join(each.id for each in alike or ours)
    raise Problem(
        "not-available",
        f"{devices.instance or f'this machine with {devices.target}'} is not a system of {ROUND}",
        f"name the one whose values count: --system_name=ID in RUN_ARGS; one of: {known}",
    )


def scratch(flow: Flow) -> str:
    """Under USE_INFERENTIA the scratch space that is given, else the guide's where it is there."""
    if flow.vendor != ACCELERATOR:
        return ""
    usual = artifact.usual_scratch()
    path = flow.variables.get("MLPERF_SCRATCH_PATH", "")
    return path or (str(usual) if usual.is_dir() else "")


def refuse_foreign(name: str, systems: Iterable[BenchmarkSystem]) -> None:
    """Raise Problem for a system of Inferentia where its words are not turned on."""
    for each in systems:
        if each.id.lower() == name.lower() and each.accelerator == ACCELERATOR:
            raise Problem("bad-value", f"{each.id} is a system of AWS Inferentia", f"`{SWITCH}`")
