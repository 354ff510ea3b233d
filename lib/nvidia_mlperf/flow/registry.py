"""The registry: all fields, systems and blocks of values, read, checked, and explained.

Everything that is wrong is found in one go, with file and line. A block gets its values from the
block that it is ``like``, up to one that is like none; what it says itself comes last.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from common.problems import Problem
from mlperf.catalog import Scenario
from nvidia_mlperf.flow import systems as systems_of
from nvidia_mlperf.flow import vocabulary
from nvidia_mlperf.flow.errors import RegistryFault, nearest
from nvidia_mlperf.flow.fields import REFUSED, ConfigField
from nvidia_mlperf.flow.fields import read as read_fields
from nvidia_mlperf.flow.systems import BenchmarkSystem

HERE = Path(__file__).parent
DEFAULT = "default"
RATES = (
    "offline_expected_qps",
    "gpu_offline_expected_qps",
    "server_target_qps",
)
"""What grows with the number of devices."""
_HEAD = {"source", "round", "benchmark", "scenario", "blocks"}
_BLOCK = {"like", "origin", "system", "ver", "fields"}
_SYSTEM = frozenset(
    ("id", "rounds", "origin", "gpu", "count", "machine", "mig", "accelerator", "instance")
)
_GPU = frozenset(("names", "memory_gib", "power", "pci", "compute_capability", "board"))
_MIG = frozenset(("profile", "instances"))
_FOREIGN = (".py", ".json", ".yml")
"""What configurations are in NVIDIA's own folders, and another ending of YAML."""
_MAKES = "which cm run script --tags=add,custom,system,nvidia makes"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class ConfigBlock:
    """Values of one system in one configuration, or values that others are ``like``.

    ``file`` is below ``root``, which is not always that of the published ones.
    """

    name: str
    root: Path
    file: str
    source: str
    like: str
    origin: str
    system: str
    versions: tuple[str, ...]
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConfigTable:
    """One file: the blocks of a benchmark and scenario in a round, and where they come from."""

    file: str
    source: str
    round: str
    benchmark: str
    scenario: str
    blocks: Mapping[str, ConfigBlock]


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value, the file and block that gave it, and where those have it from."""

    value: Any
    given_by: str
    origin: str


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The values of one run; ``notes`` are what its user should know."""

    round: str
    benchmark: str
    scenario: Scenario
    system: str
    ver: str
    values: Mapping[str, ConfigValue]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigRegistry:
    """The fields, systems and tables that were read, and their faults."""

    fields: Mapping[str, ConfigField]
    systems: Mapping[str, BenchmarkSystem]
    tables: tuple[ConfigTable, ...]
    faults: tuple[RegistryFault, ...]

    def table(self, vendor_round: str, benchmark: str, scenario: str) -> ConfigTable:
        """Return the file of these three, in NVIDIA's words; raise Problem with what there is."""
        benchmark = vocabulary.benchmark(vendor_round, benchmark)
        scenario = vocabulary.scenario(scenario)
        of_round = [table for table in self.tables if table.round == vendor_round]
        for table in of_round:
            if (table.benchmark, table.scenario) == (benchmark, scenario):
                return table
        there = sorted(table.scenario for table in of_round if table.benchmark == benchmark)
        raise Problem(
            "not-available",
            f"{vendor_round} has no {benchmark} in {scenario}",
            f"it has {', '.join(there) or 'no values for it; they were never published'}",
        )

    def config(
        self,
        table: ConfigTable,
        system: str,
        ver: str = DEFAULT,
        overrides: Mapping[str, Any] | None = None,
    ) -> RunConfig:
        """Return the values for a system, overrides last; raise Problem."""
        of_system = [block for block in table.blocks.values() if block.system == system]
        if not of_system:
            known = sorted({block.system for block in table.blocks.values() if block.system})
            raise Problem(
                "not-available",
                f"{table.round} {table.benchmark} {table.scenario} has no values for {system}",
                nearest(system, known),
            )
        fitting = [block for block in of_system if ver in block.versions]
        if not fitting:
            there = sorted({name for block in of_system for name in block.versions})
            hint = f"{system} has {', '.join(there)}"
            raise Problem("bad-value", f"--config_ver={ver} is not there for {system}", hint)
        values = {**self._inherited(table, fitting[-1]), **self._override(table, overrides or {})}
        scenario = vocabulary.scenario(table.scenario)
        config = RunConfig(table.round, table.benchmark, scenario, system, ver, values)
        return replace(config, notes=tuple(self._notes(table, config)))

    def scaled(self, config: RunConfig, machine: systems_of.GpuMachine) -> RunConfig:
        """The same with rates for the number of devices that this machine has, marked as scaled."""
        units = machine.instances or machine.count
        share = units / self.systems[config.system].units
        if share == 1:
            return config
        values = dict(config.values)
        for name in RATES:
            if name in values:
                old = values[name]
                by = f"scaled by {units}/{self.systems[config.system].units} from {config.system}"
                values[name] = ConfigValue(old.value * share, f"{old.given_by}, {by}", old.origin)
        return replace(config, values=values)

    def _inherited(self, table: ConfigTable, block: ConfigBlock) -> dict[str, ConfigValue]:
        chain = [block]
        while chain[-1].like:
            chain.append(table.blocks[chain[-1].like])
        values: dict[str, ConfigValue] = {}
        for one in reversed(chain):
            given_by, origin = f"{one.file}: {one.name}", f"{one.source}, {one.origin}"
            for name, value in one.fields.items():
                values.pop(name, None)
                if value is not None:
                    values[name] = ConfigValue(value, given_by, origin)
        return values

    def _override(self, table: ConfigTable, overrides: Mapping[str, Any]) -> dict[str, ConfigValue]:
        """Return the overrides as values; raise Problem with all faults in them."""
        wrong, values = [], {}
        for name, raw in overrides.items():
            field = self.fields.get(name)
            if field is None:
                wrong.append(f"there is no field {name}: {nearest(name, self.fields)}")
                continue
            value = field.from_text(raw) if isinstance(raw, str) else raw
            problem = field.misfit(value) or field.out_of_scope(table.benchmark, table.scenario)
            if not problem and field.here == REFUSED:
                problem = f"{name} is refused: {field.why}"
            wrong += [problem] if problem else []
            values[name] = ConfigValue(value, "the command line", "")
        if wrong:
            raise Problem("bad-value", "; ".join(wrong), "leave them out, or correct them")
        return values

    def _notes(self, table: ConfigTable, config: RunConfig) -> Iterator[str]:
        """Traps in what was published."""
        system = self.systems[config.system]
        whole = next(
            (
                other
                for other in self.systems.values()
                if other.names == system.names and other.count == 1 and not other.instances
            ),
            None,
        )
        if not system.instances or whole is None:
            return
        for block in table.blocks.values():
            if block.system != whole.id or config.ver not in block.versions:
                continue
            rates = self._inherited(table, block)
            for name in RATES:
                if name not in rates or name not in config.values:
                    continue
                own, all_of_it = config.values[name].value, rates[name].value
                if own > systems_of.WHOLE * all_of_it * system.instances:
                    yield (
                        f"{name} of {own:g} is that of a whole GPU ({whole.id}), not of its part:"
                        " a run takes several times as long"
                    )


# ---- reading


@functools.lru_cache(maxsize=2)
def load(folder: Path = HERE, own: Path | None = None) -> ConfigRegistry:
    """Read and check everything below ``folder``, and systems with values of a user's ``own``.

    Own blocks join the published ones of the same round, benchmark and scenario, and may be like
    them.
    """
    faults: list[RegistryFault] = []
    fields: dict[str, ConfigField] = {}
    try:
        fields = read_fields(_document(folder / "fields.yaml", folder, faults))
    except (ValueError, TypeError, AttributeError) as problem:
        faults.append(RegistryFault("fields.yaml", 0, str(problem)))
    systems: dict[str, BenchmarkSystem] = {}
    tables: dict[tuple[str, str, str], ConfigTable] = {}
    for root in (folder, *([own] if own else [])):
        for path in sorted((root / "systems").glob("*.yaml")):
            system = _system(path, root, faults)
            if system:
                systems[system.id] = system
        paths = (root / "configs").glob("**/*.yaml")
        for path in sorted(paths, key=lambda path: (len(path.parts), path)):
            table = _table(path, root, faults)
            if table:
                _join(tables, table)
    for table in tables.values():
        faults += _faults_of(table, fields, systems)
    if own:
        faults += _unread(own)
    every = tuple(tables.values())
    return ConfigRegistry(fields, _with_values(systems, every), every, tuple(faults))


def _with_values(
    systems: Mapping[str, BenchmarkSystem], tables: Sequence[ConfigTable]
) -> dict[str, BenchmarkSystem]:
    """Return the systems, each with those of its rounds alone that have values for it.

    Some that NVIDIA's programs recognise were never submitted with.
    """
    there = {(block.system, t.round) for t in tables for block in t.blocks.values()}
    return {
        name: replace(system, rounds=tuple(r for r in system.rounds if (name, r) in there))
        for name, system in systems.items()
    }


def _unread(own: Path) -> Iterator[RegistryFault]:
    """Files of a user's own that would count for nothing, such as those of NVIDIA's programs."""
    parts = [own / "systems", own / "configs"]
    there = [path for part in parts for path in sorted(part.rglob("*")) if path.is_file()]
    if not there:
        yield RegistryFault(str(own), 0, "it has no systems/*.yaml and no configs/**/*.yaml")
    for path in there:
        if path.suffix in _FOREIGN:
            name = path.relative_to(own).as_posix()
            yield RegistryFault(
                name, 0, f"it is not read: values are in files named .yaml, {_MAKES}"
            )


def _join(tables: dict[tuple[str, str, str], ConfigTable], table: ConfigTable) -> None:
    """Add a file's blocks to its table; those of the same name are replaced."""
    key = (table.round, table.benchmark, table.scenario)
    there = tables.get(key)
    blocks = {**there.blocks, **table.blocks} if there else table.blocks
    tables[key] = replace(there or table, blocks=blocks)


def _document(path: Path, folder: Path, faults: list[RegistryFault]) -> dict[str, Any]:
    name = path.relative_to(folder).as_posix()
    try:
        document = yaml.load(path.read_bytes(), Loader=_Loader)  # a safe one
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 0
        faults.append(RegistryFault(name, line, f"it cannot be read: {problem.problem}"))
        return {}
    except (yaml.YAMLError, OSError) as problem:
        faults.append(RegistryFault(name, 0, f"it cannot be read: {problem}"))
        return {}
    if not isinstance(document, dict):
        faults.append(RegistryFault(name, 1, "it is not a mapping"))
        return {}
    return document


def _system(path: Path, folder: Path, faults: list[RegistryFault]) -> BenchmarkSystem | None:
    document = _document(path, folder, faults)
    if not document:
        return None
    gpu, mig = document.get("gpu") or {}, document.get("mig") or {}
    try:
        system = BenchmarkSystem(
            id=document["id"],
            rounds=_texts(document, "rounds"),
            origin=_texts(document, "origin"),
            names=_texts(gpu, "names") if "names" in gpu else (),
            count=int(document.get("count", 0)),
            memory=float(gpu.get("memory_gib", 0)),
            power=float(gpu.get("power", 0)),
            compute_capability=str(gpu.get("compute_capability", "")),
            machine=str(document.get("machine", "any")),
            board=bool(gpu.get("board", False)),
            profile=str(mig.get("profile", "")),
            instances=int(mig.get("instances", 0)),
            accelerator=document.get("accelerator", ""),
            instance=document.get("instance", ""),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        what = f"it lacks {problem}" if isinstance(problem, KeyError) else str(problem)
        faults.append(
            RegistryFault(path.relative_to(folder).as_posix(), 0, f"it is not a system: {what}")
        )
        return None
    strange = [*_strange(document, _SYSTEM), *_strange(gpu, _GPU), *_strange(mig, _MIG)]
    if system.id != path.stem:
        strange.append(f"its id is {system.id}, and its name is not")
    wrong = [each for each in system.rounds if each not in vocabulary.VENDOR_ROUNDS]
    strange += [
        f"there is no round {each}: {nearest(each, vocabulary.VENDOR_ROUNDS)}" for each in wrong
    ]
    faults += [RegistryFault(path.relative_to(folder).as_posix(), 1, text) for text in strange]
    return system


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of texts; raise ValueError for anything else, KeyError without one."""
    value = document[key]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{key} is {value!r}, and not a list of texts")
    return tuple(value)


def _strange(mapping: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    """Yield a fault per unknown name."""
    for key in mapping:
        if key not in known:
            yield f"a system has no {key}: {nearest(str(key), known)}"


def _table(path: Path, folder: Path, faults: list[RegistryFault]) -> ConfigTable | None:
    document = _document(path, folder, faults)
    name = path.relative_to(folder).as_posix()
    missing = _HEAD - document.keys()
    if missing:
        if document:
            faults.append(RegistryFault(name, 1, f"it lacks {', '.join(sorted(missing))}"))
        return None
    head = [str(document[key]) for key in ("round", "benchmark", "scenario")]
    # Further values of a round, such as derived ones, lie in a folder of their own below it.
    below = path.relative_to(folder / "configs").parts
    if head != [below[0], path.parent.name, path.stem]:
        faults.append(RegistryFault(name, 1, f"it says that it is {' '.join(head)}"))
    blocks = {}
    for key, block in (document["blocks"] or {}).items():
        if not isinstance(block, dict) or not isinstance(block.get("fields", {}), dict):
            faults.append(_line(path, folder, key, "it is not a block"))
            continue
        unknown = block.keys() - _BLOCK
        if unknown:
            faults.append(_line(path, folder, key, f"a block has no {', '.join(sorted(unknown))}"))
        ver = block.get("ver", DEFAULT)
        blocks[str(key)] = ConfigBlock(
            name=str(key),
            root=folder,
            file=name,
            source=str(document["source"]),
            like=str(block.get("like", "")),
            origin=str(block.get("origin", "")),
            system=str(block.get("system", "")),
            versions=tuple(ver) if isinstance(ver, list) else (str(ver),),
            fields=block.get("fields", {}),
        )
    return ConfigTable(name, str(document["source"]), head[0], head[1], head[2], blocks)


def _faults_of(
    table: ConfigTable,
    fields: Mapping[str, ConfigField],
    systems: Mapping[str, BenchmarkSystem],
) -> Iterator[RegistryFault]:
    """What is wrong with the blocks of a file, in the order of the file."""
    seen: dict[tuple[str, str], str] = {}
    for block in table.blocks.values():
        for text in _wrong(block, table, fields, systems):
            yield _at(block, text)
        for ver in block.versions if block.system else ():
            first = seen.setdefault((block.system, ver), block.name)
            if first != block.name:
                text = f"{first} has {block.system} {ver} already"
                yield _at(block, text)


def _wrong(
    block: ConfigBlock,
    table: ConfigTable,
    fields: Mapping[str, ConfigField],
    systems: Mapping[str, BenchmarkSystem],
) -> Iterator[str]:
    if not block.origin:
        yield "it does not say its origin"
    if block.like and _ends(block, table):
        yield _ends(block, table)
    system = systems.get(block.system)
    if block.system and system is None:
        yield f"there is no system {block.system}: {nearest(block.system, systems)}"
    elif system and table.round not in system.rounds:
        yield f"{block.system} is not a system of {table.round}"
    for name, value in block.fields.items():
        field = fields.get(name)
        if field is None:
            yield f"there is no field {name}: {nearest(name, fields)}"
        elif value is not None:
            problem = field.misfit(value) or field.out_of_scope(table.benchmark, table.scenario)
            if problem:
                yield problem


def _ends(block: ConfigBlock, table: ConfigTable) -> str:
    """Return why the blocks that it is like do not end in one; empty when they do."""
    passed = [block.name]
    while table.blocks[passed[-1]].like:
        like = table.blocks[passed[-1]].like
        if like not in table.blocks:
            # The one that names it says so.
            return f"it is like {like}, which is not there" if len(passed) == 1 else ""
        if like in passed:
            return f"it is like itself: {' > '.join([*passed, like])}"
        passed.append(like)
    return ""


def _at(block: ConfigBlock, text: str) -> RegistryFault:
    return _line(block.root / block.file, block.root, block.name, text)


def _line(path: Path, folder: Path, key: Any, text: str) -> RegistryFault:
    """The fault with the line of the block; that takes a second reading, so only for faults."""
    line = 0
    document = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    for name, value in document.value if document else ():
        if name.value == "blocks" and isinstance(value, yaml.MappingNode):
            for block, _ in value.value:
                if block.value == str(key):
                    line = block.start_mark.line + 1
    return RegistryFault(path.relative_to(folder).as_posix(), line, f"{key}: {text}")
