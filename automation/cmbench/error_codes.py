"""Every error code: what it means, what to do about it, and the exit code that comes with it.

The codes stand in ``error_codes.yaml``, which ``cm doc script`` makes ``docs/reference/errors.md``
from; a test holds that the sources raise these codes and no others. Scripts of other repositories
may raise codes of their own, which exit with 1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from cmbench.exit_codes import EXIT_ERROR


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of failure.

    ``exit_code`` is the usual one: a place that raises the error may name another, such as the
    status of the program that failed.
    """

    name: str
    meaning: str
    remedy: str
    exit_code: int = EXIT_ERROR


def _read() -> Mapping[str, tuple[Code, ...]]:
    # Read at the first failure, so quickly: the loader in C takes a tenth of the other's time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    path = os.path.join(os.path.dirname(__file__), "error_codes.yaml")
    with open(path, encoding="utf-8") as stream:
        table = yaml.load(stream, loader)
    return {area: tuple(Code(**code) for code in codes) for area, codes in table.items()}


AREAS = _read()
CODES: Mapping[str, Code] = {code.name: code for area in AREAS.values() for code in area}


def exit_code_of(name: str) -> int:
    """The exit code of ``name``; 1 for a code that only another repository knows."""
    return CODES[name].exit_code if name in CODES else EXIT_ERROR
