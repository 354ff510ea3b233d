"""``cm help script``, ``cm help cache``, and ``cm <verb> <thing> --help``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cmbench.cli.usage import USAGE, usage_text
from cmbench.session.session import Answer


def help_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm help script``: the verbs."""
    return _show("script", i)


def help_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm help cache``: the verbs."""
    return _show("cache", i)


def _show(thing: str, i: Mapping[str, Any]) -> Answer:
    """The verbs; of the one that ``--help`` stands behind, its flags."""
    if i.get("out") == "con":
        print(usage_text(thing, str(i.get("help_of") or "")))
    return {"return": 0, "usage": [usage for usage, _ in USAGE[thing]]}
