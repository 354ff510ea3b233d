"""Retention of entries: what holds an entry, what is unused, the selection by ``gc``."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from cmbench.cache.disk import disk_error, remove_tree
from cmbench.cache.listing import EntrySummary
from cmbench.cache.store import CacheEntry, CacheStore
from cmbench.errors import Error

_SIZES = {"": 1, "B": 1} | {
    unit + end: step**power
    for power, unit in enumerate("KMGT", 1)
    for end, step in (("", 1000), ("B", 1000), ("IB", 1024))
}
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


_Entry = TypeVar("_Entry", CacheEntry, EntrySummary)

UNTAKEN_SECONDS = 86400.0
"""How long a file that was fetched ahead of its step is kept for a step to take it."""
PART_SECONDS = 7 * 86400.0
"""How long a part of a file is kept for a run to go on with it."""


@dataclass(frozen=True, slots=True)
class UnusedPath:
    """Something on the disk that no entry needs: where, bytes, and why it may go."""

    path: str
    size: int
    why: str


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Limits of ``gc``: bytes to stay below, seconds since the last use, days as seconds.

    ``None`` is no limit. Runs of the last ``keep_runs`` seconds hold the entries that they used.
    """

    max_size: int | None = None
    older_than: float | None = None
    keep_runs: float = 7 * 86400


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What would go and what would stay.

    ``sizes`` gives bytes now on the disk by uid; ``held`` why an entry stays whatever the limits.
    ``staying`` entries stay, with ``left`` bytes: ``None`` where no limit asks for all sizes.
    """

    entries: tuple[EntrySummary, ...]
    litter: tuple[UnusedPath, ...]
    held: Mapping[str, str]
    sizes: Mapping[str, int]
    staying: int
    left: int | None

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


def with_dependencies(
    entries: Iterable[_Entry], find: Callable[[str], _Entry | None]
) -> list[_Entry]:
    """``entries`` and all that they were made with, without duplicates, what is needed first.

    ``find`` gives the entry of a key.
    """
    ordered: dict[str, _Entry] = {}
    begun: set[str] = set()
    pending = [(entry, False) for entry in reversed(list(entries))]
    while pending:
        entry, is_below_done = pending.pop()
        if is_below_done:
            ordered[entry.key] = entry
        elif entry.key not in begun:
            begun.add(entry.key)
            pending.append((entry, True))
            below = map(find, reversed(entry.deps))
            pending.extend((needed, False) for needed in below if needed is not None)
    return list(ordered.values())


def users_of(store: CacheStore, entry: CacheEntry) -> list[EntrySummary]:
    """The entries that were made with ``entry``."""
    return store.listed(lambda other: other.needs(entry.key))


def runs_with(root: str, entry: CacheEntry, limit: int = 5) -> list[str]:
    """Names of the last runs whose records name ``entry``, the newest first."""
    runs: list[str] = []
    for name in sorted(_names(os.path.join(root, "runs")), reverse=True):
        if len(runs) < limit and entry.key in _used_in(os.path.join(root, "runs", name)):
            runs.append(name)
    return runs


def held(
    store: CacheStore, root: str, entries: Sequence[EntrySummary], keep_runs: float
) -> dict[str, str]:
    """Why entries must stay: pinned, used by a recent or a living run, or needed by such a one."""
    pinned = store.pins.uids()
    reasons = {entry.uid: "pinned" for entry in entries if entry.uid in pinned}
    by_key = {entry.key: entry for entry in entries}
    for name, key in _recently_used(os.path.join(root, "runs"), keep_runs):
        if key in by_key:
            reasons.setdefault(by_key[key].uid, f"used by the run {name}")
    since = _first_start(store)
    for entry in entries:
        if since is not None and entry.used >= since:
            reasons.setdefault(entry.uid, "may be in use by a current run")
    # What needs others is after them.
    for entry in reversed(with_dependencies([e for e in entries if e.uid in reasons], by_key.get)):
        user = f"needed by {entry.script}_{entry.uid}"
        for needed in filter(None, map(by_key.get, entry.deps)):
            reasons.setdefault(needed.uid, user)
    return reasons


def _recently_used(runs: str, keep_runs: float) -> Iterator[tuple[str, str]]:
    """Yield the recent runs, with the key of every entry that they used."""
    for name in _names(runs):
        path = os.path.join(runs, name)
        if _age(path) <= keep_runs:
            for key in _used_in(path):
                yield name, key


def _first_start(store: CacheStore) -> float | None:
    """When the first of the runs that are alive now began."""
    times = []
    for name in store.live.names():
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


def choose(store: CacheStore, root: str, rules: RetentionRules) -> RemovalPlan:
    """What ``gc`` would remove: the least recently used first, users before what they need."""
    metadata = store.own_metadata()
    entries = _readable(metadata)
    is_sized = rules.max_size is not None
    sizes = {entry.uid: directory_size(entry.path) for entry in (entries if is_sized else ())}
    stay = held(store, root, entries, rules.keep_runs)
    doomed = _doomed(store, entries, stay.keys(), rules, sizes)
    sizes |= {e.uid: directory_size(e.path) for e in doomed if e.uid not in sizes}
    litter = tuple(_litter(store, metadata, root, rules))
    gone = sum(sizes[entry.uid] for entry in doomed)
    left = sum(sizes.values()) - gone if is_sized else None
    return RemovalPlan(tuple(doomed), litter, stay, sizes, len(entries) - len(doomed), left)


def _doomed(
    store: CacheStore,
    entries: list[EntrySummary],
    stay: Set[str],
    rules: RetentionRules,
    sizes: Mapping[str, int],
) -> list[EntrySummary]:
    """The entries that may go and have to, in the order in which they go."""
    limited = rules.max_size is not None or rules.older_than is not None
    doubles = _doubles(store, entries)
    free = [e for e in entries if e.uid not in stay and (limited or e.uid in doubles)]
    used = _last_uses(entries) if limited else {}
    left, now = sum(sizes.values()), time.time()
    doomed: list[EntrySummary] = []
    for entry in sorted(free, key=lambda e: (used.get(e.uid, 0.0), -e.created)):
        too_old = rules.older_than is not None and used[entry.uid] <= now - rules.older_than
        too_much = rules.max_size is not None and left > rules.max_size
        if too_old or too_much or entry.uid in doubles:
            doomed.append(entry)
            left -= sizes.get(entry.uid, 0)
    return doomed


def _readable(metadata: Iterable[EntrySummary]) -> list[EntrySummary]:
    """The entries, the newest first."""
    return sorted((row for row in metadata if row.script), key=lambda row: -row.created)


def _doubles(store: CacheStore, entries: Sequence[EntrySummary]) -> set[str]:
    """Return entries that a newer one replaces in all respects: left by a killed run."""
    doubles: set[str] = set()
    newest: dict[str, EntrySummary] = {}
    for entry in entries:
        other = newest.setdefault(entry.same, entry)
        if other is not entry and _is_whole(store, other):
            doubles.add(entry.uid)
    needed = {key for entry in entries if doubles for key in entry.deps}
    return doubles - {key.rpartition("/")[2] for key in needed}


def _is_whole(store: CacheStore, listed: EntrySummary) -> bool:
    entry = store.entry(listed.key)
    return entry is not None and not store.damage(entry)


def _last_uses(entries: Sequence[EntrySummary]) -> dict[str, float]:
    """When each of ``entries``, the newest first, or one that was made with it was last used."""
    used = {entry.uid: entry.used for entry in entries}
    by_key = {entry.key: entry for entry in entries}
    for entry in entries:
        for key in entry.deps:
            if key in by_key:
                uid = by_key[key].uid
                used[uid] = max(used[uid], used[entry.uid])
    return used


def _litter(
    store: CacheStore, metadata: Sequence[EntrySummary], root: str, rules: RetentionRules
) -> Iterator[UnusedPath]:
    bad = {row.uid: store.metadata(row) for row in metadata if not row.script}
    bad = {uid: path for uid, path in bad.items() if os.access(path, os.R_OK)}
    for path in bad.values():
        yield UnusedPath(path, _size(path), "unreadable metadata")
    yield from _orphans(store, {row.uid for row in metadata} - bad.keys())
    yield from _old_runs(store, root, rules)
    yield from _old_containers(root, rules)
    yield from _untaken(store, rules)


def _orphans(store: CacheStore, known: set[str]) -> Iterator[UnusedPath]:
    """What belongs neither to an entry nor to the making of one."""
    places = [(name.rpartition("_")[2], "store", name) for name in _names(store.place("store"))]
    for folder, suffix in (("files", ".json"), ("pins", "")):
        places += [
            (name.removesuffix(suffix), folder, name) for name in _names(store.place(folder))
        ]
    # In this order: what is being made is announced before and published before that ends.
    places = [place for place in places if place[0] not in known]
    places = [place for place in places if not _announced(store, place[0])]
    since = {row.uid for row in store.own_metadata() if row.script} if places else set()
    for uid, folder, name in places:
        if uid not in since:
            path = store.place(folder, name)
            size = directory_size(path) if folder == "store" else _size(path)
            yield UnusedPath(path, size, "belongs to no entry")


def _announced(store: CacheStore, uid: str) -> bool:
    names = (f"{uid}.json", f"{uid}.json.new", f"gone-{uid}.json")
    return any(os.path.exists(store.place("staging", name)) for name in names)


def _untaken(store: CacheStore, rules: RetentionRules) -> Iterator[UnusedPath]:
    """Downloads that no step has used; a run may still use recent ones."""
    if store.live.names():
        return
    for name in _names(store.place("ahead")):
        path = store.place("ahead", name)
        partial = ".part" in name
        limit = PART_SECONDS if partial else UNTAKEN_SECONDS
        if rules.max_size is not None or _age(path) > limit:
            why = "part of an abandoned download" if partial else ""
            yield UnusedPath(path, _size(path), why or "fetched ahead, never used")


def _old_runs(store: CacheStore, root: str, rules: RetentionRules) -> Iterator[UnusedPath]:
    if rules.older_than is None:
        return
    limit = max(rules.older_than, rules.keep_runs)
    alive = set(store.live.names())
    for name in sorted(_names(os.path.join(root, "runs"))):
        path = os.path.join(root, "runs", name)
        if _age(path) > limit and f"0-{name}.json" not in alive:
            yield UnusedPath(path, directory_size(path), "log and record of an old run")


def _old_containers(root: str, rules: RetentionRules) -> Iterator[UnusedPath]:
    """What containers were made from and the caches in their homes; users' own files stay.

    Each start of a container writes into both folders, so their times are those of the last use.
    """
    if rules.older_than is None:
        return
    limit = max(rules.older_than, rules.keep_runs)
    for base in sorted(_names(os.path.join(root, "containers"))):
        for name in sorted(_names(os.path.join(root, "containers", base))):
            path = os.path.join(root, "containers", base, name)
            why = "files of an image that was not used recently"
            if re.fullmatch(r"home-\d+", name):
                path = os.path.join(path, "CM")
                why = "cache of containers that were not used recently"
            if os.path.isdir(path) and _age(path) > limit:
                yield UnusedPath(path, directory_size(path), why)


def dispose(store: CacheStore, disposal: RemovalPlan) -> None:
    """Remove what was chosen. Raises ``Error`` where something cannot be removed."""
    for entry in disposal.entries:
        store.remove(entry)
    for item in disposal.litter:
        _clear_away(store, item.path)


def _clear_away(store: CacheStore, path: str) -> None:
    """Remove what belongs to no entry: a folder or a file below the store's home.

    Raises ``internal`` for a path outside of it.
    """
    home = os.path.dirname(store.root) + os.sep
    if not os.path.abspath(path).startswith(home):
        raise Error("internal", f"{path} is not in {home}")
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)
    else:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as problem:
            raise disk_error(problem, path) from None


def usage(store: CacheStore, root: str) -> list[tuple[str, int, int]]:
    """(what, number, bytes) of the private store's parts, entries by script, the largest first."""
    by_script: dict[str, list[int]] = {}
    metadata = store.own_metadata()
    for entry in _readable(metadata):
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
    litter = list(_litter(store, metadata, root, RetentionRules()))
    rows.append(("(runs: logs, records)", len(_names(runs)), directory_size(runs)))
    rows.append(("(litter, see gc)", len(litter), sum(item.size for item in litter)))
    return rows


def summary(entry: CacheEntry, store: CacheStore) -> dict[str, Any]:
    """Return the data that ``show`` adds to the fields of an entry."""
    return {
        "key": entry.key,
        "last_used": store.last_used(entry),
        "pinned": entry.uid in store.pins.uids(),
        "shared": not store.owns(entry),
    }


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
