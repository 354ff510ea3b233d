"""The targets that were measured on a system: a file that people can read and edit.

It is YAML of the plainest kind (names, indentation, numbers, comments), read here without a YAML
library because the environment of a benchmark need not have one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlperf.catalog import Scenario

from .. import records
from ..errors import HarnessError
from ..settings import IMPLEMENTATION, SessionSettings

HEADING = """\
# Targets that were measured on this system, by benchmark and scenario. Change them as you like:
# a run uses them unless an option (--server_target_qps and the like) says otherwise.
#   target_qps      samples/s that Offline reaches, or the rate at which Server queries arrive
#   target_latency  milliseconds that a query of SingleStream or MultiStream takes
"""

Entry = dict[str, float | str]
Content = dict[str, dict[str, Entry]]


@dataclass(frozen=True, slots=True)
class TargetStore:
    """One system's file; ``key`` is the model's name in it."""

    path: Path
    key: str

    def target(self, scenario: Scenario) -> float | None:
        """The stored target of a scenario: samples/s (Offline, Server), or ms per query (streams).

        Raises HarnessError when the file is damaged.
        """
        value = read(self.path).get(self.key, {}).get(scenario, {}).get(quantity(scenario))
        if value is None:
            return None
        if isinstance(value, str) or value <= 0:
            raise HarnessError(
                f"{self.path}: {quantity(scenario)} of {self.key} {scenario} is {value}, "
                "a number above zero is needed"
            )
        return value

    def put(self, scenario: Scenario, value: float, note: str) -> None:
        """Store a target with the word on how it was found; everything else is kept."""
        content = read(self.path)
        entry = content.setdefault(self.key, {}).setdefault(scenario, {})
        entry[quantity(scenario)] = float(f"{value:.6g}")
        entry["found"] = note
        self.path.parent.mkdir(parents=True, exist_ok=True)
        records.write_text(self.path, HEADING + text(content))


def quantity(scenario: Scenario) -> str:
    """Return the key under which a scenario's target is stored."""
    return "target_latency" if scenario.stream else "target_qps"


def open_store(settings: SessionSettings) -> TargetStore | None:
    """Return the file of the system that ``settings`` describe; None when no folder is given."""
    if not settings.sut_dir:
        return None
    machine = re.sub(r"[^A-Za-z0-9._]+", "_", settings.hw_name) or "machine"
    name = f"{IMPLEMENTATION}-{settings.device}-{settings.computes}-{settings.precision}.yaml"
    key = f"{settings.benchmark}-{settings.form}" if settings.form else settings.benchmark
    key += "".join(f"+{name}={value}" for name, value in sorted(settings.backend_options.items()))
    # HOST:PORT would end a name of YAML, a path lie in another folder.
    key = re.sub(r"[^A-Za-z0-9._+=,-]", "_", key)
    return TargetStore(Path(settings.sut_dir) / machine / name, key)


def read(path: Path) -> Content:
    """Parse the file; a missing one is empty. Raises HarnessError naming a line it cannot take."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error}") from error
    content: Content = {}
    names: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        entry = _line(line, f"{path}, line {number}")
        if entry is None:
            continue
        indent, name, value = entry
        names = [(depth, each) for depth, each in names if depth < indent]
        if len(names) != (2 if value else len(names)) or len(names) > 2 or (not names and value):
            raise HarnessError(f"{path}, line {number}: expected model, scenario, then a target")
        if value:
            content[names[0][1]][names[1][1]][name] = _scalar(value)
            continue
        names.append((indent, name))
        model = content.setdefault(names[0][1], {})
        if len(names) == 2:
            model.setdefault(name, {})
    return content


def _line(line: str, where: str) -> tuple[int, str, str] | None:
    bare = re.sub(r"(^|\s)#.*$", "", line).rstrip()
    if not bare or bare == "---":
        return None
    match = re.fullmatch(r"( *)([^\s:'\"]+|'[^']*'|\"[^\"]*\"):(?:\s+(.*))?", bare)
    if match is None:
        raise HarnessError(f"{where}: expected 'name: value', found {bare.strip()!r}")
    return len(match[1]), match[2].strip("'\""), (match[3] or "").strip()


def _scalar(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value.strip("'\"")


def text(content: Mapping[str, Mapping[str, Mapping[str, float | str]]]) -> str:
    """Return the same as YAML."""
    lines = []
    for model, scenarios in content.items():
        lines.append(f"{model}:")
        for scenario, entry in scenarios.items():
            lines.append(f"  {scenario}:")
            for name, value in entry.items():
                shown = f"'{value}'" if isinstance(value, str) else f"{value:.10g}"
                lines.append(f"    {name}: {shown}")
    return "\n".join(lines) + "\n"
