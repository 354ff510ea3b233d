"""The engine of cmbench: runs tagged automation scripts with dependencies, a cache and a record."""

import os
import sys

__all__ = [
    "api",
    "cli",
    "container",
    "doctor",
    "errors",
    "format",
    "index",
    "lib",
    "record",
    "render",
    "session",
]

__version__ = "0.1.0"


def _libraries() -> str:
    """Return the folder of what programs of steps import.

    It is in an installed package, beside ``automation`` in a checkout, and beside the package where
    both were brought to a container or another machine.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    above = os.path.dirname(package)
    folders = [os.path.join(f, "lib") for f in (f"{package}/repo", os.path.dirname(above), above)]
    return next((folder for folder in folders if os.path.isdir(folder)), folders[0])


LIBRARIES = _libraries()
"""The root of this project's own libraries, which the engine imports as well.

It comes last in the search path, so that it hides nothing that is installed.
"""
sys.path.append(LIBRARIES)
