"""Write a system for this machine and its values, scaled from the nearest known one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cmbench.lib import nvidia_machine
from common.problems import Problem


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """The files go into the entry; raises Error without a GPU, or where a known system fits."""
    from nvidia_mlperf.flow import custom, registry, vocabulary

    env = i["env"]
    vendor_round = str(env["CM_NVIDIA_VENDOR_ROUND"])
    vocabulary.rounds(vendor_round)
    known = registry.load()
    machine = nvidia_machine.this_machine()
    like = scaled_from(known, machine, vendor_round, str(env.get("CM_NVIDIA_ALLOW_NEAREST") or ""))
    name = str(env.get("CM_NVIDIA_SYSTEM_NAME") or "") or default_name(machine)
    made = custom.files(known, machine, like, vendor_round, name)
    folder = Path(os.getcwd(), "systems-of-mine")
    custom.write(made, folder)
    checked = registry.load(registry.HERE, folder)
    assert not checked.faults, [str(fault) for fault in checked.faults]
    print(f"{machine}: {name}, {len(made) - 1} files scaled from {like.id}")
    print("look: nothing of this was measured; the rates are a beginning for your own")
    env["CM_NVIDIA_SYSTEM"] = name
    env["CM_NVIDIA_SYSTEMS_DIR"] = str(folder)
    return {"return": 0}


def scaled_from(known: Any, machine: Any, vendor_round: str, allowed: str) -> Any:
    """The system to scale from: the one that is named, else the nearest; raises Problem."""
    from nvidia_mlperf.flow import systems

    of_round = [s for s in known.systems.values() if vendor_round in s.rounds]
    if allowed:
        return systems.system_of_id(allowed, known.systems.values(), vendor_round)
    systems.of_one_kind(machine)
    for exact in systems.match(machine, of_round):
        hint = f"its values: `--tags=explain,nvidia-config --system={exact.id}`"
        raise Problem("bad-value", f"{machine} is a known system, {exact.id}", hint)
    like = systems.nearest_to(machine, of_round)
    if like is None:
        raise Problem("not-available", f"no system of {vendor_round} is like {machine}")
    return like


def default_name(machine: Any) -> str:
    """``NVIDIA_L4x2``."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", machine.name).strip("_")
    part = f"-MIG_{machine.instances}x{machine.profile}" if machine.instances else ""
    return f"{name}x{machine.count}{part}"
