"""Check the registry of NVIDIA's configurations, or explain one: values and their origin."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib import nvidia_machine
from common.problems import Problem


def preprocess(i: dict[str, Any]) -> dict[str, Any]:
    """Print the requested part; return the values in the state."""
    from nvidia_mlperf.flow import registry

    env = i["env"]
    own = env.get("CM_NVIDIA_SYSTEMS_DIR")
    known = registry.load(registry.HERE, Path(os.path.abspath(own)) if own else None)
    if known.faults:
        raise Error(
            "bad-value",
            f"the registry has {len(known.faults)} faults",
            hint="correct these files",
            context=[str(fault) for fault in known.faults],
        )
    if env.get("CM_NVIDIA_FIELD"):
        print("\n".join(fields(known, str(env["CM_NVIDIA_FIELD"]))))
    elif env.get("CM_NVIDIA_BENCHMARK"):
        explain(i, known)
    else:
        print("\n".join(counts(known)))
    return {"return": 0}


def counts(known: Any) -> list[str]:
    """How much there is, by round."""
    files = Counter(table.round for table in known.tables)
    blocks = Counter[str]()
    for table in known.tables:
        named = [block for block in table.blocks.values() if block.system]
        blocks[table.round] += sum(len(block.versions) for block in named)
    here = Counter(field.here for field in known.fields.values())
    lines = [f"{r}: {files[r]} files, {blocks[r]} configurations" for r in sorted(files)]
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(here.items()))
    return [*lines, f"{len(known.systems)} systems", f"{len(known.fields)} fields: {kinds}"]


def fields(known: Any, requested: str) -> list[str]:
    """What a field is and what happens with it; several with commas between them, or all.

    Raises Problem for one that is not known.
    """
    from nvidia_mlperf.flow.errors import nearest

    names = known.fields if requested == "all" else [word.strip() for word in requested.split(",")]
    wrong = [f"there is no {n}: {nearest(n, known.fields)}" for n in names if n not in known.fields]
    if wrong:
        raise Problem("bad-value", "; ".join(wrong), "--field=all shows all of them")
    return [known.fields[name].described() for name in names]


def explain(i: dict[str, Any], known: Any) -> None:
    """One configuration, value by value."""
    from nvidia_mlperf.flow import vocabulary

    env = i["env"]
    vendor_round = str(env["CM_NVIDIA_VENDOR_ROUND"])
    scenario = str(env.get("CM_NVIDIA_SCENARIO") or "Offline")
    table = known.table(vendor_round, str(env["CM_NVIDIA_BENCHMARK"]), scenario)
    ver = str(env["CM_NVIDIA_CONFIG_VER"])
    machine, system = chosen(env, known, vendor_round)
    config = known.config(table, system, ver, run_args(str(env.get("CM_NVIDIA_RUN_ARGS") or "")))
    if machine is not None:
        config = known.scaled(config, machine)
    ours = vocabulary.our_benchmark(vendor_round, table.benchmark, ver)
    print(f"{vendor_round} {table.benchmark} {table.scenario} {ver} on {system}; here: {ours}")
    for name, value in sorted(config.values.items()):
        print(described(known.fields[name], value))
    print("\n".join(f"look: {note}" for note in config.notes))
    env["CM_NVIDIA_SYSTEM"] = system
    env["CM_NVIDIA_CONFIG_BENCHMARK"] = ours
    i["state"]["nvidia_config"] = {name: value.value for name, value in config.values.items()}


def described(field: Any, value: Any) -> str:
    """Return a value, its equivalent in cmbench, and its origin."""
    why = f" as {field.ours}" if field.ours else ""
    why += f": {field.why}" if field.why else ""
    origin = f" ({value.origin})" if value.origin else ""
    here = f"    {field.here}{why}\n    {value.given_by}{origin}"
    return f"  {field.name} = {value.value}\n{here}"


def chosen(env: dict[str, Any], known: Any, vendor_round: str) -> tuple[Any, str]:
    """The machine, where its number of GPUs counts, and the system whose values are taken."""
    from nvidia_mlperf.flow import systems

    every = list(known.systems.values())
    if env.get("CM_NVIDIA_SYSTEM"):
        return None, systems.system_of_id(str(env["CM_NVIDIA_SYSTEM"]), every, vendor_round).id
    machine = nvidia_machine.this_machine()
    allowed = str(env.get("CM_NVIDIA_ALLOW_NEAREST") or "")
    system = systems.chosen(machine, every, vendor_round, allowed)
    print(f"this machine: {machine}")
    return machine, system.id


def run_args(text: str) -> dict[str, str]:
    """Fields and values of ``--name=value`` words; a name alone means yes."""
    values = {}
    for word in shlex.split(text):
        name, equals, value = word.removeprefix("--").partition("=")
        values[name] = value if equals else "true"
    return values
