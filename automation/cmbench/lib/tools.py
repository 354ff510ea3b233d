"""Find a program of this machine: every candidate is asked for its version, and the answer kept.

What most scripts that detect a tool need: ``find_tool("cmake", places(i), bounds_of(i["env"]))``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench.lib.probe import is_executable, probe
from cmbench.lib.pythons import Bounds

VERSION = r"(\d+(?:\.\d+)+)"
"""The first number with dots in what a tool says."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that runs: its path, and the version that it reported."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class ToolDetection:
    """The first program that fits, if any, and a line per candidate."""

    tool: Tool | None
    lines: tuple[str, ...]


def bounds_of(env: Mapping[str, Any]) -> Bounds:
    """The versions that the caller of a script accepts."""
    return Bounds(
        str(env.get("CM_VERSION_MIN", "")),
        str(env.get("CM_VERSION_MAX", "")),
        str(env.get("CM_VERSION", "")),
    )


def places(i: Mapping[str, Any]) -> list[str]:
    """Where to look: the files and folders of ``--path`` and nowhere else, or along PATH.

    Raises ``bad-value`` for one that does not exist.
    """
    named = named_places(i["env"])
    return named or [p for p in i["automation"].get_default_path_list(i) if os.path.isabs(p)]


def named_places(env: Mapping[str, Any], *others: str) -> list[str]:
    """What ``--path`` names, or another key of the env such as that of ``--input``; may be empty.

    Raises ``bad-value`` for a path that does not exist.
    """
    key, value = next(
        ((key, str(env[key])) for key in (*others, "CM_TMP_PATH") if env.get(key)), ("", "")
    )
    paths = [os.path.expanduser(path) for path in value.split(os.pathsep) if path]
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        name = "--path" if key == "CM_TMP_PATH" else "--input"
        raise Error("bad-value", f"{name}: {missing[0]} does not exist", hint="check the path")
    return [os.path.abspath(path) for path in paths]


def find_tool(
    name: str,
    where: Iterable[str],
    bounds: Bounds,
    *,
    ask: Sequence[str] = ("--version",),
    pattern: str = VERSION,
    fails: bool = False,
) -> ToolDetection:
    """The first program ``name`` in ``where`` (files or folders) whose version is in ``bounds``.

    It is called with ``ask``, and the first group of ``pattern`` in its output is its version.
    ``fails`` is for one that tells its version and ends with another status than 0.
    """
    lines: list[str] = []
    for path in _candidates(name, where):
        version, reason = _ask(path, ask, pattern, fails)
        reason = reason or bounds.misfit(version)
        lines.append(f"{path}: {reason or version + ', chosen'}")
        if not reason:
            return ToolDetection(Tool(str(path), version), tuple(lines))
    return ToolDetection(None, tuple(lines))


def not_found(name: str, detection: ToolDetection, bounds: Bounds) -> Error:
    """The failure to raise when no program fits: what was seen, and what to do."""
    wanted = "" if str(bounds) == "any version" else f" ({bounds})"
    return Error(
        "not-detected",
        f"no suitable {name} was found{wanted}",
        hint="install one, or give its folder: --path=/folder",
        context=detection.lines or (f"{name} is not in any folder that was searched",),
    )


def _candidates(name: str, where: Iterable[str]) -> list[Path]:
    programs: dict[str, Path] = {}
    for folder in where:
        path = Path(folder) if os.path.isfile(folder) else Path(folder, name)
        if is_executable(path):
            programs.setdefault(os.path.realpath(path), path)
    return list(programs.values())


def _ask(path: Path, words: Sequence[str], pattern: str, fails: bool) -> tuple[str, str]:
    """Its version, or why there is none."""
    answer = probe([path, *words])
    if not (answer.ok or (fails and 0 < answer.status < 126)):
        return "", f"does not run: {answer.problem}"
    match = re.search(pattern, answer.output)
    return (match.group(1), "") if match else ("", "printed no version")
