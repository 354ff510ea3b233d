"""Stand-ins: the line that marks every file with figures of one.

A result can be copied without its file's name, so every file that comes of such a run has the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .backend import Plain
from .lookup import backends

Options = Mapping[str, Plain]

SIGN = "stand-in: the processor computed this in the place of"
_REPLACED = re.compile(re.escape(SIGN) + r" ([A-Za-z][A-Za-z ]*)")


def place_of(backend: str, device: str, options: Options | None = None) -> str:
    """Return the device that a backend replaces on ``device``; empty if it is no stand-in.

    Its ``options`` may name another one that computes behind it, as in a server.
    """
    behind = str((options or {}).get("backend", ""))
    specs = (backends().get(name) for name in (backend, behind) if name)
    return next((spec.stands_in[device] for spec in specs if spec and device in spec.stands_in), "")


def line(backend: str, device: str, options: Options | None = None) -> str:
    """Return the line for every file of a run; empty without a stand-in."""
    place = place_of(backend, device, options)
    return f"{SIGN} {place}; it cannot be submitted" if place else ""


def find_replaced(text: str) -> str:
    """Return the replaced device that the line in ``text`` names; empty without the line."""
    match = _REPLACED.search(text)
    return match.group(1).strip() if match else ""
