"""The environment of programs that import this project's libraries, in any Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cmbench import LIBRARIES
from common.python_path import child_env


def library_env(*folders: Path | str, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment ``base`` for a Python that imports from ``folders`` first.

    They are this process's environment and the libraries by default.
    """
    return child_env(*(folders or (LIBRARIES,)), base=base)
