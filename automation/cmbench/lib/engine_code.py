"""The code of cmbench itself, which must be wherever one of its scripts runs.

Containers, hosts reached by SSH and nodes of a cluster all ask here what to take along, so what a
script starts to import reaches each of them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import cmbench

_PACKAGES = "cmbench*/__init__.py"
_SERVERS = {"cmbench_crowd_server"}
"""Packages that no script needs."""


@cache
def packages() -> tuple[Path, ...]:
    """Return the folder of every package of cmbench, as it is installed here, sorted by name."""
    modules = Path(__file__).resolve().parents[2].glob(_PACKAGES)
    return tuple(sorted(path.parent for path in modules if path.parent.name not in _SERVERS))


def travelling() -> tuple[Path, ...]:
    """Return the folders to bring, side by side: ``packages``, and libraries outside of them."""
    libraries = Path(cmbench.LIBRARIES)
    inside = any(libraries.is_relative_to(package) for package in packages())
    return packages() if inside else (*packages(), libraries)


def import_paths() -> tuple[Path, ...]:
    """Return the folders that ``packages`` are imported from.

    Such a folder may hold other packages too: it is ``automation`` in a checkout, and
    ``site-packages`` where cmbench is installed.
    """
    return tuple(dict.fromkeys(path.parent for path in packages()))
