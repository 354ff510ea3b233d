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
        ("cm docker script --tags=detect,os", "the same run in a container (--print)"),
        ("cm doctor script", "look at the machine before you start"),
        ("cm replay script last", "repeat a recorded run"),
        ("cm log script last [--errors]", "what a run printed, whole or the trouble"),
        ("cm diff script <record> <record>", "what differs between two runs"),
        ("cm find script --tags=get", "the scripts with these tags"),
        ("cm show script --tags=detect,os", "what a script is for"),
        ("cm add script get-cmake --kind=detect", "begin a new script"),
        ("cm lint script get-python3 [--fix]", "its faults; without a name, of all"),
        ("cm test script get-python3", "plan and try what it detects"),
        ("cm complete script --shell=bash", "completion, for eval in ~/.bashrc"),
        ("cm doc script get-python3 [--check]", "write what comes from its meta"),
    ),
    "cache": (
        ("cm show cache [--tags=get,python3]", "what is kept, its size and last use"),
        ("cm rm cache --tags=get,python3 [-f]", "remove entries; -f does not ask"),
        ("cm why cache --tags=get,python3", "what made it, what it read, is it sound"),
        ("cm verify cache [--tags=...]", "are its files as published?"),
        ("cm pin cache <id>", "keep an entry whatever happens"),
        ("cm unpin cache <id>", "let go of it"),
        ("cm du cache", "what uses the disk, by script"),
        ("cm gc cache --max-size=20GB [--yes]", "make room; without --yes only shows"),
        ("cm gc cache --older-than=30d [--yes]", "what was not used for so long"),
        ("cm export cache --tags=... --output=F", "entries and their needs, in a file"),
        ("cm import cache --input=F", "bring them into this cache, checked"),
    ),
}


def verbs() -> dict[str, list[str]]:
    """The verbs of each thing, as users write them."""
    return {
        thing: list(dict.fromkeys(["help", *(usage.split()[1] for usage, _ in lines)]))
        for thing, lines in _USAGE.items()
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
