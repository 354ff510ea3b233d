"""Find a program of this machine: every candidate is asked for its version, and the answer kept.

Most scripts that detect a tool need
``find_tool("cmake", search_folders(i), bounds_of(i["env"]))``.
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
    """Return the versions that the caller accepts: ``--version``, ``--version_min``, ``_max``."""
    return Bounds(
        str(env.get("CM_VERSION_MIN", "")),
        str(env.get("CM_VERSION_MAX", "")),
        str(env.get("CM_VERSION", "")),
    )


def search_folders(i: Mapping[str, Any]) -> list[str]:
    """Return the files and folders of ``--path`` or, without one, the folders of PATH.

    Raises ``bad-value`` for one that does not exist.
    """
    named = input_paths(i["env"])
    return named or [p for p in i["automation"].get_default_path_list(i) if os.path.isabs(p)]


def input_paths(env: Mapping[str, Any], *others: str) -> list[str]:
    """Return the paths of ``--path``, or of another env key such as ``--input``'s; may be empty.

    Raises ``bad-value`` for a path that does not exist.
    """
    key, value = next(
        ((key, str(env[key])) for key in (*others, "CM_TMP_PATH") if env.get(key)), ("", "")
    )
    paths = [os.path.expanduser(path) for path in filter(None, value.split(os.pathsep))]
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
    arguments: Sequence[str] = ("--version",),
    pattern: str = VERSION,
    any_status: bool = False,
) -> ToolDetection:
    """Return the first program ``name`` in ``where`` whose version is in ``bounds``.

    ``where`` are files or folders. The program is called with ``arguments``; the first group of
    ``pattern`` in its output is its version. ``any_status`` accepts one that prints its version and
    exits with another status than 0.
    """
    lines: list[str] = []
    for path in _candidates(name, where):
        version, reason = _read_version(path, arguments, pattern, any_status)
        reason = reason or bounds.misfit(version)
        lines.append(f"{path}: {reason or version + ', chosen'}")
        if not reason:
            return ToolDetection(Tool(str(path), version), tuple(lines))
    return ToolDetection(None, tuple(lines))


def not_found(name: str, detection: ToolDetection, bounds: Bounds) -> Error:
    """Return the error to raise when no program fits: the candidates, and what to do."""
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


def _read_version(
    path: Path, arguments: Sequence[str], pattern: str, any_status: bool
) -> tuple[str, str]:
    """Return the version, or an empty one and the reason."""
    answer = probe([path, *arguments])
    if not (answer.ok or (any_status and 0 < answer.status < 126)):
        return "", f"does not run: {answer.problem}"
    match = re.search(pattern, answer.output)
    return (match.group(1), "") if match else ("", "printed no version")
