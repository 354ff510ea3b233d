"""Cache entries as text for a terminal of 80 columns: contents, reasons and changes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cmbench.api.cache import AnyEntry, CacheForecast, CacheUsage, EntryCheck, ImportReport
from cmbench.cache.retention import RemovalPlan, RetentionRules, directory_size
from cmbench.lib.text_files import counted, size_text
from common.text import wrapped

SHOWN = 10
"""So many faults of an entry are shown."""


def entries_text(
    entries: Sequence[AnyEntry], used: Sequence[float], marks: Sequence[str] = ()
) -> str:
    """Return cache entries as a table with tags and paths below the rows.

    Their sizes are of now, as ``cm du cache`` counts them: an environment grows by what later
    entries install into it.
    """
    if not entries:
        return "no cache entry matches"
    sizes = [directory_size(entry.path) for entry in entries]
    lines = [f"{'script':<34}{'version':<13}{'size':>10}{'made':>11}{'used':>11}"]
    notes = marks or [""] * len(entries)
    for entry, size, last, note in zip(entries, sizes, used, notes, strict=True):
        lines.append(
            f"{entry.script[:33]:<34}{entry.version[:12]:<13}{size_text(size):>10}"
            f"{age(entry.created):>11}{age(last):>11}"
        )
        extra = " ".join(t for t in entry.tags if t.startswith(("_", "name-")))
        if extra:
            lines += wrapped(extra, " " * 4, " " * 4)
        lines.append("    " + entry.path + (f"  ({note})" if note else ""))
    lines.append(f"{counted(len(entries), 'entry', 'entries')}, {size_text(sum(sizes))}")
    return "\n".join(lines)


def age(since: float) -> str:
    """``3 min ago``."""
    seconds = max(0.0, time.time() - since)
    for limit, unit, name in ((90, 1, "s"), (5400, 60, "min"), (129600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name} ago"
    return f"{seconds / 86400:.0f} d ago"


def why_text(data: Mapping[str, Any]) -> str:
    """Return the origin, the reads, the dependencies and the users of an entry."""
    state = "sound: it answers a call with these values" if data["sound"] else data["why_not"]
    lines = [
        _title(data),
        f"  now:       {state}",
        f"  path:      {data['path']}",
        f"  made:      {age(data['created'])} in {data['seconds']:.1f} s by the run {data['run']}",
        f"  last used: {age(data['last_used'])}",
    ]
    sections = (
        *_read(data),
        ("it depends on", [item["path"] for item in data["relies_on"]]),
        ("it was made with", map(_needed, data["made_with"])),
        ("made with it", data["used_by"]),
        ("used by the runs", data["used_by_runs"]),
    )
    for title, items in sections:
        indented = [f"    {item}" for item in items]
        lines += [f"  {title}:", *indented] if indented else []
    return "\n".join(lines)


def foreseen_text(forecast: CacheForecast) -> str:
    """What the cache would answer to a call that was not made, and how near entries differ."""
    root = forecast.planned_step
    names = {"hit": "from the cache", "miss": "not in the cache", "no": "never kept"}
    name = root.tags if root.tags == root.script else f"{root.tags} ({root.script})"
    lines = wrapped(f"{name}: {names.get(root.cached, root.cached)}: {root.why}", "", "  ")
    for text in forecast.misses:
        lines += wrapped(text, "  ", "    ")
    return "\n".join([*lines, f"  {root.entry}"] if root.entry else lines)


def _title(data: Mapping[str, Any]) -> str:
    label = ",".join([data["script"], *("_" + name for name in data["variations"])])
    marks = ", ".join(word for word in ("pinned", "shared", "imported") if data[word])
    return f"{label} {data['version']}".rstrip() + (f" ({marks})" if marks else "")


def _read(data: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """What an entry read, by whether it was set."""
    from cmbench.format.env import MISSING
    from cmbench.plan.read_values import shown_value, subject_of_read

    reads = sorted(data["reads"].items())
    pairs = [(key, value) for key, value in reads if value not in ("", MISSING)]
    pairs += [pair for facts in data["facts"].values() for pair in facts.items()]
    yield "it read", [f"{subject_of_read(key)} = {shown_value(value)}" for key, value in pairs]
    yield from _unset([key for key, value in reads if value == MISSING])


_UNSET = (
    ("", "it read these, which were not set"),
    ("os:PATH/", "it looked for these, which were not there"),
    ("os:", "it read these environment variables, which were not set"),
    ("call:", "it read these inputs, which were not given"),
    ("state:", "it read these keys of the state, which were not set"),
    ("adr:", "it has these dependencies, which nothing changed"),
)
"""How what is not there is introduced, by the beginning of its key."""


def _unset(keys: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the unset keys, by kind: settings that nothing set would only fill the screen."""
    kinds: dict[str, list[str]] = {start: [] for start, _ in _UNSET}
    for key in keys:
        start = next((start for start in kinds if start and key.startswith(start)), "")
        if start or ":" not in key:
            kinds[start].append(key.removeprefix(start).removeprefix("!"))
    for start, title in _UNSET:
        names = ", ".join(dict.fromkeys(kinds[start]))
        lines = wrapped(names, width=76)
        yield title, lines


def _needed(item: Mapping[str, str]) -> str:
    why_not = f": {item['why_not']}" if item["why_not"] else ""
    return f"{item['script'] or item['key']}{why_not}"


def checked_text(item: EntryCheck) -> str:
    """Whether the files of an entry are as published, and what of them was compared."""
    name = f"{item.entry.script}_{item.entry.uid}"
    if item.faults:
        lines = list(item.faults[:SHOWN])
        if len(item.faults) > SHOWN:
            lines.append(f"and {len(item.faults) - SHOWN} more")
        return "\n    ".join([f"DAMAGED {name}", *lines])
    if not item.recorded:
        return f"unknown {name}: no record of its files"
    if not item.files:
        return f"ok      {name}: no files"
    rest = item.files - item.read
    parts = [
        f"{counted(item.read, 'file')} read and compared" if item.read else "",
        f"{counted(rest, 'file')} compared by size and time" if rest else "",
        f"{item.added} added since" if item.added else "",
    ]
    return f"ok      {name}: {', '.join(part for part in parts if part)}"


def disposal_text(disposal: RemovalPlan, rules: RetentionRules, act: bool) -> str:
    """Return the text about removed, or removable, entries and the rest."""
    lines = [
        f"{size_text(disposal.sizes[entry.uid]):>10}  {entry.script}_{entry.uid}"
        for entry in disposal.entries
    ]
    lines += [f"{size_text(item.size):>10}  {item.path} ({item.why})" for item in disposal.litter]
    total = len(disposal.entries) + len(disposal.litter)
    done = "removed" if act else "would be removed"
    lines.append(f"{counted(total, 'item')}, {size_text(disposal.freed)}, {done}")
    size = f" ({size_text(disposal.left)})" if disposal.left is not None else ""
    left = counted(disposal.staying, "entry", "entries")
    lines.append(f"{left}{size} {'left' if act else 'would be left'}")
    if rules.max_size is not None and (disposal.left or 0) > rules.max_size:
        lines.append(
            f"more than {size_text(rules.max_size)}: the rest is pinned, in use, or was used by a "
            "run of late (--keep-runs)"
        )
    if total and not act:
        lines.append("nothing was removed; to remove, add --yes")
    return "\n".join(lines)


def usage_text(usage: CacheUsage, root: str, shared: str) -> str:
    """Return the disk usage below ``root``, and in the shared cache ``shared``."""
    lines = [f"{size_text(s):>10}  {n:>5}  {what}" for what, n, s in usage.parts]
    lines.append(f"{size_text(usage.total):>10}  in all, in {root}")
    if usage.shared is not None:
        lines.append(f"{size_text(usage.shared):>10}  more in the shared cache {shared}")
    return "\n".join(lines)


def imported_text(brought: ImportReport) -> str:
    """What an archive has brought, and what was refused."""
    report, stale = brought.imported, brought.unsound
    names = [os.path.basename(entry.path) for entry in report.made]
    lines = [
        f"imported {name}" + (f"; cannot be used here: {stale[name]}" if name in stale else "")
        for name in names
    ]
    lines += [f"refused  {folder}: {why}" for folder, why in report.refused.items()]
    lines.append(
        f"{counted(len(report.made), 'entry', 'entries')} imported, "
        f"{len(report.present)} were here, {len(report.refused)} refused"
    )
    return "\n".join(lines)
