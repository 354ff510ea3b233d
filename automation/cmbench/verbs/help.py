"""``cm help script`` and ``cm help cache``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cmbench.session import Answer

_USAGE: Mapping[str, Sequence[tuple[str, str]]] = {
    "script": (
        ("cm run script --tags=detect,os", "run a script and all it needs"),
        ('cm run script "detect os"', "the same, shorter"),
        ("cm run script --tags=detect,os --help", "its inputs, variations and flags"),
        ("cm plan script --tags=detect,os", "what a run would do; runs nothing"),
        ("cm find script --tags=get", "the scripts with these tags"),
        ("cm show script --tags=detect,os", "what a script is for"),
    ),
    "cache": (
        ("cm show cache [--tags=get,python3]", "what is kept, its size and last use"),
        ("cm rm cache --tags=get,python3 [-f]", "remove entries; -f does not ask"),
    ),
}


def help_script(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm help script``: the verbs."""
    return _show_verbs("script", i)


def help_cache(cmind: Any, i: dict[str, Any]) -> Answer:
    """``cm help cache``: the verbs."""
    return _show_verbs("cache", i)


def _show_verbs(thing: str, i: Mapping[str, Any]) -> Answer:
    if i.get("out") == "con":
        print("\n".join(f"  {usage:<38}{meaning}" for usage, meaning in _USAGE[thing]))
    return {"return": 0, "usage": [usage for usage, _ in _USAGE[thing]]}
