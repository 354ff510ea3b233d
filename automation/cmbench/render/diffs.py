"""Differences between records, and what cannot be repeated, for a terminal of 80 columns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cmbench.lib.wrapping import wrapped

WIDTH = 80


def difference_text(
    found: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]
) -> str:
    """What ``replay.differences`` found, first value above, second below where they are long."""
    lines = [_heading("first: ", one), _heading("second:", other)]
    for section in ("result", "request", "repositories", "host"):
        if section in found:
            lines += ["", section, *_pairs(found[section], "  ")]
    if "cache" in found:
        lines += ["", "cache"]
        for run, steps in found["cache"].items():
            text = f"only the {run} run reused: {', '.join(dict.fromkeys(steps))}"
            lines += wrapped(text, "  ", "    ")
    if "steps" in found:
        lines += ["", "steps"]
        for place, changed in found["steps"].items():
            lines += [f"  {_short(place)}", *_pairs(changed, "    ")]
    if not found:
        lines += ["", "no difference except times and load"]
    return "\n".join(lines)


def _heading(title: str, record: Mapping[str, Any]) -> str:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record["started"]))
    return f"{title} {record['run']}, {started}, {record['status']} in {record['seconds']:.1f} s"


def _short(place: str) -> str:
    """A chain of steps without the root, which all share; the end is kept where it is long."""
    text = " > ".join(place.split(" > ")[1:]) or place
    return text if len(text) <= WIDTH - 4 else "..." + text[-(WIDTH - 7) :]


def _pairs(changed: Mapping[str, Sequence[Any]], lead: str) -> Iterator[str]:
    from cmbench.plan.read_values import named

    for key, (one, other) in changed.items():
        what, _, read = key.partition(" ")
        name = f"read {named(read)}" if what == "read" else key
        line = f"{lead}{name}: {one} -> {other}"
        if str(one).startswith("sha256:") and str(other).startswith("sha256:"):
            yield f"{lead}{name}: changed"
        elif len(line) <= WIDTH:
            yield line
        else:
            yield f"{lead}{name}:"
            yield f"{lead}  - {one}"
            yield f"{lead}  + {other}"


def replay_text(record: Mapping[str, Any], found: Sequence[str]) -> str:
    """What is about to be repeated, and what of it cannot be as it was."""
    lines = [_heading("repeating", record), "  " + " ".join(record["command"])]
    if found:
        lines.append("cannot be repeated as it was:")
        for text in found:
            lines += wrapped(text, "  ", "    ")
    else:
        lines.append("the same: repositories, scripts, machine and variables")
    return "\n".join(lines)
