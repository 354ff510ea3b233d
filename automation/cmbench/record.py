"""Records of runs on disk: find one, read it, and sum up its figures."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from cmbench.errors import Error, invalid_syntax

FORMAT = 1


NAMED = "CMBENCH_RUN"
"""The variable by which whoever starts a run chooses its id, to find the run again."""

_RUN_ID = r"\d{8}-\d{6}-[0-9a-f]{6}"


def is_run_id(text: str) -> bool:
    """Whether a run may have this id."""
    return bool(text) and re.fullmatch(_RUN_ID, text) is not None


def new_run_id() -> str:
    """An id that no other run has; ids sort by time, within a second by its 4096th parts."""
    now = time.time()
    part, rest = int(now % 1 * 0x1000), os.urandom(2).hex()[:3]
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{part:03x}{rest}"


def new_run_directory(root: str) -> str:
    """A private directory for one run, of the id that ``NAMED`` holds, if nothing ran under it."""
    # It names one run, and not those that the run's own programs start.
    named = os.environ.pop(NAMED, "")
    path = os.path.join(root, "runs", named)
    if is_run_id(named) and not os.path.exists(os.path.join(path, "log.txt")):
        os.makedirs(path, exist_ok=True)
        return path
    path = os.path.join(root, "runs", new_run_id())
    os.makedirs(path)
    return path


def find_record(root: str, word: str) -> str:
    """The path of the record that ``word`` names: a file, a run's directory, or a run's id.

    ``last`` is the newest run, ``last~1`` the one before. Raises ``entry-not-found``.
    """
    for path in (word, os.path.join(word, "record.json")):
        if os.path.isfile(path):
            return os.path.abspath(path)
    runs = os.path.join(root, "runs")
    recorded = _recorded(runs)
    matching = _matching(word, recorded)
    if len(matching) == 1:
        return os.path.join(runs, matching[0], "record.json")
    many = f'"{word}" matches {len(matching)} runs'
    raise Error(
        "entry-not-found",
        many if matching else f'there is no record "{word}"',
        hint="name a record.json, or one run by its id (`cm show runs` lists them)",
        context=[f"the newest runs in {runs}:", *(matching or recorded)[:5]],
    )


def _matching(word: str, recorded: Sequence[str]) -> Sequence[str]:
    """Return the ids, of those from the newest on, that a word names."""
    back = steps_back(word)
    if back is None:
        return [name for name in recorded if word and word in name]
    return recorded[back : back + 1]


def steps_back(word: str) -> int | None:
    """Return 0 for ``last``, 1 for ``last~1`` and so on; ``None`` for another word."""
    match = re.fullmatch(r"last(?:~(\d{1,6}))?", word)
    return int(match[1] or 0) if match else None


def _recorded(runs: str) -> list[str]:
    """The ids of the runs that have a record, the newest first."""
    names = sorted(os.listdir(runs), reverse=True) if os.path.isdir(runs) else []
    return [name for name in names if os.path.isfile(os.path.join(runs, name, "record.json"))]


def load_record(path: str) -> dict[str, Any]:
    """The record at ``path``; raises ``bad-value`` if it is not one."""
    try:
        with open(path, encoding="utf-8") as stream:
            data = json.load(stream)
    except ValueError as problem:
        raise invalid_syntax("bad-value", path, "JSON", problem) from problem
    if not isinstance(data, dict) or "steps" not in data or "run" not in data:
        raise Error("bad-value", f"{path} is not the record of a run")
    if data.get("format") != FORMAT:
        raise Error("bad-value", f"{path} has the format {data.get('format')}, known is {FORMAT}")
    return data


def own_times(steps: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the seconds of the steps of a record, their dependencies not counted."""
    below: dict[tuple[str, ...], float] = {}
    seconds = []
    for step in steps:
        # A step ends after all below it, so what they took is known by now.
        chain = tuple(step["chain"])
        seconds.append(max(0.0, step["seconds"] - below.pop(chain, 0.0)))
        below[chain[:-1]] = below.get(chain[:-1], 0.0) + step["seconds"]
    return seconds


def host_facts() -> dict[str, Any]:
    """What a record says of the machine; ``load`` is of the moment."""
    uname = os.uname()
    load = [0.0, 0.0, 0.0]
    with suppress(OSError):
        load = [round(value, 2) for value in os.getloadavg()]
    return {
        "system": f"{uname.sysname} {uname.release}",
        "machine": uname.machine,
        "cpus": os.cpu_count(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "load": load,
    }


def revision(path: str) -> str:
    """The commit that a checkout is at, or an empty string; reads files, starts nothing."""
    git = os.path.join(path, ".git")
    with suppress(OSError):
        with open(os.path.join(git, "HEAD"), encoding="utf-8") as stream:
            head = stream.read().strip()
        if not head.startswith("ref: "):
            return head
        return _reference(git, head[5:])
    return ""


def _reference(git: str, name: str) -> str:
    with suppress(OSError), open(os.path.join(git, name), encoding="utf-8") as stream:
        return stream.read().strip()
    with suppress(OSError), open(os.path.join(git, "packed-refs"), encoding="utf-8") as stream:
        for line in stream:
            if line.rstrip().endswith(" " + name):
                return line.split()[0]
    return ""
