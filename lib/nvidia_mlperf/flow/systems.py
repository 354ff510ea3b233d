"""Systems: how each is recognised, which one this machine is, and which one is nearest to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.problems import Problem
from nvidia_mlperf.flow import vocabulary
from nvidia_mlperf.flow.errors import nearest

SAME_MEMORY, SAME_POWER = 0.1, 0.05
"""How far the same GPU may differ. A T4 reports 15109 MiB of 16 GiB: the driver takes some."""
WHOLE = 0.5
"""A part of a GPU that expects more than this share of the whole one's rate has the whole one's."""
CPU = "cpu"
"""What models are compiled for where there is no Neuron device."""


@dataclass(frozen=True, slots=True)
class BenchmarkSystem:
    """A system of the registry; ``names`` is empty for one without a GPU of NVIDIA's.

    Memory is in GiB, power in W, 0 where it is not looked at. ``board`` says that the name is that
    of the board. ``profile`` and ``instances`` are of MIG; ``count`` counts GPUs. ``instance`` is a
    cloud's type of machine, such as inf1.6xlarge.
    """

    id: str
    rounds: tuple[str, ...]
    origin: tuple[str, ...]
    names: tuple[str, ...] = ()
    count: int = 0
    memory: float = 0
    power: float = 0
    compute_capability: str = ""
    machine: str = "any"
    board: bool = False
    profile: str = ""
    instances: int = 0
    accelerator: str = ""
    instance: str = ""

    @property
    def units(self) -> int:
        """Return how many devices share the work: GPUs, or instances of them."""
        return self.instances or self.count


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """A machine: its GPUs as the driver reports them, and its MIG instances.

    ``kinds`` counts different ones.
    """

    name: str
    count: int
    memory: float = 0
    power: float = 0
    compute_capability: str = ""
    machine: str = "x86_64"
    board: str = ""
    profile: str = ""
    instances: int = 0
    kinds: int = 1

    def __str__(self) -> str:
        parts = f", {self.instances} x MIG {self.profile}" if self.instances else ""
        return f"{self.count} x {self.name}{parts} ({self.machine})"


@dataclass(frozen=True, slots=True)
class NeuronDevices:
    """The Neuron devices together; all is empty or 0 where there are none.

    ``target`` is what models are compiled for, ``cores`` counts NeuronCores, ``problem`` says why
    devices that are there cannot be used.
    """

    target: str = ""
    instance: str = ""
    cores: int = 0
    problem: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        if not self.target:
            return f"no Neuron device: {CPU} stands in"
        return f"{self.instance or self.target}, {self.cores or 'unknown'} NeuronCores"


def machine_of(gpus: Sequence[Mapping[str, Any]], machine: str, board: str = "") -> GpuMachine:
    """The machine of these GPUs, with nvidia-smi's names; ``mig`` has the UUIDs of instances.

    Where they differ, the first one counts. Raises Problem where there is none.
    """
    names = sorted({str(gpu.get("name", "")) for gpu in gpus})
    if not gpus and not board:
        raise Problem(
            "no-device", "this machine shows no NVIDIA GPU", "name a system: --system=T4x1"
        )
    first: Mapping[str, Any] = gpus[0] if gpus else {}
    profiles = [str(part) for gpu in gpus for part in gpu.get("profiles", ())]
    return GpuMachine(
        name=", ".join(names) or board,
        count=max(1, len(gpus)),
        memory=_number(first.get("memory.total")) / 1024,
        power=_number(first.get("power.limit")),
        compute_capability=str(first.get("compute_cap", "")),
        machine=machine,
        board=board,
        profile=profiles[0] if len(set(profiles)) == 1 else "",
        instances=len(profiles),
        kinds=len(names),
    )


def _apart(one: float, other: float) -> float:
    """Return how many times larger the larger one is, as a logarithm; 0 where one is not known."""
    return abs(math.log(one / other)) if one > 0 and other > 0 else 0.0


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def match(machine: GpuMachine, systems: Iterable[BenchmarkSystem]) -> list[BenchmarkSystem]:
    """Return the systems that this machine is exactly."""
    return [system for system in systems if not difference(machine, system)]


def difference(machine: GpuMachine, system: BenchmarkSystem) -> str:
    """In what a machine is not that system; empty where it is."""
    if not system.names:
        return f"it is one of {system.accelerator or 'another kind'}"
    if not _named(machine, system):
        return f"its GPU is {system.names[0]}"
    if system.machine not in ("any", machine.machine):
        return f"its processor is {system.machine}"
    if (system.profile, system.instances) != (machine.profile, machine.instances):
        what = f"{system.instances} x MIG {system.profile}" if system.instances else "whole GPUs"
        return f"it has {what}"
    if not system.instances and system.count != machine.count:
        return f"it has {system.count} of them"
    for what, one, other, may_differ in (
        ("GiB", system.memory, machine.memory, SAME_MEMORY),
        ("W", system.power, machine.power, SAME_POWER),
    ):
        if one and other and abs(one - other) > may_differ * one:
            return f"its GPU has {one:g} {what}, this one {other:.0f}"
    return ""


def _named(machine: GpuMachine, system: BenchmarkSystem) -> bool:
    if system.board:
        return any(
            name.lower() in f"{machine.board} {machine.name}".lower() for name in system.names
        )
    return machine.name.lower() in (name.lower() for name in system.names)


def chosen(
    machine: GpuMachine,
    systems: Sequence[BenchmarkSystem],
    vendor_round: str,
    allow_nearest: str = "",
) -> BenchmarkSystem:
    """Return the system whose values count for this machine; raise Problem without one.

    ``allow_nearest`` is the id that the caller allows in the place of an exact one.
    """
    of_round = [system for system in systems if vendor_round in system.rounds]
    if allow_nearest:
        return system_of_id(allow_nearest, systems, vendor_round)
    of_one_kind(machine)
    exact = match(machine, of_round)
    if len(exact) == 1:
        return exact[0]
    if exact:
        ids = ", ".join(system.id for system in exact)
        raise Problem("ambiguous", f"{machine} may be {ids}", "name one: --system=ID")
    closest = nearest_to(machine, of_round)
    if closest is None:
        raise Problem("not-available", f"no system of {vendor_round} is like {machine}")
    raise Problem(
        "not-available",
        f"{machine} is not a system of {vendor_round}; nearest is {closest.id}: "
        f"{difference(machine, closest)}",
        "\n".join(_ways(machine, closest, vendor_round)),
    )


def _ways(machine: GpuMachine, like: BenchmarkSystem, vendor_round: str) -> Iterator[str]:
    """What a user of a machine may do that is no system, the likeliest first."""
    if machine.instances > 1 and like.instances == 1:
        yield "one instance: `export CUDA_VISIBLE_DEVICES=MIG-…` (`nvidia-smi -L` shows them)"
    yield f"its values, scaled by the number of GPUs: --allow_nearest={like.id}"
    own = f"cm run script --tags=add,custom,system,nvidia --vendor_round={vendor_round}"
    yield f"or values of your own, scaled from it: `{own}`"


def of_one_kind(machine: GpuMachine) -> None:
    """Raise Problem where the GPUs differ: no system of the registry is like that."""
    if machine.kinds > 1:
        raise Problem(
            "bad-value",
            f"the GPUs differ: {machine.name}",
            "choose those of one kind with CUDA_VISIBLE_DEVICES, or name a system: --system=T4x1",
        )


def system_of_id(
    word: str, systems: Iterable[BenchmarkSystem], vendor_round: str
) -> BenchmarkSystem:
    """Return the system of that id in a round; raise Problem with the rounds that have it.

    Where none has, the nearest one of the round is named.
    """
    known = {system.id.lower(): system for system in systems}
    match = known.get(word.lower())
    if match is not None and vendor_round in match.rounds:
        return match
    own = "one of your own: `cm run script --tags=add,custom,system,nvidia`"
    ids = [system.id for system in known.values() if vendor_round in system.rounds]
    others = match.rounds if match is not None else ()
    hint = vocabulary.of_rounds(others) if others else nearest(word, ids, own)
    raise Problem("bad-value", f"{vendor_round} has no system {word}", hint)


def nearest_to(machine: GpuMachine, systems: Iterable[BenchmarkSystem]) -> BenchmarkSystem | None:
    """The system that is most like it: the same GPU, else one near in generation, memory, power.

    2.7 times the memory or power count as one in compute capability. A card is never like a board,
    whose GPU shares the memory of its processor.
    """
    with_gpu = [system for system in systems if system.names]

    def distance(system: BenchmarkSystem) -> tuple[float, ...]:
        capability = _number(system.compute_capability) - _number(machine.compute_capability)
        known = bool(machine.compute_capability)
        return (
            not _named(machine, system),
            system.board != bool(machine.board),
            bool(system.instances) != bool(machine.instances),
            (abs(capability) if known else 0.0)
            + _apart(system.memory, machine.memory)
            + _apart(system.power, machine.power),
            system.machine not in ("any", machine.machine),
            abs(system.units - (machine.instances or machine.count)),
        )

    return min(with_gpu, key=distance, default=None)
