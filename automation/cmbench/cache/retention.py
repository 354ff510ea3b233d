"""What may go and what stays: what holds an entry, what nobody needs, the choice of ``gc``."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cmbench.cache.cache_entry import damage
from cmbench.cache.store import Entry, Store, make_identity
from cmbench.errors import Error

_SIZES = {"": 1, "B": 1} | {
    unit + end: step**power
    for power, unit in enumerate("KMGT", 1)
    for end, step in (("", 1000), ("B", 1000), ("IB", 1024))
}
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


UNTAKEN_SECONDS = 86400.0
"""How long a file that was fetched ahead of its step is kept for a step to take it."""
PART_SECONDS = 7 * 86400.0
"""How long a part of a file is kept for a run to go on with it."""


@dataclass(frozen=True, slots=True)
class Litter:
    """Something on the disk that no entry needs: where, bytes, and why it may go."""

    path: str
    size: int
    why: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What ``gc`` was asked for: bytes to stay below, seconds since the last use, days as seconds.

    ``None`` is no limit. Runs of the last ``keep_runs`` seconds hold the entries that they used.
    """

    max_size: int | None = None
    older_than: float | None = None
    keep_runs: float = 7 * 86400


@dataclass(frozen=True, slots=True)
class Disposal:
    """What would go and what would stay.

    ``sizes`` gives bytes now on the disk by uid; ``held`` why an entry stays whatever the limits.
    """

    entries: tuple[Entry, ...]
    litter: tuple[Litter, ...]
    held: Mapping[str, str]
    sizes: Mapping[str, int]
    left: int

    @property
    def freed(self) -> int:
        """Bytes that removing all this would free."""
        return sum(self.sizes[e.uid] for e in self.entries) + sum(x.size for x in self.litter)


def bytes_of(text: str) -> int:
    """``2GB``, ``500 MB``, ``1.5GiB`` in bytes; raises ``bad-value``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if not match or match[2].upper() not in _SIZES:
        raise Error("bad-value", f'"{text}" is not a size', hint="write it as in --max-size=20GB")
    return int(float(match[1]) * _SIZES[match[2].upper()])


def seconds_of(text: str) -> float:
    """``30d``, ``12h``, ``2w`` in seconds; a plain number counts days; raises ``bad-value``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    unit = (match[2] or "d") if match else ""
    if not match or unit not in _SECONDS:
        hint = "write it as in --older-than=30d (s, min, h, d, w)"
        raise Error("bad-value", f'"{text}" is not a time', hint=hint)
    return float(match[1]) * _SECONDS[unit]


def own_entries(store: Store) -> list[Entry]:
    """The entries of the private store, the newest first."""
    return [entry for entry in store.entries() if store.owns(entry)]


def with_dependencies(store: Store, entries: Iterable[Entry]) -> list[Entry]:
    """``entries`` and all entries they were made with, each once, what is needed first."""
    found: dict[str, Entry] = {}

    def add(entry: Entry, above: tuple[str, ...]) -> None:
        if entry.key in found or entry.key in above:
            return
        for key in entry.deps:
            needed = store.entry(key)
            if needed is not None:
                add(needed, (*above, entry.key))
        found[entry.key] = entry

    for entry in entries:
        add(entry, ())
    return list(found.values())


def users_of(store: Store, entry: Entry) -> list[Entry]:
    """The entries that were made with ``entry``."""
    return [other for other in store.entries() if entry.key in other.deps]


def runs_with(root: str, entry: Entry, limit: int = 5) -> list[str]:
    """Names of the last runs whose records name ``entry``, the newest first."""
    found: list[str] = []
    for name in sorted(_names(os.path.join(root, "runs")), reverse=True):
        if len(found) < limit and entry.key in _used_in(os.path.join(root, "runs", name)):
            found.append(name)
    return found


def held(store: Store, root: str, entries: Sequence[Entry], keep_runs: float) -> dict[str, str]:
    """Why entries must stay: pinned, used by a recent or a living run, or needed by such a one."""
    pinned = store.pinned()
    found = {entry.uid: "pinned" for entry in entries if entry.uid in pinned}
    by_key = {entry.key: entry for entry in entries}
    for name, key in _recently_used(os.path.join(root, "runs"), keep_runs):
        if key in by_key:
            found.setdefault(by_key[key].uid, f"used by the run {name}")
    since = _first_start(store)
    for entry in entries:
        if since is not None and store.last_used(entry) >= since:
            found.setdefault(entry.uid, "may be in use by a run that is going on")
    for entry in [e for e in entries if e.uid in found]:
        for needed in with_dependencies(store, [entry]):
            found.setdefault(needed.uid, f"needed by {entry.script}_{entry.uid}")
    return found


def _recently_used(runs: str, keep_runs: float) -> Iterator[tuple[str, str]]:
    """The recent runs, each with the key of every entry that it used."""
    for name in _names(runs):
        path = os.path.join(runs, name)
        if _age(path) <= keep_runs:
            for key in _used_in(path):
                yield name, key


def _first_start(store: Store) -> float | None:
    """When the first of the runs that are alive now began."""
    times = []
    for name in store.living():
        with suppress(OSError):
            times.append(os.stat(store.place("staging", name)).st_mtime - 1)
    return min(times, default=None)


def _used_in(run: str) -> set[str]:
    try:
        with open(os.path.join(run, "record.json"), encoding="utf-8") as stream:
            steps = json.load(stream)["steps"]
        return {str(step["entry"]) for step in steps if step.get("entry")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def choose(store: Store, root: str, rules: Rules) -> Disposal:
    """What ``gc`` would remove: the least recently used first, users before what they need."""
    entries = own_entries(store)
    sizes = {entry.uid: directory_size(entry.path) for entry in entries}
    stay = held(store, root, entries, rules.keep_runs)
    now = time.time()
    used = _last_uses(store, entries)
    left = sum(sizes.values())
    doomed: list[Entry] = []
    free = [entry for entry in entries if entry.uid not in stay]
    doubles = _doubles(entries)
    for entry in sorted(free, key=lambda e: (used[e.uid], -e.created)):
        too_old = rules.older_than is not None and used[entry.uid] <= now - rules.older_than
        too_much = rules.max_size is not None and left > rules.max_size
        if too_old or too_much or entry.uid in doubles:
            doomed.append(entry)
            left -= sizes[entry.uid]
    return Disposal(tuple(doomed), tuple(_litter(store, root, rules)), stay, sizes, left)


def _doubles(entries: Sequence[Entry]) -> set[str]:
    """Entries that a newer one stands for in all respects: a killed run did not remove them."""
    found: set[str] = set()
    newest: dict[str, Entry] = {}
    needed = {key for entry in entries for key in entry.deps}
    for entry in entries:
        same = make_identity(entry.identity, entry.name, entry.reads, entry.facts, entry.deps)
        if same in newest and entry.key not in needed and not damage(newest[same]):
            found.add(entry.uid)
        newest.setdefault(same, entry)
    return found


def _last_uses(store: Store, entries: Sequence[Entry]) -> dict[str, float]:
    """When each entry was last used, by itself or by one that was made with it."""
    used = {entry.uid: store.last_used(entry) for entry in entries}
    by_key = {entry.key: entry for entry in entries}
    for entry in sorted(entries, key=lambda e: -e.created):
        for key in entry.deps:
            if key in by_key:
                uid = by_key[key].uid
                used[uid] = max(used[uid], used[entry.uid])
    return used


def _litter(store: Store, root: str, rules: Rules) -> Iterator[Litter]:
    known = {entry.uid for entry in own_entries(store)}
    bad = store.unreadable()
    for path in bad:
        yield Litter(path, _size(path), "metadata that cannot be read")
    unclear = {_uid(path) for path in _all_metadata(store)} - {_uid(path) for path in bad} - known
    safe = known | unclear
    yield from _orphans(store, safe)
    yield from _old_runs(store, root, rules)
    yield from _old_containers(root, rules)
    yield from _untaken(store, rules)


def _all_metadata(store: Store) -> Iterator[str]:
    for identity in _names(store.place("entries")):
        for name in _names(store.place("entries", identity)):
            if name.endswith(".json"):
                yield name


def _orphans(store: Store, known: set[str]) -> Iterator[Litter]:
    """What belongs to no entry and to nobody who is making one."""
    for name in _names(store.place("store")):
        uid = name.rpartition("_")[2]
        # In this order: what is being made is announced before and published before that ends.
        if not _announced(store, uid) and uid not in known and not _readable(store, uid):
            path = store.place("store", name)
            yield Litter(path, directory_size(path), "belongs to no entry")
    for folder, suffix in (("files", ".json"), ("pins", "")):
        for name in _names(store.place(folder)):
            uid = name.removesuffix(suffix)
            if not _announced(store, uid) and uid not in known and not _readable(store, uid):
                path = store.place(folder, name)
                yield Litter(path, _size(path), "belongs to no entry")


def _announced(store: Store, uid: str) -> bool:
    names = (f"{uid}.json", f"{uid}.json.new", f"gone-{uid}.json")
    return any(os.path.exists(store.place("staging", name)) for name in names)


def _readable(store: Store, uid: str) -> bool:
    """Whether an entry of that uid has been published since the entries were listed."""
    return store.published(uid) and any(entry.uid == uid for entry in own_entries(store))


def _untaken(store: Store, rules: Rules) -> Iterator[Litter]:
    """Downloads that no step has taken; a run may still want young ones."""
    if store.living():
        return
    for name in _names(store.place("ahead")):
        path = store.place("ahead", name)
        partial = ".part" in name
        limit = PART_SECONDS if partial else UNTAKEN_SECONDS
        if rules.max_size is not None or _age(path) > limit:
            why = "part of a download that was not gone on with" if partial else ""
            yield Litter(path, _size(path), why or "fetched ahead, never used")


def _old_runs(store: Store, root: str, rules: Rules) -> Iterator[Litter]:
    if rules.older_than is None:
        return
    limit = max(rules.older_than, rules.keep_runs)
    alive = set(store.living())
    for name in sorted(_names(os.path.join(root, "runs"))):
        path = os.path.join(root, "runs", name)
        if _age(path) > limit and f"0-{name}.json" not in alive:
            yield Litter(path, directory_size(path), "log and record of an old run")


def _old_containers(root: str, rules: Rules) -> Iterator[Litter]:
    """What containers were made from and the caches in their homes; users' own files stay.

    Each start of a container writes into both folders, so their times are those of the last use.
    """
    if rules.older_than is None:
        return
    limit = max(rules.older_than, rules.keep_runs)
    for base in sorted(_names(os.path.join(root, "containers"))):
        for name in sorted(_names(os.path.join(root, "containers", base))):
            path = os.path.join(root, "containers", base, name)
            why = "files of an image that was not used of late"
            if re.fullmatch(r"home-\d+", name):
                path = os.path.join(path, "CM")
                why = "cache of containers that were not used of late"
            if os.path.isdir(path) and _age(path) > limit:
                yield Litter(path, directory_size(path), why)


def dispose(store: Store, disposal: Disposal) -> None:
    """Remove what was chosen. Raises ``Error`` where something cannot be removed."""
    for entry in disposal.entries:
        store.remove(entry)
    for item in disposal.litter:
        store.clear_away(item.path)


def usage(store: Store, root: str) -> list[tuple[str, int, int]]:
    """(what, number, bytes) of the private store's parts, entries by script, the largest first."""
    by_script: dict[str, list[int]] = {}
    for entry in own_entries(store):
        by_script.setdefault(entry.script, []).append(directory_size(entry.path))
    rows = [(name, len(sizes), sum(sizes)) for name, sizes in by_script.items()]
    rows.sort(key=lambda row: (-row[2], row[0]))
    runs = os.path.join(root, "runs")
    ahead = store.place("ahead")
    if _names(ahead):
        rows.append(("(downloads not taken)", len(_names(ahead)), directory_size(ahead)))
    containers = os.path.join(root, "containers")
    if _names(containers):
        rows.append(("(containers)", len(_names(containers)), directory_size(containers)))
    litter = list(_litter(store, root, Rules()))
    rows.append(("(runs: logs, records)", len(_names(runs)), directory_size(runs)))
    rows.append(("(litter, see gc)", len(litter), sum(item.size for item in litter)))
    return rows


def summary(entry: Entry, store: Store) -> dict[str, Any]:
    """What ``show`` gives of an entry as data, beside its own fields."""
    return {
        "key": entry.key,
        "last_used": store.last_used(entry),
        "pinned": entry.uid in store.pinned(),
        "shared": not store.owns(entry),
    }


def _uid(path: str) -> str:
    return os.path.basename(path).removesuffix(".json")


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _age(path: str) -> float:
    """Seconds since ``path`` was written; never negative, whatever the clock says."""
    try:
        return max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return 0.0


def directory_size(path: str) -> int:
    """Bytes of all regular files below ``path``."""
    total = 0
    pending = [path]
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    return total
