"""A system of a user's own: values from the nearest known one, scaled, and marked as that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from common.problems import Problem
from nvidia_mlperf.flow.registry import RATES, ConfigRegistry, ConfigTable
from nvidia_mlperf.flow.systems import BenchmarkSystem, GpuMachine

BATCH = "gpu_batch_size"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def files(
    known: ConfigRegistry, machine: GpuMachine, like: BenchmarkSystem, vendor_round: str, name: str
) -> dict[str, str]:
    """Return the files of the new system by their path: how it is recognised, and its blocks.

    Rates grow with the number of devices, batches with the memory of each; both only as a
    beginning. Raises Problem for a name that cannot be one, or is one already.
    """
    if not _ID.fullmatch(name):
        raise Problem("bad-value", f"{name!r} cannot name a system", "use letters, digits, - _ .")
    if name in known.systems:
        raise Problem("bad-value", f"{name} is a known system", "choose another --system_name")
    made = {f"systems/{name}.yaml": _text(_recognised(machine, like, vendor_round, name))}
    for table in known.tables:
        blocks = dict(_scaled(known, table, machine, like, name))
        if table.round == vendor_round and blocks:
            head = {
                "source": f"scaled from {like.id}, not measured",
                "round": table.round,
                "benchmark": table.benchmark,
                "scenario": table.scenario,
                "blocks": blocks,
            }
            path = f"configs/{table.round}/{table.benchmark}/{table.scenario}.yaml"
            made[path] = _text(head)
    return made


def write(made: Mapping[str, str], folder: Path) -> None:
    """Write the files below ``folder``."""
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _recognised(
    machine: GpuMachine, like: BenchmarkSystem, vendor_round: str, name: str
) -> dict[str, Any]:
    gpu: dict[str, Any] = {"names": [machine.name]}
    numbers = {"memory_gib": machine.memory, "power": machine.power}
    gpu.update({key: round(value, 2) for key, value in numbers.items() if value})
    if machine.compute_capability:
        gpu["compute_capability"] = machine.compute_capability
    record: dict[str, Any] = {
        "id": name,
        "rounds": [vendor_round],
        "origin": [f"this machine: {machine}; nearest is {like.id}"],
        "gpu": gpu,
        "count": machine.count,
        "machine": machine.machine,
    }
    if machine.instances:
        record["mig"] = {"profile": machine.profile, "instances": machine.instances}
    return record


def _scaled(
    known: ConfigRegistry, table: ConfigTable, machine: GpuMachine, like: BenchmarkSystem, name: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the blocks of the new system, each like one of the nearest."""
    units = (machine.instances or machine.count) / like.units
    memory = machine.memory / like.memory if machine.memory and like.memory else 1.0
    for block in table.blocks.values():
        for ver in block.versions if block.system == like.id else ():
            values = known.config(table, like.id, ver).values
            fields = {
                field: _round(values[field].value * units) for field in RATES if field in values
            }
            if BATCH in values:
                fields[BATCH] = max(1, int(values[BATCH].value * min(memory, 1.0)))
            scale = f"scaled by {units:g} (devices) and {min(memory, 1.0):.2f} (memory)"
            origin = {"like": block.name, "origin": scale, "system": name}
            yield f"{name} {ver}", {**origin, "ver": ver, "fields": fields}


def _round(rate: float) -> float | int:
    return int(rate) if rate >= 100 else round(rate, 3)


def _text(record: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(record), sort_keys=False, width=100)
