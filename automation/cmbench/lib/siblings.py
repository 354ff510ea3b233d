"""Code that several scripts share: the ``src`` folder of one of them, or the folder ``hooks``."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

from cmbench.errors import Error

Hook = Callable[[dict[str, Any]], dict[str, Any]]


def importable(script_file: str, *aliases: str) -> None:
    """Let the script at ``script_file`` import what lies in ``src`` of scripts beside it.

    The folders come last in the search path, so that they hide nothing.
    """
    scripts = os.path.dirname(os.path.dirname(os.path.abspath(script_file)))
    for alias in aliases:
        folder = os.path.join(scripts, alias, "src")
        if folder not in sys.path:
            sys.path.append(folder)


def hooks(script_file: str, name: str) -> Any:
    """The module ``name`` of the folder ``hooks`` beside the script at ``script_file``.

    Each repository has modules of its own: two checkouts in one process do not mix.
    """
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(script_file))), "hooks")
    package = "cmbench_hooks_" + folder.encode().hex()
    if package not in sys.modules:
        place = os.path.join(folder, "__init__.py")
        spec = importlib.util.spec_from_file_location(
            package, place, submodule_search_locations=[folder]
        )
        assert spec is not None
        sys.modules[package] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"{package}.{name}")


def told(hook: Hook) -> Hook:
    """A hook whose shared code, which knows nothing of the engine, fails as the engine's do.

    That code's own errors carry a ``kind`` (a short word) and a ``hint``; they may have a
    ``context``, a ``chain`` and a ``doing`` as those of the engine have.
    """

    @functools.wraps(hook)
    def call(i: dict[str, Any]) -> dict[str, Any]:
        try:
            return hook(i)
        except Exception as error:
            if isinstance(error, Error) or not hasattr(error, "kind"):
                raise
            raise _of(error) from error

    return call


def _of(error: Any) -> Error:
    made = Error(
        str(error.kind),
        str(error),
        hint=getattr(error, "hint", ""),
        context=getattr(error, "context", ()),
        doing=getattr(error, "doing", ""),
    )
    made.chain = tuple(getattr(error, "chain", ()))
    return made
