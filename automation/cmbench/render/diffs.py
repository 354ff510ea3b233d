"""Differences between records, and what cannot be repeated, for a terminal of 80 columns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cmbench.repeat.replay import ABSENT
from common.text import wrapped

WIDTH = 80


def difference_text(
    differences: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]
) -> str:
    """What ``replay.differences`` found, first value above, second below where they are long."""
    lines = [_heading("first: ", one), _heading("second:", other)]
    if "figures" in differences:
        lines += ["", "figures", *figure_lines(differences["figures"])]
    for section in ("result", "request", "repositories", "host"):
        if section in differences:
            lines += ["", section, *_pairs(differences[section], "  ")]
    if "cache" in differences:
        lines += ["", "cache"]
        for run, steps in differences["cache"].items():
            text = f"only the {run} run reused: {', '.join(dict.fromkeys(steps))}"
            lines += wrapped(text, "  ", "    ")
    if "steps" in differences:
        lines += ["", "steps", *_steps(differences["steps"])]
    if not differences.keys() - {"figures"}:
        lines += ["", "no difference except times and load"]
    return "\n".join(lines)


def figure_lines(figures: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the figures of two runs, the first one's and the second one's, with their ratio."""
    for name, (one, other, ratio) in figures.items():
        yield from wrapped(f"{name}: {one} -> {other}" + (f", {ratio}" * bool(ratio)), "  ", "    ")


def _steps(steps: Mapping[str, Mapping[str, Sequence[Any]]]) -> Iterator[str]:
    """Yield the differences by step; one line for all steps that only one run has."""
    alone: dict[str, list[str]] = {"first": [], "second": []}
    for step, changed in steps.items():
        if changed.keys() == {"step"}:
            alone["first" if changed["step"][1] == ABSENT else "second"].append(step)
        else:
            yield from (f"  {_short(step)}", *_pairs(changed, "    "))
    for run, names in alone.items():
        if names:
            last = ", ".join(dict.fromkeys(name.rpartition(" > ")[2] for name in names))
            yield from wrapped(f"only in the {run} run ({len(names)}): {last}", "  ", "    ")


def _heading(title: str, record: Mapping[str, Any]) -> str:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record["started"]))
    return f"{title} {record['run']}, {started}, {record['status']} in {record['seconds']:.1f} s"


def _short(path: str) -> str:
    """A chain of steps without the root, which all share; the end is kept where it is long."""
    text = " > ".join(path.split(" > ")[1:]) or path
    return text if len(text) <= WIDTH - 4 else "..." + text[-(WIDTH - 7) :]


def _pairs(changed: Mapping[str, Sequence[Any]], lead: str) -> Iterator[str]:
    from cmbench.plan.read_values import subject_of_read

    for key, (one, other) in changed.items():
        what, _, read = key.partition(" ")
        name = f"read {subject_of_read(read)}" if what == "read" else key
        line = f"{lead}{name}: {one} -> {other}"
        if str(one).startswith("sha256:") and str(other).startswith("sha256:"):
            yield f"{lead}{name}: changed"
        elif len(line) <= WIDTH:
            yield line
        else:
            yield f"{lead}{name}:"
            yield f"{lead}  - {one}"
            yield f"{lead}  + {other}"


def replay_text(record: Mapping[str, Any], obstacles: Sequence[str]) -> str:
    """Return the run that is about to be repeated, and what of it cannot be as it was."""
    lines = [_heading("repeating", record), "  " + " ".join(record["command"])]
    if obstacles:
        lines.append("differs from then:")
        for text in obstacles:
            lines += wrapped(text, "  ", "    ")
    else:
        lines.append("the same: repositories, scripts, machine and variables")
    return "\n".join(lines)
