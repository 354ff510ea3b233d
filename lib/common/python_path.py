"""Where Python looks for modules: in this process, and in those that it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLE = "PYTHONPATH"


def add_folder(folder: str | os.PathLike[str]) -> None:
    """Import from ``folder`` too, after all other folders."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def child_env(
    *folders: str | os.PathLike[str], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment ``base`` for a Python that imports from ``folders`` first.

    ``base`` is this process's environment by default, and ``folders`` are those that this process
    imports from.
    """
    base = os.environ if base is None else base
    before = base.get(VARIABLE, "")
    names = [str(folder) for folder in folders or sys.path]
    return {**base, VARIABLE: os.pathsep.join([*names, before] if before else names)}
