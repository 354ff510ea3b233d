"""The environment of programs that import this project's libraries, in any Python."""

from __future__ import annotations

import os

from cmbench import LIBRARIES


def library_env() -> dict[str, str]:
    """Return this process's environment with the libraries on Python's path."""
    return {**os.environ, "PYTHONPATH": LIBRARIES}
