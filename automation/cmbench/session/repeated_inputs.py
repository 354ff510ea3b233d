"""Inputs that a command line gives several times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cmbench.format.model import Script


def with_repeated(
    flags: Mapping[str, Any], words: Any, script: Script
) -> tuple[Mapping[str, Any], list[str]]:
    """The flags with all values of inputs that repeat, and warnings about others given twice.

    ``words`` are those of the command line, of which a flag keeps the last value only.
    """
    typed: dict[str, list[str]] = {}
    for word in words if isinstance(words, list) else ():
        name, equals, value = str(word).partition("=")
        if name.startswith("--") and equals:
            typed.setdefault(name[2:].replace("-", "_"), []).append(value)
    several = {
        name: values
        for name, values in typed.items()
        if len(dict.fromkeys(values)) > 1
        and name in script.inputs
        and values[-1] == flags.get(name)
    }
    lists = {name: values for name, values in several.items() if script.inputs[name].repeats}
    warnings = [
        f"warning: --{name} is given {len(values)} times, and only the last one counts"
        for name, values in several.items()
        if name not in lists
    ]
    return {**flags, **lists}, warnings
