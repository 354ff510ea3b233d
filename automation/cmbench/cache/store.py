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
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from cmbench.cache import cache_entry, records
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
from cmbench.cache.disk import disk_error, read_at_once, remove_tree, write, write_in
from cmbench.cache.field_types import is_file_state
from cmbench.cache.staging import Staging
from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.values import replace

if TYPE_CHECKING:
    from cmbench.cache.listing import EntrySummary, Listing, Where

__all__ = [
    "DRAFT_SECONDS",
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
DRAFT_SECONDS = 60
_GONE = "gone-"
_RUN = "0-"
_READER = "reader-"


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
        self._readers = records.Readers(self.root)
        self._entries: dict[str, CacheEntry] = {}
        self._identities: frozenset[str] | None = None
        self.wait_for: Callable[[int], None] = locks.lock

    def as_it_is_now(self) -> CacheStore:
        """The store for a plan, which looks once at what there is and not again for every step."""
        now = CacheStore.__new__(CacheStore)
        now.root, now._entries = self.root, self._entries
        now.wait_for, now._readers = self.wait_for, self._readers
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
        entries = []
        if self._identities is None or identity in self._identities:
            entries = self._read_directory(self.place("entries", identity))
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

    def published(self, uid: str) -> bool:
        """Whether an entry ``uid`` is visible."""
        try:
            identities = os.listdir(self.place("entries"))
        except OSError:
            return False
        return any(os.path.isfile(self.place("entries", i, uid + ".json")) for i in identities)

    def _read_directory(self, path: str) -> list[CacheEntry]:
        try:
            names = [name for name in os.listdir(path) if name.endswith(".json")]
        except OSError:
            return []
        return [entry for name in names if (entry := self._read(os.path.join(path, name)))]

    def _read(self, path: str) -> CacheEntry | None:
        uid = os.path.basename(path).removesuffix(".json")
        known = self._entries.get(uid)
        if known is not None:
            return known
        try:
            entry = decode(unsealed(read_at_once(path).decode()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        if not path.endswith(f"{os.sep}{entry.key}.json"):
            return None
        self._entries[uid] = entry
        return entry

    def metadata(self, entry: EntryLike) -> str:
        """Where the metadata of an entry of this store is."""
        return self.place("entries", entry.identity, entry.uid + ".json")

    def stage(self, script: str, uid: str = "") -> Staging:
        """A new private directory at the final path of a future entry.

        With ``uid`` it is that of an imported entry, and replaces an existing one.
        """
        is_import = bool(uid)
        uid = uid or os.urandom(8).hex()
        path = self.place("store", f"{script}_{uid}")
        try:
            os.makedirs(self.place("staging"), exist_ok=True)
            record = self._claim(uid, path)
        except OSError as problem:
            raise disk_error(problem, path) from None
        staging = Staging(path, uid, self.place("staging", uid + ".json"), record, self.clear)
        try:
            if is_import:
                self._make_way(uid, path)
            os.makedirs(path)
        except OSError as problem:
            staging.keep()
            raise disk_error(problem, path) from None
        except Error:
            staging.keep()
            raise
        return staging

    def _make_way(self, uid: str, path: str) -> None:
        """Take away what an entry of that uid has left; raises ``cannot-import`` where it is used.

        Its future place is announced already, so nothing takes it away behind us.
        """
        if self._is_leaving(uid):
            self._sweep_one(self.place("staging", f"{_GONE}{uid}.json"))
        if self._is_leaving(uid):
            raise Error(
                "cannot-import",
                f"{path} was removed, but a current run may still use its files",
                hint="repeat the command after that run",
            )
        if not self.published(uid):
            remove_tree(path)

    @contextmanager
    def running(self, directory: str) -> Iterator[None]:
        """Mark the run that works in ``directory`` as alive; a later sweep sees when it died."""
        name = _RUN + os.path.basename(directory)
        try:
            os.makedirs(self.place("staging"), exist_ok=True)
            record = self._claim(name, directory)
        except OSError as problem:
            raise disk_error(problem, directory) from None
        try:
            with self.shared.reading() if self.shared else nullcontext():
                yield
        finally:
            with suppress(OSError):
                os.unlink(self.place("staging", name + ".json"))
            os.close(record)
            self.sweep(_GONE)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep payloads on the disk that others remove meanwhile; nothing is written for that."""
        with self._readers.reading(), self.shared.reading() if self.shared else nullcontext():
            yield

    def _claim(self, name: str, path: str) -> int:
        final = self.place("staging", name + ".json")
        draft = final + records.DRAFT
        record = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            locks.lock(record)
            records.write_over(record, {"path": path})
            os.rename(draft, final)
        except OSError:
            os.close(record)
            with suppress(OSError):
                os.unlink(draft)
            raise
        return record

    def publish(self, entry: CacheEntry, replaces: Sequence[CacheEntry] = ()) -> None:
        """Make ``entry`` visible in one step; then remove the entries it replaces."""
        entry = self._newest(entry)
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
        pinned = self.pinned()
        for old in replaces:
            if old.uid not in pinned:
                self.remove(old)

    def _newest(self, entry: CacheEntry) -> CacheEntry:
        """``entry``, made after all that it may be compared with, whatever the clock says."""
        others: Sequence[EntryLike] = self.candidates(entry.identity)
        if entry.name:
            others = self.listed(lambda other: other.script_uid == entry.script_uid)
        latest = max((other.created for other in others), default=0.0)
        return entry if latest < entry.created else replace(entry, created=latest + 0.001)

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
            states: Mapping[str, Any] = unsealed(read_at_once(path).decode())["files"]
        except (OSError, ValueError, KeyError):
            return None
        # The states that ``inventory.survey`` returns: a size, a time and a digest, or a link.
        is_valid = isinstance(states, dict) and all(map(is_file_state, states.values()))
        return states if is_valid else None

    def pinned(self) -> set[str]:
        """The uids of all pinned entries."""
        try:
            return set(os.listdir(self.place("pins")))
        except OSError:
            return set()

    def pin(self, entry: CacheEntry) -> None:
        """Keep ``entry`` until it is unpinned."""
        path = self.place("pins", entry.uid)
        try:
            os.makedirs(self.place("pins"), exist_ok=True)
            write(path, entry.key)
        except OSError as problem:
            raise disk_error(problem, path) from None

    def unpin(self, uid: str) -> None:
        """Let go of the entry ``uid``; it need not exist any more."""
        path = self.place("pins", uid)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise disk_error(problem, path) from None

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
        """Remove an entry: one rename makes its metadata the record that it is to go.

        Runs that live now may have been told of it: the payload stays until they have ended. An
        entry of the shared store is left alone.
        """
        if not self.owns(entry):
            return
        gone = self.place("staging", f"{_GONE}{entry.uid}.json")
        try:
            os.makedirs(self.place("staging"), exist_ok=True)
            # Another process has removed it.
            with suppress(FileNotFoundError):
                records.move(self.metadata(entry), gone)
        except OSError as problem:
            raise disk_error(problem, self.metadata(entry)) from None
        finally:
            self._entries.pop(entry.uid, None)
        with suppress(OSError):
            os.rmdir(self.place("entries", entry.identity))
        self.unpin(entry.uid)
        self._sweep_one(gone)

    def clear_away(self, path: str) -> None:
        """Remove what belongs to no entry: a folder or a file below the store's home.

        Raises ``internal`` for a path outside of it.
        """
        home = os.path.dirname(self.root) + os.sep
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

    def living(self) -> list[str]:
        """The names of the runs that are alive now."""
        try:
            names = os.listdir(self.place("staging"))
        except OSError:
            return []
        runs = (n for n in names if n.startswith(_RUN) and not n.endswith(records.DRAFT))
        return sorted(name for name in runs if self._alive(name))

    def _alive(self, name: str) -> bool:
        try:
            if name.startswith(_READER):
                return self._readers.is_held(name.removeprefix(_READER))
            return locks.is_held(self.place("staging", name))
        except OSError:
            return True

    def sweep(self, start: str = "") -> int:
        """Remove what dead runs left half-made; returns how many directories that were."""
        try:
            names = sorted(n for n in os.listdir(self.place("staging")) if n.startswith(start))
        except OSError:
            return 0
        return sum(self._sweep_one(self.place("staging", name)) for name in names)

    def _sweep_one(self, path: str) -> int:
        try:
            young = abs(time.time() - os.stat(path).st_mtime) < DRAFT_SECONDS
            if path.endswith(records.DRAFT) and young:
                return 0
            record = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            if not locks.try_lock(record) or not locks.is_still(record, path):
                return 0
            return int(self._finish(path, records.content(record)))
        except OSError:
            return 0
        finally:
            os.close(record)

    def _finish(self, path: str, data: Mapping[str, Any]) -> bool:
        """Do what the locked record ``path`` leaves to do, and drop it; whether that could be."""
        if os.path.basename(path).startswith(_GONE):
            if not self._is_unused(path, data):
                return False
            # Damaged metadata says nothing. An older engine wrote the record, then took the entry.
            if data["path"] and (data["identity"] or not self.published(_uid(path))):
                self._drop(self.place("store", os.path.basename(data["path"])))
        else:
            self.clear(data["path"])
        with suppress(OSError):
            os.unlink(path)
        return True

    def _is_unused(self, path: str, data: Mapping[str, Any]) -> bool:
        """Whether all runs that may know the removed entry have ended."""
        after = data["after"]
        if after is None:
            uid = _uid(path)
            if data["identity"]:
                # A removal to another disk may have been cut short.
                with suppress(FileNotFoundError):
                    os.unlink(self.place("entries", data["identity"], uid + ".json"))
            # Only now: a run that starts from here on cannot find the entry any more.
            after = [*self.living(), *(f"{_READER}{name}" for name in self._readers.held())]
            if after:
                # Where this cannot be written, the payload waits for those who come later too.
                with suppress(OSError):
                    records.replace(path, {**data, "after": after})
                self._readers.renew()
        return not any(self._alive(name) for name in after)

    def clear(self, path: str) -> None:
        """End what a dead run has left running, or remove what was left half-made."""
        if os.path.dirname(path) != self.place("store"):
            if path:
                from cmbench.lib import orphans

                orphans.end(path)
            return
        uid = _uid(path)
        # In this order: an entry that is published now may be removed, and wait, a moment later.
        if not self.published(uid) and not self._is_leaving(uid):
            self._drop(path)
            with suppress(OSError):
                for identity in os.listdir(self.place("entries")):
                    with suppress(OSError):
                        os.unlink(self.place("entries", identity, f".{uid}"))

    def _is_leaving(self, uid: str) -> bool:
        """Whether an entry ``uid`` was removed whose payload waits for the runs that use it."""
        return os.path.exists(self.place("staging", f"{_GONE}{uid}.json"))

    def _drop(self, path: str) -> None:
        remove_tree(path)
        with suppress(OSError):
            os.unlink(self.place("files", _uid(path) + ".json"))

    @contextmanager
    def lock(self, name: str, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock ``name`` across processes; call ``waiting`` once with its holder."""
        path = self.place("locks", make_identity(name))
        handle = self._acquire(path, waiting)
        try:
            # It only tells others for whom they wait; a full disk must not keep gc from its work.
            with suppress(OSError):
                records.write_over(handle, {"name": name})
            yield
        finally:
            locks.release(path, handle)

    def _acquire(self, path: str, waiting: Callable[[str], None]) -> int:
        is_reported = False

        def wait(handle: int) -> None:
            nonlocal is_reported
            if not is_reported:
                waiting(records.holder(handle))
                is_reported = True
            self.wait_for(handle)

        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return locks.acquire(path, wait)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise disk_error(problem, path) from None


def _uid(path: str) -> str:
    """The uid that the name of a payload or of a record ends with."""
    return re.split("[_-]", os.path.basename(path).removesuffix(".json"))[-1]
