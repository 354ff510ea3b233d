"""The work of a make line: one item per run, with its values from the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem
from mlperf.catalog.scenario import MULTI_STREAM
from nvidia_mlperf.flow import registry, systems, vocabulary
from nvidia_mlperf.flow.fields import ConfigField
from nvidia_mlperf.flow.registry import DEFAULT, ConfigRegistry, ConfigTable, RunConfig
from nvidia_mlperf.flow.systems import GpuMachine
from nvidia_mlperf.make import neuron, run_arguments
from nvidia_mlperf.make.flow import Flow
from nvidia_mlperf.make.run_arguments import ALL, RunArguments

REFERENCE = {"v0.7": "T4x1", "v2.0": "T4x1", "v3.1": "ND_H100_v5"}
"""The system whose configurations a machine without a GPU follows."""
GIVEN = "the command line"
NOT_PUBLIC: Mapping[str, str] = {
    "v3.1": (
        "Azure's engines came from a TensorRT-LLM build and an fp8 checkpoint that are not public; "
        "with a GPU of compute capability 8.9 or newer the public way is TensorRT-LLM at commit "
        "0ab9d17a, its quantize.py --dtype float16 --qformat fp8 --kv_cache_dtype fp8 on the "
        "public checkpoint, as NVIDIA's README of round v4.0 for GPT-J tells (not tried here)"
    )
}
"""What a round's submission was made with that nobody else can have, and the public way."""
_LEFT_OUT = ("hetero", "maxq")
_OLD_STREAM = (
    "v0.7's MultiStream, the most samples in a fixed interval, cannot be measured with the LoadGen "
    "of round 4.1 and newer"
)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One benchmark in one scenario with one version of its configuration."""

    ours: str
    config: RunConfig

    @property
    def name(self) -> str:
        """Return the item in the words of RUN_ARGS."""
        return f"{self.config.benchmark} {self.config.scenario} {self.config.ver}"

    @property
    def overrides(self) -> dict[str, Any]:
        """Return the fields that RUN_ARGS sets."""
        values = self.config.values.items()
        return {name: value.value for name, value in values if value.given_by == GIVEN}

    def value(self, name: str, otherwise: Any = None) -> Any:
        """Return the value of a field."""
        entry = self.config.values.get(name)
        return otherwise if entry is None else entry.value


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """All items of a line, the system that they are for, and what the user should know.

    ``fields`` are all that are known, by name.
    """

    arguments: RunArguments
    system: str
    machine: GpuMachine | None
    items: tuple[PlannedRun, ...]
    notes: tuple[str, ...]
    fields: Mapping[str, ConfigField]
    on: str = "no GPU here"

    def lines(self) -> list[str]:
        """What will be done, before it is."""
        lines = [*self.arguments.lines(), f"system: {self.system} ({self.machine or self.on})"]
        lines += [f"run: {item.name}; here {item.ours}" for item in self.items]
        return [*lines, *(f"note: {note}" for note in (*self.arguments.notes, *self.notes))]


def plan(flow: Flow, run_args: str | None = None) -> WorkPlan:
    """Return the work of a make line; raise Problem for all that is unavailable."""
    known = read_registry(flow.settings.systems_dir)
    text = flow.variables.get("RUN_ARGS", "") if run_args is None else run_args
    vendor_round = flow.settings.vendor_round
    arguments = run_arguments.read(
        text, known.fields, vendor_round, flow.variables.get("BENCHMARKS", "")
    )
    system, machine, notes = which(flow, known, arguments)
    _refuse_old_stream(vendor_round, arguments)
    tables = [table for table in known.tables if _wanted(table, vendor_round, system, arguments)]
    _check_benchmarks(arguments, tables, system, flow, known)
    pairs = [(t, ver) for t in tables for ver in versions_of(t, system, arguments.versions)]
    _check_versions(arguments, known, vendor_round, tables, pairs, system)
    items = tuple(_items(known, pairs, arguments, system, machine))
    notes += _skipped(arguments, tables, pairs)
    notes += [note for item in items for note in item.config.notes]
    notes += [NOT_PUBLIC[vendor_round]] if vendor_round in NOT_PUBLIC else []
    on = {"on": str(neuron.device(flow))} if flow.vendor == neuron.ACCELERATOR else {}
    return WorkPlan(
        arguments, system, machine, items, tuple(dict.fromkeys(notes)), known.fields, **on
    )


def read_registry(own: str = "") -> ConfigRegistry:
    """Return the registry with a user's own systems; raise Problem with all its faults."""
    known = registry.load(registry.HERE, Path(own) if own else None)
    if known.faults:
        faults = "; ".join(str(fault) for fault in known.faults)
        raise Problem("bad-value", f"the registry has faults: {faults}", "correct these files")
    return known


def which(
    flow: Flow, known: ConfigRegistry, arguments: RunArguments
) -> tuple[str, GpuMachine | None, list[str]]:
    """The system whose values count, the machine where it has a GPU, and what to say of it."""
    settings = flow.settings
    every, vendor_round = list(known.systems.values()), settings.vendor_round
    of_round = [system for system in every if vendor_round in system.rounds]
    name = arguments.system or settings.system
    if flow.vendor == neuron.ACCELERATOR:
        system, neuron_notes = neuron.system(flow, name, of_round)
        return system, None, neuron_notes
    neuron.refuse_foreign(name, of_round)
    machine = flow.runner.machine()
    if name:
        return systems.system_of_id(name, every, vendor_round).id, machine, []
    if machine is None:
        reference = REFERENCE[vendor_round]
        note = f"there is no NVIDIA GPU: benchmarks and scenarios are those of {reference}"
        return reference, None, [f"{note}, its rates and batches are not taken"]
    nearest = arguments.nearest or settings.allow_nearest
    chosen = systems.chosen(machine, every, vendor_round, nearest)
    return chosen.id, machine, []


def versions_of(table: ConfigTable, system: str, requested: Sequence[str]) -> list[str]:
    """Return the versions of a file that are meant, in its order; without any, the default one."""
    blocks = [block for block in table.blocks.values() if block.system == system]
    there = list(dict.fromkeys(ver for block in blocks for ver in block.versions))
    runs = [ver for ver in there if not any(word in ver for word in _LEFT_OUT)]
    if ALL in requested:
        return runs
    return [ver for ver in runs if ver in (requested or (DEFAULT,))]


def _wanted(table: ConfigTable, vendor_round: str, system: str, arguments: RunArguments) -> bool:
    """Return whether a table matches the arguments and has values for the system."""
    return (
        table.round == vendor_round
        and (not arguments.benchmarks or table.benchmark in arguments.benchmarks)
        and (not arguments.scenarios or table.scenario in arguments.scenarios)
        and not (vendor_round == "v0.7" and table.scenario == MULTI_STREAM)
        and any(block.system == system for block in table.blocks.values())
    )


def _refuse_old_stream(vendor_round: str, arguments: RunArguments) -> None:
    if vendor_round == "v0.7" and MULTI_STREAM in arguments.scenarios:
        raise Problem("not-available", _OLD_STREAM, "leave MultiStream out of --scenarios")


def _check_benchmarks(
    arguments: RunArguments,
    tables: Sequence[ConfigTable],
    system: str,
    flow: Flow,
    known: ConfigRegistry,
) -> None:
    """Raise Problem for benchmarks of which nothing is there, all at once."""
    there, vendor_round = {table.benchmark for table in tables}, flow.settings.vendor_round
    missing = [name for name in arguments.benchmarks if name not in there]
    if missing or not tables:
        what = ", ".join(missing) or "any benchmark"
        within = f" in {', '.join(arguments.scenarios)}" if arguments.scenarios else ""
        raise Problem(
            "not-available",
            f"{vendor_round} has no values for {what}{within} on {system}",
            _elsewhere(missing, arguments.scenarios, flow, known)
            or f"leave it out; what there is for {vendor_round}: make info",
        )


def _elsewhere(
    benchmarks: Sequence[str], scenarios: Sequence[str], flow: Flow, known: ConfigRegistry
) -> str:
    """Another round of NVIDIA's that has values for all of these, as a hint; else empty."""
    if flow.vendor == neuron.ACCELERATOR:
        return ""
    there = {
        (table.round, table.benchmark)
        for table in known.tables
        if not scenarios or table.scenario in scenarios
    }
    others = [each for each in vocabulary.VENDOR_ROUNDS if each != flow.settings.vendor_round]
    rounds = [each for each in others if all((each, name) in there for name in benchmarks)]
    return f"a folder of another round has them: --vendor_round={rounds[-1]}" if rounds else ""


def _check_versions(
    arguments: RunArguments,
    known: ConfigRegistry,
    vendor_round: str,
    tables: Sequence[ConfigTable],
    pairs: Sequence[tuple[ConfigTable, str]],
    system: str,
) -> None:
    """Raise Problem for versions that the system has nowhere, and where nothing is left."""
    of_round = [table for table in known.tables if table.round == vendor_round]
    every = _versions(of_round, system)
    missing = [ver for ver in arguments.versions if ver not in (*every, ALL)]
    if pairs and not missing:
        return
    raise Problem(
        "bad-value",
        f"--config_ver={','.join(missing or arguments.versions or [DEFAULT])} is not there for "
        f"this on {system}",
        f"one of: {', '.join(_versions(tables, system) or every)}",
    )


def _versions(tables: Sequence[ConfigTable], system: str) -> list[str]:
    """Every version that a system has in one of these files."""
    return sorted({ver for table in tables for ver in versions_of(table, system, (ALL,))})


def _items(
    known: ConfigRegistry,
    pairs: Sequence[tuple[ConfigTable, str]],
    arguments: RunArguments,
    system: str,
    machine: GpuMachine | None,
) -> Iterator[PlannedRun]:
    """Yield the items with their values; raise Problem for a field that fits none of them."""
    _check_scopes(known, [table for table, _ in pairs], arguments.fields)
    for table, ver in pairs:
        fitting = {
            name: value
            for name, value in arguments.fields.items()
            if not known.fields[name].out_of_scope(table.benchmark, table.scenario)
        }
        config = known.config(table, system, ver, fitting)
        if machine is not None:
            config = known.scaled(config, machine)
        yield PlannedRun(vocabulary.our_benchmark(table.round, table.benchmark, ver), config)


def _check_scopes(
    known: ConfigRegistry, tables: Sequence[ConfigTable], overrides: Mapping[str, Any]
) -> None:
    """A field may be for some of the runs, as ``server_target_qps`` is; not for none."""
    wrong = []
    for name in overrides:
        why = [known.fields[name].out_of_scope(t.benchmark, t.scenario) for t in tables]
        if why and all(why):
            wrong.append(why[0])
    if wrong:
        raise Problem("bad-value", f"RUN_ARGS: {'; '.join(wrong)}", "leave them out")


def _skipped(
    arguments: RunArguments, tables: Sequence[ConfigTable], pairs: Sequence[tuple[ConfigTable, str]]
) -> list[str]:
    """Return notes on unavailable combinations of the arguments."""
    notes = []
    for name in arguments.benchmarks:
        scenarios = {table.scenario for table in tables if table.benchmark == name}
        notes += [f"{name} has no {s}: left out" for s in arguments.scenarios if s not in scenarios]
    for table in tables:
        have = {ver for other, ver in pairs if other is table}
        notes += [
            f"{table.benchmark} {table.scenario} has no {ver}: left out"
            for ver in arguments.versions
            if ver not in have and ver != ALL
        ]
    return notes
