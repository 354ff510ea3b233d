"""The cache: what makes an entry, how one is published, found, checked and removed.

Layout below the store's root (the version is part of the path, formats never change in place)::

    v1/store/<script>_<uid>/      payload of one entry, at the path it keeps for ever
    v1/entries/<identity>/<uid>.json   its metadata: an entry exists when, and only when, this does
    v1/files/<uid>.json           what its payload held when it was published, for ``verify``
    v1/pins/<uid>                 keeps the entry from ``gc`` and from being replaced
    v1/staging/<uid>.json         locked by the run that makes the entry; swept when it is dead
    v1/staging/0-<run>.json       locked by a run while it lives; sorts before its entries
    v1/staging/gone-<uid>.json    a removed entry whose payload waits for the runs that may use it
    v1/readers/<number>           locked, shared, by those who only read: other homes, ``verify``
    v1/ahead/                     files, and parts of files, that no step has taken yet
    v1/locks/                     one lock file per identity or named resource, held by ``flock``

A step works at the entry's final path, so that absolute paths in what it makes stay true; nothing
can see the entry until one atomic rename puts its metadata in place. Metadata carries a checksum of
itself: what was cut off or edited behind our back is no entry.

A second store may stand beside the private one, for reading only: its sound entries answer, and
nothing is ever written to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from cmbench.cache import cache_entry
from cmbench.cache.cache_entry import (
    CacheEntry,
    Reliance,
    decode,
    make_identity,
    reliance,
    relied_on_change,
    sealed,
    unsealed,
)
from cmbench.cache.disk import disk_error, read_plain_file, remove_tree, write, write_in
from cmbench.cache.field_types import is_file_state
from cmbench.cache.records import LiveRuns, NamedLocks
from cmbench.cache.staging import Staging, StagingArea
from cmbench.values import replace

if TYPE_CHECKING:
    from cmbench.cache.listing import EntrySummary, Listing, Where

__all__ = [
    "FORMAT",
    "CacheEntry",
    "CacheStore",
    "Reliance",
    "Staging",
    "disk_error",
    "make_identity",
    "reliance",
    "relied_on_change",
    "remove_tree",
]

FORMAT = 1


class EntryLike(Protocol):
    """The attributes of an entry that are needed to find, touch or remove it."""

    @property
    def identity(self) -> str:
        """What its step is."""

    @property
    def uid(self) -> str:
        """Distinguishes it from others of that identity."""

    @property
    def created(self) -> float:
        """When it was made, in seconds since 1970."""


class EntryPins:
    """The pinned entries, as files below ``folder``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def uids(self) -> set[str]:
        """The uids of all pinned entries."""
        try:
            return set(os.listdir(self._folder))
        except OSError:
            return set()

    def add(self, uid: str, key: str) -> None:
        """Keep the entry ``uid``, whose key that is, until it is unpinned."""
        path = os.path.join(self._folder, uid)
        try:
            os.makedirs(self._folder, exist_ok=True)
            write(path, key)
        except OSError as problem:
            raise disk_error(problem, path) from None

    def remove(self, uid: str) -> None:
        """Let go of the entry ``uid``; it need not exist any more."""
        path = os.path.join(self._folder, uid)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise disk_error(problem, path) from None


class CacheStore:
    """One cache on one file system, used by any number of processes."""

    def __init__(self, root: str, shared: str = "", notes: str = "") -> None:
        """A store below ``root``; ``notes`` is where its list is kept, if that is elsewhere."""
        self.root = os.path.join(root, f"v{FORMAT}")
        self.shared: CacheStore | None = None
        if shared:
            own = os.path.join(root, f"shared-{make_identity(shared)}.db")
            self.shared = CacheStore(shared, notes=own)
        self._notes = notes or os.path.join(root, "entries.db")
        self._before: CacheStore | None = None
        self.pins = EntryPins(self.place("pins"))
        self.locks = NamedLocks(self.place("locks"))
        self.live = LiveRuns(self.root)
        self.staging = StagingArea(self.root, self.live)
        self._entries: dict[str, CacheEntry] = {}
        self._identities: frozenset[str] | None = None

    def as_it_is_now(self) -> CacheStore:
        """The store for a plan, which looks once at what there is and not again for every step."""
        now = CacheStore.__new__(CacheStore)
        now.root, now._entries = self.root, self._entries
        now.pins, now.locks, now.live, now.staging = self.pins, self.locks, self.live, self.staging
        now._before = self
        now.shared = self.shared.as_it_is_now() if self.shared else None
        try:
            now._identities = frozenset(os.listdir(self.place("entries")))
        except OSError:
            now._identities = frozenset()
        return now

    @cached_property
    def _listing(self) -> Listing:
        """The list of all entries, of which most runs ask nothing."""
        if self._before is not None:
            return self._before._listing.as_it_is_now()
        from cmbench.cache.listing import Listing

        return Listing(self.place("entries"), self._notes)

    def place(self, *parts: str) -> str:
        """A path inside the store."""
        return os.sep.join((self.root, *parts))

    def keyed(self, text: str) -> str:
        """The fingerprint of a secret for an entry that is being made here."""
        from cmbench.cache.secret_fingerprints import keyed

        return keyed(text, self.place("key"), make=True)

    def is_same(self, then: str, now: str) -> bool:
        """Whether ``now`` is the fingerprint ``then`` of an entry, of a secret too."""
        from cmbench.cache.secret_fingerprints import is_keyed, keyed

        if then == now or not is_keyed(then):
            return then == now
        shared = self.shared is not None and self.shared.is_same(then, now)
        return shared or keyed(now, self.place("key")) == then

    def candidates(self, identity: str) -> list[CacheEntry]:
        """Entries of one identity, the newest first."""
        folder = self.place("entries", identity)
        names: list[str] = []
        if self._identities is None or identity in self._identities:
            with suppress(OSError):
                names = os.listdir(folder)
        paths = [os.path.join(folder, name) for name in names if name.endswith(".json")]
        entries = [entry for path in paths if (entry := self._read(path))]
        if self.shared is not None:
            entries += self.shared.candidates(identity)
        return sorted(entries, key=lambda entry: -entry.created)

    def listed(self, where: Where = bool) -> list[EntrySummary]:
        """All entries in short, the newest first, or those for which ``where`` is true."""
        rows = self._listing.rows(where)
        if self.shared is not None:
            own = {entry.uid for entry in rows}
            rows += [entry for entry in self.shared.listed(where) if entry.uid not in own]
        return sorted(rows, key=lambda entry: -entry.created)

    def own_metadata(self) -> list[EntrySummary]:
        """All files of metadata in this store; those without ``script`` cannot be read."""
        return self._listing.everything()

    def entries(self, where: Where = bool) -> list[CacheEntry]:
        """All entries, the newest first, or those for which ``where`` is true."""
        entries = (self.entry(listed.key) for listed in self.listed(where))
        return [entry for entry in entries if entry is not None]

    def makers(self) -> set[str]:
        """Aliases of the scripts that have payloads here."""
        own: set[str] = set()
        with suppress(OSError):
            own = {name.rpartition("_")[0] for name in os.listdir(self.place("store"))}
        return own | self.shared.makers() if self.shared is not None else own

    def entry(self, key: str) -> CacheEntry | None:
        """The entry of that key, or ``None`` when it is gone."""
        path = self.place("entries", key + ".json")
        entry = self._read(path) if os.path.isfile(path) else None
        if entry is None and self.shared is not None:
            return self.shared.entry(key)
        return entry

    def owns(self, entry: EntryLike) -> bool:
        """Whether ``entry`` is in this store and not in the shared one behind it."""
        return self.shared is None or os.path.isfile(self.metadata(entry))

    def damage(self, entry: CacheEntry) -> str:
        """Why the payload of ``entry`` cannot be used, at a quick look; empty where it can.

        Metadata in a copied home names the payload of the original, which no lock here protects.
        """
        if not self.owns(entry) and self.shared is not None:
            return self.shared.damage(entry)
        return cache_entry.damage(entry) or cache_entry.misplaced(entry, self.place("store"))

    def has(self, entry: EntryLike) -> bool:
        """Whether ``entry`` still exists since it was read."""
        there = os.path.isfile(self.metadata(entry))
        return there or (self.shared is not None and self.shared.has(entry))

    def _read(self, path: str) -> CacheEntry | None:
        uid = os.path.basename(path).removesuffix(".json")
        known = self._entries.get(uid)
        if known is not None:
            return known
        try:
            entry = decode(unsealed(read_plain_file(path).decode()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        if not path.endswith(f"{os.sep}{entry.key}.json"):
            return None
        self._entries[uid] = entry
        return entry

    def metadata(self, entry: EntryLike) -> str:
        """Where the metadata of an entry of this store is."""
        return self.place("entries", entry.identity, entry.uid + ".json")

    @contextmanager
    def running(self, directory: str) -> Iterator[None]:
        """Mark the run that works in ``directory`` as alive, in the shared store too."""
        reading = self.shared.reading() if self.shared else nullcontext()
        try:
            with self.live.running(directory), reading:
                yield
        finally:
            self.staging.sweep_retired()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep payloads on the disk that others remove meanwhile; nothing is written for that."""
        with self.live.readers.reading(), self.shared.reading() if self.shared else nullcontext():
            yield

    def publish(self, entry: CacheEntry, replaces: Sequence[CacheEntry] = ()) -> None:
        """Make ``entry`` visible in one step; then remove the entries it replaces."""
        entry = _newest(self, entry)
        directory = self.place("entries", entry.identity)
        final = self.metadata(entry)
        draft = os.path.join(directory, f".{entry.uid}")
        from dataclasses import asdict

        try:
            write_in(directory, draft, sealed(json.dumps(asdict(entry))))
            os.rename(draft, final)
        except OSError as problem:
            with suppress(OSError):
                os.unlink(draft)
            raise disk_error(problem, final) from None
        self._entries[entry.uid] = entry
        pinned = self.pins.uids()
        for old in replaces:
            if old.uid not in pinned:
                self.remove(old)

    def keep_files(self, uid: str, files: Mapping[str, Any]) -> None:
        """Store what the payload of a future entry holds; raises ``OSError``."""
        os.makedirs(self.place("files"), exist_ok=True)
        write(self.place("files", uid + ".json"), sealed(json.dumps({"files": files})))

    def files(self, entry: CacheEntry) -> Mapping[str, Any] | None:
        """What the payload held when it was published, or ``None`` where that is not known."""
        if not self.owns(entry) and self.shared is not None:
            return self.shared.files(entry)
        path = self.place("files", entry.uid + ".json")
        try:
            states: Mapping[str, Any] = unsealed(read_plain_file(path).decode())["files"]
        except (OSError, ValueError, KeyError):
            return None
        # The states that ``inventory.survey`` returns: a size, a time and a digest, or a link.
        is_valid = isinstance(states, dict) and all(map(is_file_state, states.values()))
        return states if is_valid else None

    def touch(self, entry: EntryLike) -> None:
        """Remember that ``entry`` was used now."""
        if self.owns(entry):
            with suppress(OSError):
                os.utime(self.metadata(entry))

    def last_used(self, entry: EntryLike) -> float:
        """Seconds since the epoch of the last use."""
        if not self.owns(entry) and self.shared is not None:
            return self.shared.last_used(entry)
        try:
            return os.stat(self.metadata(entry)).st_mtime
        except OSError:
            return entry.created

    def remove(self, entry: EntryLike) -> None:
        """Remove an entry, its payload once it is not in use; one of the shared store stays."""
        if not self.owns(entry):
            return
        try:
            self.staging.retire(entry.uid, self.metadata(entry))
        finally:
            self._entries.pop(entry.uid, None)
        with suppress(OSError):
            os.rmdir(self.place("entries", entry.identity))
        self.pins.remove(entry.uid)
        self.staging.remove_retired(entry.uid)


def _newest(store: CacheStore, entry: CacheEntry) -> CacheEntry:
    """``entry``, made after all that it may be compared with, whatever the clock says."""
    others: Sequence[EntryLike] = store.candidates(entry.identity)
    if entry.name:
        others = store.listed(lambda other: other.script_uid == entry.script_uid)
    latest = max((other.created for other in others), default=0.0)
    return entry if latest < entry.created else replace(entry, created=latest + 0.001)
