"""Flags that users of CM, MLC or another program type, and that a script does not have.

A script declares in ``foreign_flags`` of its meta that a flag is ``ignored`` or ``refused``, and
why. Of the flags that both engines have for every script, those that only show more are ignored
everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cmbench.errors import Error
from cmbench.format.model import Script
from cmbench.lib.yes_no import is_no

_OF_ENGINES = {
    "time": "the result says how long the steps took",
    "repro": "each run has a record, see cm show log",
    "dump_version_info": "the record of the run has the versions",
    "print_versions": "the record of the run has the versions",
    "print_env": "the record of the run has the env",
    "print_readme": "cm plan script ... shows what a script depends on",
}


def without_foreign_flags(
    flags: Mapping[str, Any], script: Script
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the flags that are the script's own, and what to say of the others.

    Raises ``bad-value`` for one that is refused. A flag that is switched off says nothing new.
    """
    if not script.dialect.inputs_bind:
        return flags, ()
    declared: Mapping[str, Mapping[str, str]] = script.meta.get("foreign_flags") or {}
    effects = {**{name: {"ignored": why} for name, why in _OF_ENGINES.items()}, **declared}
    foreign = {k: v for k, v in flags.items() if k in effects and k not in script.inputs}
    active = {name: effects[name] for name, value in foreign.items() if not _is_off(value)}
    for name, effect in active.items():
        if "refused" in effect:
            raise Error(
                "bad-value",
                f"--{name} is not possible for {script.alias}: {effect['refused']}",
                hint=effect.get("instead", f"leave out --{name}"),
            )
    notes = tuple(
        f"note: --{name} has no effect: {effect['ignored']}" for name, effect in active.items()
    )
    return {k: v for k, v in flags.items() if k not in foreign}, notes


def fits_better(
    other: Script, script: Script, flags: Mapping[str, Any], engine: Collection[str]
) -> bool:
    """Whether ``other`` takes all of ``flags``, and ``script`` lacks one or one of the values.

    ``engine`` are the flags that every script has. Choices of scripts of others are a help for
    readers: they take what is a choice of ours, too.
    """
    own = {name: value for name, value in flags.items() if name not in engine}
    lacking = {name: value for name, value in own.items() if not _takes(script, name, value)}
    return bool(lacking) and all(
        _takes(other, name, value) or (name in other.inputs and name not in lacking)
        for name, value in own.items()
    )


def _takes(script: Script, name: str, value: Any) -> bool:
    if name not in script.inputs:
        return name in (*script.dialect.inputs, *script.dialect.places)
    choices = script.inputs[name].choices
    return not choices or str(value) in choices


def _is_off(value: Any) -> bool:
    return value in (None, "") or is_no(value)
