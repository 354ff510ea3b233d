"""Plans for people: as a tree for a terminal of 80 columns, and as graphs for drawing programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cmbench.api.planning import Explanation
from cmbench.lib.text_files import counted, size_text
from cmbench.plan.explain import ValueOrigin, acquires_for
from cmbench.plan.needs import Download
from cmbench.plan.planned_step import Plan, PlannedStep, walk
from cmbench.plan.tree import TAGS_FROM
from common.text import cut, wrapped

WIDTH = 80
_WORDS = {
    "hit": "cached",
    "miss": "make",
    "no": "run",
    "maybe": "?",
    "above": "made above",
    "fact": "fact",
}
_COLOURS = {
    "hit": "#d5f0d5",
    "miss": "#ffe2b8",
    "no": "#cfe4ff",
    "maybe": "#f3d1f3",
    "above": "#d5f0d5",
    "fact": "#eeeeee",
}

_LEAST_NAME, _LEAST_STATE = 20, 12
"""So many characters of each stay when a line is too long for both."""


def plan_text(plan: Plan, totals: Mapping[str, Any], reasons: bool = False) -> str:
    """Return the tree, one step a line (with ``reasons`` more), and its totals."""
    lines = list(_tree(plan.root, "", "", reasons))
    planned_steps = list(walk(plan.root))
    states = Counter(planned_step.cached for planned_step in planned_steps)
    counts = {
        "from the cache": states["hit"],
        "to make": states["miss"],
        "to run": states["no"],
        f"{'fact' if states['fact'] == 1 else 'facts'} of this machine": states["fact"],
        "made above": states["above"],
        "decided on the way": states["maybe"],
    }
    total = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    lines += ["", *wrapped(f"{counted(len(planned_steps), 'step')}: {total}")]
    return "\n".join([*lines, *_needs_lines(planned_steps, totals)])


def _tree(
    planned_step: PlannedStep, lead: str, below: str, reasons: bool, word: str = ""
) -> Iterator[str]:
    yield _plan_line(planned_step, lead, word)
    if reasons:
        yield from _reason_lines(planned_step, below + ("|  " if planned_step.children else "   "))
    for number, child in enumerate(planned_step.children):
        last = number == len(planned_step.children) - 1
        corner, bar = ("`- ", "   ") if last else ("|- ", "|  ")
        word = "else: " if acquires_for(planned_step, child) else ""
        yield from _tree(child, below + corner, below + bar, reasons, word)


def _plan_line(planned_step: PlannedStep, lead: str, word: str = "") -> str:
    variations = [t for t in planned_step.tags.split(",") if t.startswith("_")]
    name = (
        ",".join([planned_step.script, *variations]) if planned_step.script else planned_step.tags
    )
    left, state = (
        lead + word + name + (f" ({planned_step.version})" if planned_step.version else ""),
        _state(planned_step),
    )
    if len(lead) > WIDTH - _LEAST_NAME - _LEAST_STATE:
        return f"{left}  {state}"
    state = cut(state, WIDTH - 2 - min(len(left), len(lead) + _LEAST_NAME), "...")
    room = WIDTH - len(state) - 2
    return f"{cut(left, room, '...').ljust(room)}  {state}"


def _state(planned_step: PlannedStep) -> str:
    """Return the state of a step, and its condition."""
    state = _WORDS[planned_step.cached]
    if any(acquires_for(planned_step, child) for child in planned_step.children):
        state = f"detect, {state}"
    if not planned_step.when:
        return state
    word = "" if state == "?" else "," if planned_step.when.startswith(TAGS_FROM) else " if"
    return f"{state}{word} {planned_step.when}"


def _reason_lines(planned_step: PlannedStep, lead: str) -> Iterator[str]:
    detail = planned_step.detail
    yield from _reason(lead, "asked", detail.requested_by)
    if detail.variations:
        shown = "; ".join(f"_{name}: {why}" for name, why in detail.variations.items())
        yield from _reason(lead, "with", shown)
    if detail.version_from:
        yield from _reason(lead, "version", detail.version_from)
    if planned_step.cached in ("hit", "above", "no", "fact") or not detail.misses:
        yield from _reason(lead, _WORDS[planned_step.cached], planned_step.why)
    for miss in detail.misses:
        yield from _reason(lead, "no hit", miss)


def _reason(lead: str, title: str, text: str) -> list[str]:
    head = f"{lead}. {title}: "
    return wrapped(text, head, f"{lead}.   ", max(WIDTH, len(head) + 30))


def _needs_lines(planned_steps: Sequence[PlannedStep], totals: Mapping[str, Any]) -> Iterator[str]:
    yield from _download_lines(planned_steps, totals)
    present = list(
        dict.fromkeys(n.detail.needs.present for n in planned_steps if n.detail.needs.present)
    )
    yield from ["used as they are:", *(f"  {text}" for text in present)] if present else []
    size, left = totals["disk_bytes"], totals["steps_of_unknown_disk"]
    if size or left:
        known = _bounded(size and f"about {size_text(size)}", totals, "disk_bytes", left > 0)
        yield _total("disk", known, left, "not known")
        yield f"         {size_text(totals['disk_free_bytes'])} are free"
    seconds, left = totals["seconds"], totals["steps_of_unknown_time"]
    if seconds or left:
        known = _bounded(seconds and _duration(seconds), totals, "seconds", left > 0)
        yield _total("time", known and f"{known}, as last time", left, "not measured yet")
    yield from _consents(planned_steps)


def _consents(planned_steps: Sequence[PlannedStep]) -> Iterator[str]:
    """Yield what the user has to grant or accept first."""
    for title, field in (("root", "privileges"), ("licence", "licences")):
        consents = [
            (n.script, text) for n in planned_steps for text in getattr(n.detail.needs, field)
        ]
        for script, text in dict.fromkeys(consents):
            yield f"{title + ':':<9}{script}: {text}"


def _download_lines(
    planned_steps: Sequence[PlannedStep], totals: Mapping[str, Any]
) -> Iterator[str]:
    downloads = list(
        dict.fromkeys(
            d for planned_step in planned_steps for d in planned_step.detail.needs.downloads
        )
    )
    steps = totals["open_steps"]
    if not downloads:
        left = f", but {counted(steps, 'step is', 'steps are')} open" if steps else ""
        yield f"nothing to fetch from the network{left}"
        return
    yield "to fetch from the network:"
    yield from map(_download_line, downloads)
    yield from _sum_of(downloads, totals)
    yield from wrapped(", ".join(totals["network"]), "network: ", " " * 9)


def _sum_of(downloads: Sequence[Download], totals: Mapping[str, Any]) -> Iterator[str]:
    sized = [download for download in downloads if download.size]
    unknown = len(downloads) - len(sized) + totals["open_steps"]
    if sized and len(sized) + unknown > 1:
        known = _size(totals["download_bytes"], any(download.about for download in sized))
        rest = "; the others are not known" if unknown else ""
        yield f"  in all {_bounded(known, totals, 'download_bytes', unknown > 0)}{rest}"


def _download_line(download: Download) -> str:
    size = f" ({_size(download.size, download.about)})" if download.size else ""
    checked = "" if download.checksum or "://" not in download.what else ", no checksum"
    return f"  {download.what}{size}{checked}"


def _size(count: float, about: bool) -> str:
    return f"about {size_text(count)}" if about else size_text(count)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "less than 1 s"
    return f"about {seconds:.0f} s" if seconds < 180 else f"about {seconds / 60:.0f} min"


def _total(title: str, known: str, unknown: int, word: str) -> str:
    steps = f"{counted(unknown, 'step')} {word}" if unknown else ""
    text = ", ".join(part for part in (known, steps) if part)
    head = f"{title + ':':<9}"
    return "\n".join(wrapped(text, head, " " * len(head)))


def _bounded(known: str, totals: Mapping[str, Any], key: str, incomplete: bool) -> str:
    """A sum in words that claim no more than is known: parts are missing, or may not be needed."""
    branches = totals[key] != totals[key + "_sure"]
    if not known:
        return ""
    if incomplete:
        return f"at least {known}" + (" with all branches" if branches else "")
    return f"up to {known}" if branches else known


# ---------------------------------------------------------------- where a value is from


def origins_text(explanation: Explanation) -> str:
    """Return the steps that set or pass on a value, in the order of the run, and its readers."""
    title = ", in the order of the run:" if explanation.origins else ": nothing sets it"
    lines = [f"{explanation.key}{title}"]
    step = -1
    for origin in explanation.origins:
        lead = "  " * (origin.depth + 1)
        if step != origin.number:
            lines.append(lead + origin.step)
            step = origin.number
        lines += _origin_lines(origin, lead + "  ")
    for value, steps in explanation.readers.items():
        shown = "is not set" if value == "not set" else f"is {value}"
        lines += _wrapped(f"{shown} for {', '.join(steps)}")
    ways = [f"--{name}=VALUE" for name in explanation.inputs] or [f"--env.{explanation.key}=VALUE"]
    return "\n".join([*lines, f"to set it: {' or '.join(ways)}"])


def _wrapped(text: str) -> list[str]:
    return wrapped(text, rest="  ")


def _origin_lines(origin: ValueOrigin, lead: str) -> list[str]:
    where = f"{lead}{origin.where}"
    if not origin.value:
        return [where]
    value = origin.value if origin.in_force else f"{origin.value} (overruled)"
    column = 56
    if len(where) < column and len(value) <= WIDTH - column:
        return [f"{where:<{column}}{value}"]
    return [where, f"{lead}    {value}"]


# ---------------------------------------------------------------- graphs


def _merged(plan: Plan) -> tuple[dict[str, PlannedStep], dict[tuple[str, str], list[str]]]:
    """Nodes by id, equal steps as one, and the labels of the edges between them."""
    names: dict[tuple[Any, ...], str] = {}
    planned_steps: dict[str, PlannedStep] = {}
    edges: dict[tuple[str, str], list[str]] = {}

    def add(planned_step: PlannedStep) -> str:
        key = (
            planned_step.script or planned_step.tags,
            planned_step.variations,
            planned_step.version if planned_step.script else "",
        )
        name = names.setdefault(key, f"n{len(names)}")
        planned_steps.setdefault(name, planned_step)
        for child in planned_step.children:
            words = edges.setdefault((name, add(child)), [])
            label = f"if {child.when}" if child.when else ""
            if label and label not in words:
                words.append(label)
        return name

    add(plan.root)
    return planned_steps, edges


def _graph_label(planned_step: PlannedStep) -> list[str]:
    variations = ["_" + name for name in planned_step.variations]
    lines = [planned_step.script or planned_step.tags, *variations]
    if planned_step.version:
        lines.append(planned_step.version)
    return [*lines, f"[{_WORDS[planned_step.cached]}]"]


def dot_text(plan: Plan) -> str:
    """The plan for Graphviz; equal steps are one node."""
    planned_steps, edges = _merged(plan)
    lines = [
        "digraph plan {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];',
        '  edge [fontname="sans-serif", fontsize=8];',
    ]
    for name, planned_step in planned_steps.items():
        label = json.dumps("\n".join(_graph_label(planned_step)), ensure_ascii=False)
        lines.append(f'  {name} [label={label}, fillcolor="{_COLOURS[planned_step.cached]}"];')
    for (one, other), words in edges.items():
        label = json.dumps("\n".join(words), ensure_ascii=False)
        more = f" [label={label}, style=dashed]" if words else ""
        lines.append(f"  {one} -> {other}{more};")
    return "\n".join([*lines, "}"])


def mermaid_text(plan: Plan) -> str:
    """The plan for Mermaid, as Markdown pages of code hosts draw it; equal steps are one node."""
    planned_steps, edges = _merged(plan)
    lines = ["flowchart LR"]
    for name, planned_step in planned_steps.items():
        label = "<br/>".join(_plain(part) for part in _graph_label(planned_step))
        lines.append(f'  {name}["{label}"]:::{planned_step.cached}')
    for (one, other), words in edges.items():
        text = "<br/>".join(_plain(word) for word in words)
        lines.append(f'  {one} -. "{text}" .-> {other}' if text else f"  {one} --> {other}")
    for name, colour in _COLOURS.items():
        if any(planned_step.cached == name for planned_step in planned_steps.values()):
            lines.append(f"  classDef {name} fill:{colour},stroke:#555,color:#000")
    return "\n".join(lines)


def _plain(text: str) -> str:
    for character, code in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(character, code)
    return text
