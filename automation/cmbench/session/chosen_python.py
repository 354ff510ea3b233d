"""A Python of the user's own as the input ``--python`` of a benchmark, however it was named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cmbench.cache.store import CacheStore
from cmbench.errors import Error
from cmbench.format.model import Script

INPUT = "python"
NAMES = ("python", "python3")
FINDER = "get-python3"
INTERPRETER = "CM_PYTHON_BIN_WITH_PATH"
OF_ENVIRONMENT = "of-"
"""Starts the tag of an interpreter that ``install-python-venv`` has made and registered."""


def with_chosen_python(
    flags: Mapping[str, Any], script: Script, store: CacheStore
) -> Mapping[str, Any]:
    """Return ``flags`` with ``--python`` for ``--adr.python.path`` or a registered name.

    A name counts that is registered in ``store`` for no environment of its own. Raises
    ``bad-value`` where two interpreters are named.
    """
    if INPUT in script.inputs and isinstance(flags.get("adr"), Mapping):
        for name in NAMES:
            flags = _with_update_as_input(flags, name, store)
    return flags


def _with_update_as_input(
    flags: Mapping[str, Any], name: str, store: CacheStore
) -> Mapping[str, Any]:
    """Return ``flags`` with ``--python`` where ``--adr.NAME`` names an interpreter."""
    updates = flags.get("adr", {})
    update = updates.get(name)
    if not isinstance(update, Mapping):
        return flags
    key = "path" if update.get("path") else "name"
    path = update.get("path") or _registered(str(update.get("name") or ""), store)
    if not path:
        return flags
    rest = {k: v for k, v in update.items() if k != key}
    adr = {**{k: v for k, v in updates.items() if k != name}, **({name: rest} if rest else {})}
    others = {k: v for k, v in flags.items() if k != "adr"}
    python = _one_of(flags.get(INPUT), path, f"{name}.{key}")
    return {**others, **({"adr": adr} if adr else {}), INPUT: python}


def _one_of(typed: Any, path: Any, flag: str) -> Any:
    if typed not in (None, "", path):
        raise Error(
            "bad-value",
            f"--{INPUT}={typed} and --adr.{flag}, which means {path}, contradict each other",
            hint="name one of them",
        )
    return path


def _registered(name: str, store: CacheStore) -> str:
    """Return the interpreter that a user has registered as ``name``; empty for an environment."""
    if not name:
        return ""
    registered = store.entries(lambda entry: entry.script == FINDER and entry.name == name)
    newest = max(registered, key=lambda entry: entry.created, default=None)
    if newest is None or any(tag.startswith(OF_ENVIRONMENT) for tag in newest.tags):
        return ""
    return str(newest.new_env.get(INTERPRETER) or "")
