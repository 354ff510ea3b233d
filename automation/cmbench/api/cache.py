"""The cache: its entries, why they answer or not, their upkeep, and their way to other machines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from cmbench.cache import retention
from cmbench.cache.listing import EntrySummary
from cmbench.cache.portability import HostPlatform, misfit, needs_of
from cmbench.cache.store import CacheEntry
from cmbench.errors import Error
from cmbench.format.model import Script, Tags
from cmbench.index.select import parse_tags
from cmbench.session.call import RunRequest
from cmbench.session.workspace import Workspace
from cmbench.values import immutable

if TYPE_CHECKING:
    from cmbench.cache.bundle import ImportResult
    from cmbench.cache.store import CacheStore
    from cmbench.plan.cache_lookup import CacheLookup
    from cmbench.plan.planned_step import PlannedStep

__all__ = [
    "AnyEntry",
    "CacheEntry",
    "CacheForecast",
    "CacheUsage",
    "EntryCheck",
    "EntryReasons",
    "HostPlatform",
    "ImportReport",
    "RemovalReport",
    "Say",
    "collect",
    "complete",
    "entries",
    "expired",
    "export",
    "fitting",
    "foresee",
    "import_archive",
    "listed",
    "lookup_of",
    "marks",
    "pin",
    "removable",
    "remove",
    "set_aside",
    "summary",
    "unpin",
    "usage",
    "verify",
    "why",
]

_SHORTEST = 4
"""Digits of a uid that name an entry."""

AnyEntry = CacheEntry | EntrySummary
"""An entry, whole or in short."""

Say = Callable[[str], None]


def _nothing(text: str) -> None:
    """Does nothing: a callback for callers that need none."""


@immutable(frozen=True, slots=True, eq=True, repr=True)
class RemovalReport:
    """What was removed; ``pinned`` and ``shared`` entries that were named are still there."""

    entries: Sequence[AnyEntry]
    pinned: Sequence[AnyEntry]
    shared: Sequence[AnyEntry]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class EntryCheck:
    """An entry compared with what was recorded when it was published.

    ``files`` are its files, ``read`` those compared by content, ``added`` those that came since;
    ``recorded`` is false where nothing is known of them.
    """

    entry: CacheEntry
    files: int
    read: int
    added: int
    recorded: bool
    faults: Sequence[str]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class EntryReasons:
    """The origin of an entry and its users.

    ``why_not`` says why it does not answer a call now, empty if it does. ``needs`` has its
    dependencies: ``key``, ``script`` and ``why_not``. ``used_by`` are entries, ``runs`` run ids.
    """

    entry: CacheEntry
    why_not: str
    needs: Sequence[Mapping[str, str]]
    used_by: Sequence[EntrySummary]
    runs: Sequence[str]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class CacheForecast:
    """What the cache would answer to a call: the root of its plan, and how near entries differ."""

    planned_step: PlannedStep
    misses: Sequence[str]


@immutable(frozen=True, slots=True, eq=True, repr=True)
class CacheUsage:
    """What uses the disk: ``parts`` of name, number of items and bytes; ``shared`` in bytes."""

    parts: Sequence[tuple[str, int, int]]
    shared: int | None

    @property
    def total(self) -> int:
        """All parts together, in bytes."""
        return sum(size for _, _, size in self.parts)


@immutable(frozen=True, slots=True, eq=True, repr=True)
class ImportReport:
    """What an archive has brought; ``unsound`` are names of entries and why they do not answer."""

    imported: ImportResult
    unsound: Mapping[str, str]


def entries(workspace: Workspace, tags: str | Tags = "", name: str = "") -> list[CacheEntry]:
    """The complete entries with all ``tags``; ``name`` is a script, an entry, the start of its uid.

    Without either they are all.
    """
    return complete(workspace, listed(workspace, tags, name))


def complete(workspace: Workspace, listed_entries: Sequence[EntrySummary]) -> list[CacheEntry]:
    """Return the entries of a listing with all their metadata; those removed since are left out."""
    entries = (workspace.store.entry(one.key) for one in listed_entries)
    return [entry for entry in entries if entry is not None]


def listed(workspace: Workspace, tags: str | Tags = "", name: str = "") -> list[EntrySummary]:
    """Return what ``entries`` does, in short: metadata is not read."""
    query = parse_tags(tags) if isinstance(tags, str) else tags
    name = name.rpartition(":")[2]
    required_tags = {*query.wanted, *("_" + v for v in query.variations)}
    unwanted_tags = {*query.unwanted, *("_" + v for v in query.unwanted_variations)}
    return workspace.store.listed(
        lambda entry: (
            entry.has_tags(required_tags)
            and not (unwanted_tags and unwanted_tags & set(entry.tags))
            and (not name or _is_named(entry, name))
        )
    )


def _is_named(entry: EntrySummary, word: str) -> bool:
    names = (entry.key, entry.uid, entry.script, os.path.basename(entry.path))
    return word in names or (len(word) >= _SHORTEST and entry.uid.startswith(word))


def summary(workspace: Workspace, entry: CacheEntry) -> dict[str, Any]:
    """Return all that is known of an entry, as JSON holds it: last use, pinned, shared."""
    return {**asdict(entry), **retention.summary(entry, workspace.store)}


def marks(workspace: Workspace, entries: Sequence[AnyEntry]) -> list[str]:
    """Return which entries are pinned or shared, in words."""
    pinned, owns = workspace.store.pins.uids(), workspace.store.owns
    words = (("pinned" * (one.uid in pinned), "shared" * (not owns(one))) for one in entries)
    return [", ".join(filter(None, pair)) for pair in words]


def removable(workspace: Workspace, entries: Sequence[AnyEntry]) -> RemovalReport:
    """Return what ``remove`` would remove of ``entries``."""
    pinned = workspace.store.pins.uids()
    own = [entry for entry in entries if workspace.store.owns(entry)]
    return RemovalReport(
        entries=[entry for entry in own if entry.uid not in pinned],
        pinned=[entry for entry in own if entry.uid in pinned],
        shared=[entry for entry in entries if not workspace.store.owns(entry)],
    )


def remove(workspace: Workspace, entries: Sequence[AnyEntry]) -> RemovalReport:
    """Remove entries that are neither pinned nor in a shared cache."""
    removed = removable(workspace, entries)
    for entry in removed.entries:
        workspace.store.remove(entry)
    return removed


def expired(entries: Sequence[AnyEntry]) -> list[AnyEntry]:
    """Return those that have come to their end by the clock."""
    from cmbench.cache.cache_entry import is_over

    return [entry for entry in entries if is_over(entry.expires)]


def set_aside(workspace: Workspace, entries: Sequence[CacheEntry]) -> list[CacheEntry]:
    """Let entries answer no call from now on, with their files kept; those that are set aside now.

    They get the tag ``tmp``, as with MLC.
    """
    store = workspace.store
    done = []
    for entry in entries:
        doubts = (*entry.doubts, "it was marked as unfinished (tmp)")
        marked = replace(entry, tags=(*entry.tags, "tmp"), doubts=doubts)
        with store.locks.hold(entry.identity, _nothing):
            if store.owns(entry) and store.has(entry) and "tmp" not in entry.tags:
                store.publish(marked)
                done.append(marked)
    return done


def pin(workspace: Workspace, entries: Sequence[CacheEntry]) -> list[CacheEntry]:
    """Keep entries from ``collect``, ``remove`` and from being replaced; those that are pinned now.

    Raises ``bad-value`` where all are in a shared cache.
    """
    own = [entry for entry in entries if workspace.store.owns(entry)]
    if not own:
        raise Error("bad-value", "the shared cache is for reading only; nothing to pin there")
    for entry in own:
        workspace.store.pins.add(entry.uid, entry.key)
    return own


def unpin(workspace: Workspace, entries: Sequence[CacheEntry]) -> list[CacheEntry]:
    """Let go of pinned entries; those that were."""
    pinned = workspace.store.pins.uids()
    freed = [entry for entry in entries if entry.uid in pinned]
    for entry in freed:
        workspace.store.pins.remove(entry.uid)
    return freed


def lookup_of(workspace: Workspace) -> CacheLookup:
    """Return what says whether entries are sound here and now."""
    from cmbench.api.resolving import silent_facts
    from cmbench.plan.cache_lookup import CacheLookup
    from cmbench.plan.resolve import Resolver

    facts = silent_facts(workspace)
    facts.resolver = Resolver(workspace.index)
    return CacheLookup(workspace.index, workspace.store, facts)


def why(workspace: Workspace, entries: Sequence[CacheEntry]) -> list[EntryReasons]:
    """Return the origins of entries, their dependencies and users, and whether they answer now."""
    lookup = lookup_of(workspace)
    # Who uses them is looked up in one list for all.
    now = workspace.store.as_it_is_now()
    return [_reasons(workspace, now, entry, lookup) for entry in entries]


def _reasons(
    workspace: Workspace, store: CacheStore, entry: CacheEntry, lookup: CacheLookup
) -> EntryReasons:
    needs = []
    for key in entry.deps:
        needed = store.entry(key)
        why_not = lookup.unsound(needed) if needed is not None else "gone"
        script = needed.script if needed is not None else ""
        needs.append({"key": key, "script": script, "why_not": why_not})
    return EntryReasons(
        entry,
        lookup.unsound(entry),
        needs,
        retention.users_of(store, entry),
        retention.runs_with(workspace.root, entry),
    )


def foresee(request: RunRequest) -> CacheForecast:
    """Return what the cache would answer to ``request``, and how the nearest entries differ."""
    from cmbench.api.resolving import make_context, make_plan, renewal_of, silent_facts
    from cmbench.plan.explain import PlanNotes

    facts = silent_facts(request.workspace)
    context = make_context(request.workspace, facts, renewal=renewal_of(request))
    notes = PlanNotes(context)
    root = make_plan(request.workspace, request.request, context, notes).root
    return CacheForecast(root, list(root.detail.misses))


def verify(workspace: Workspace, entries: Sequence[AnyEntry]) -> list[EntryCheck]:
    """Compare the files of entries with what was recorded when they were published.

    Entries that were removed since they were listed are left out.
    """
    store = workspace.store
    with store.reading():
        present = (store.entry(entry.key) for entry in entries)
        return [_checked(workspace, entry) for entry in present if entry is not None]


def _checked(workspace: Workspace, entry: CacheEntry) -> EntryCheck:
    from cmbench.cache.inventory import check

    inventory_check = check(entry, workspace.store.files(entry))
    damaged = workspace.store.damage(entry)
    faults = list(inventory_check.faults) or ([damaged] if damaged else [])
    return EntryCheck(
        entry,
        inventory_check.files,
        inventory_check.read,
        inventory_check.added,
        inventory_check.recorded,
        faults,
    )


def collect(
    workspace: Workspace,
    rules: retention.RetentionRules,
    act: bool = False,
    waiting: Say = _nothing,
) -> retention.RemovalPlan:
    """Return what ``rules`` remove; remove it if ``act`` is true.

    ``waiting`` is called with the process that it waits for.
    """
    store = workspace.store
    if not act:
        return retention.choose(store, workspace.root, rules)
    store.staging.sweep()
    with store.locks.hold("housekeeping", waiting):
        disposal = retention.choose(store, workspace.root, rules)
        retention.dispose(store, disposal)
    return disposal


def usage(workspace: Workspace) -> CacheUsage:
    """Return what uses the disk, by script."""
    shared = workspace.store.shared
    size = retention.directory_size(shared.place("store")) if shared is not None else None
    return CacheUsage(retention.usage(workspace.store, workspace.root), size)


def fitting(
    workspace: Workspace,
    entries: Sequence[CacheEntry],
    machine: HostPlatform,
    root: str,
    present: Container[str] = (),
) -> list[CacheEntry]:
    """Return those of the entries, with all that they depend on, that ``machine`` can use.

    ``root`` is the folder of cmbench in the home there; entries with a key in ``present`` are there
    already. One whose dependency does not fit is left out too.
    """
    store, store_root = workspace.store, os.path.join(root, os.path.basename(workspace.store.root))
    fits: dict[str, CacheEntry] = {}
    for entry in retention.with_dependencies(entries, store.entry):
        sound = all(key in fits or key in present for key in entry.deps)
        if entry.key in present or not sound:
            continue
        if not misfit(needs_of(entry.path, store.root), machine, store_root):
            fits[entry.key] = entry
    return list(fits.values())


def export(
    workspace: Workspace, entries: Sequence[CacheEntry], target: str, present: Container[str] = ()
) -> list[CacheEntry]:
    """Write entries, and all that they depend on, as the archive ``target``; what is in it.

    Those with a key in ``present`` are left out. Raises ``cache-damaged`` for an entry that does
    not answer on this machine.
    """
    from cmbench.cache import bundle

    with workspace.store.reading():
        _require_sound(workspace, entries)
        return bundle.export(workspace.store, entries, target, present)


def _require_sound(workspace: Workspace, entries: Sequence[CacheEntry]) -> None:
    lookup = lookup_of(workspace)
    for entry in entries:
        why_not = lookup.unsound(entry)
        if why_not:
            raise Error(
                "cache-damaged",
                f"{entry.script}_{entry.uid} cannot be used even here: {why_not}",
                hint="make it again, or name others: `cm show cache`",
            )


def _strange(workspace: Workspace, entry: CacheEntry) -> str:
    """What an entry from elsewhere gives back although none of its scripts says that it does."""
    from cmbench.format.env import select_keys

    blocks = [block for script in _scripts_of(workspace, entry) for block in script.blocks]
    if not blocks:
        return ""  # It answers nothing here.
    for values, name in ((entry.new_env, "new_env_keys"), (entry.new_state, "new_state_keys")):
        said = chain.from_iterable(getattr(block, name) for block in blocks)
        patterns = [re.sub(r"<<<\w+>>>", "*", key) for key in said]
        keys = sorted(values.keys() - {*select_keys(values, patterns)})
        if keys:
            return f"its script never gives back {', '.join(keys)}"
    return ""


def _scripts_of(workspace: Workspace, entry: CacheEntry) -> list[Script]:
    """The scripts that made an entry and what it needs; they may be elsewhere on this machine."""
    made = [entry, *filter(None, map(workspace.store.entry, entry.deps))]
    names = {os.path.basename(path) for one in made for path in one.scripts}
    index = workspace.index
    return [index.script(path) for path in index.rows() if os.path.basename(path) in names]


def import_archive(workspace: Workspace, path: str, waiting: Say = _nothing) -> ImportReport:
    """Import the entries of an archive at the same paths below this home, checked."""
    from cmbench.cache import bundle

    workspace.store.staging.sweep()
    imported = bundle.import_archive(workspace.store, path, waiting, partial(_strange, workspace))
    lookup = lookup_of(workspace)
    unsound = {os.path.basename(e.path): why for e in imported.made if (why := lookup.unsound(e))}
    return ImportReport(imported, unsound)
