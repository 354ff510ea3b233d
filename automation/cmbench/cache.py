"""The cache: what makes an entry, how one is published, found, checked and removed.

Layout below the store's root (the version is part of the path, formats never change in place)::

    v1/store/<script>_<uid>/      payload of one entry, at the path it keeps for ever
    v1/entries/<identity>/<uid>.json   its metadata: an entry exists when, and only when, this does
    v1/staging/<uid>.json         locked by the run that makes the entry; swept when it is dead
    v1/staging/0-<run>.json       locked by a run while it lives; sorts before its entries
    v1/locks/                     one lock file per identity or named resource, held by ``flock``

A step works at the entry's final path, so that absolute paths in what it makes stay true; nothing
can see the entry until one atomic rename puts its metadata in place.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from cmbench.errors import Error
from cmbench.lib import orphans
from cmbench.values import immutable

FORMAT = 1
DRAFT_SECONDS = 60
_DRAFT = ".new"


@dataclass(frozen=True, slots=True)
class Reliance:
    """A file outside the entry that must still be there and unchanged."""

    path: str
    size: int
    mtime_ns: int


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Entry:
    """Everything known of one complete cache entry."""

    uid: str
    identity: str
    script: str
    script_uid: str
    tags: tuple[str, ...]
    variations: tuple[str, ...]
    version: str
    path: str
    reads: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    deps: tuple[str, ...] = ()
    relies_on: tuple[Reliance, ...] = ()
    new_env: Mapping[str, Any] = field(default_factory=dict)
    new_state: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    created: float = 0.0
    seconds: float = 0.0
    size: int = 0
    run: str = ""

    @property
    def key(self) -> str:
        """What names this entry in the store and in the entries that were made with it."""
        return f"{self.identity}/{self.uid}"


def make_identity(*parts: Any) -> str:
    """A key from everything that says what a step is."""
    import hashlib

    text = json.dumps(parts, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def reliance(path: str) -> Reliance:
    """The present state of a file that an entry relies on; raises ``OSError``."""
    info = os.stat(path)
    return Reliance(path, info.st_size, info.st_mtime_ns)


def relied_on_change(item: Reliance) -> str:
    """Why ``item`` no longer holds, or an empty string."""
    try:
        now = reliance(item.path)
    except OSError:
        return f"{item.path} is gone"
    return "" if now == item else f"{item.path} has changed"


class Staging:
    """A private directory in which one entry is being made."""

    def __init__(self, store: Store, path: str, uid: str, record: int) -> None:
        self.path = path
        self.uid = uid
        self._store = store
        self._record = record

    def discard(self) -> None:
        """Remove everything made so far, unless it has just become an entry."""
        if not self._store.published(self.uid):
            remove_tree(self.path)
        self._release()

    def keep(self) -> None:
        """Let go of a directory whose entry has been published."""
        self._release()

    def _release(self) -> None:
        with suppress(OSError):
            os.unlink(self._store.place("staging", self.uid + ".json"))
        os.close(self._record)


class Store:
    """One cache on one file system, used by any number of processes."""

    def __init__(self, root: str) -> None:
        self.root = os.path.join(root, f"v{FORMAT}")
        self._entries: dict[str, Entry] = {}

    def place(self, *parts: str) -> str:
        """A path inside the store."""
        return os.path.join(self.root, *parts)

    def candidates(self, identity: str) -> list[Entry]:
        """Entries of one identity, the newest first."""
        return self._read_directory(self.place("entries", identity))

    def entries(self) -> list[Entry]:
        """All entries, the newest first; unreadable metadata is passed over."""
        found: list[Entry] = []
        with suppress(OSError), os.scandir(self.place("entries")) as identities:
            for item in identities:
                found += self._read_directory(item.path)
        return sorted(found, key=lambda entry: -entry.created)

    def entry(self, key: str) -> Entry | None:
        """The entry of that key, or ``None`` when it is gone."""
        path = self.place("entries", key + ".json")
        return self._read(path) if os.path.isfile(path) else None

    def published(self, uid: str) -> bool:
        """Whether an entry ``uid`` is visible."""
        try:
            identities = os.listdir(self.place("entries"))
        except OSError:
            return False
        return any(os.path.isfile(self.place("entries", i, uid + ".json")) for i in identities)

    def _read_directory(self, path: str) -> list[Entry]:
        try:
            names = [name for name in os.listdir(path) if name.endswith(".json")]
        except OSError:
            return []
        found = [entry for name in names if (entry := self._read(os.path.join(path, name)))]
        return sorted(found, key=lambda entry: -entry.created)

    def _read(self, path: str) -> Entry | None:
        uid = os.path.basename(path).removesuffix(".json")
        known = self._entries.get(uid)
        if known is not None:
            return known
        try:
            with open(path, encoding="utf-8") as stream:
                entry = _decode(json.load(stream))
        except (OSError, ValueError, TypeError, KeyError):
            return None
        self._entries[uid] = entry
        return entry

    def _metadata(self, entry: Entry) -> str:
        return self.place("entries", entry.identity, entry.uid + ".json")

    def stage(self, script: str) -> Staging:
        """A new private directory at the final path of a future entry."""
        uid = os.urandom(8).hex()
        path = self.place("store", f"{script}_{uid}")
        try:
            os.makedirs(self.place("staging"), exist_ok=True)
            record = self._claim(uid, path)
            os.makedirs(path)
        except OSError as problem:
            raise disk_error(problem, path) from None
        return Staging(self, path, uid, record)

    @contextmanager
    def running(self, directory: str) -> Iterator[None]:
        """Mark the run that works in ``directory`` as alive; a later sweep sees when it died."""
        name = "0-" + os.path.basename(directory)
        try:
            os.makedirs(self.place("staging"), exist_ok=True)
            record = self._claim(name, directory)
        except OSError as problem:
            raise disk_error(problem, directory) from None
        try:
            yield
        finally:
            with suppress(OSError):
                os.unlink(self.place("staging", name + ".json"))
            os.close(record)

    def _claim(self, name: str, path: str) -> int:
        final = self.place("staging", name + ".json")
        draft = final + _DRAFT
        record = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(record, fcntl.LOCK_EX)
        os.write(record, json.dumps({"path": path, **owner()}).encode())
        os.rename(draft, final)
        return record

    def publish(self, entry: Entry, replaces: Sequence[Entry] = ()) -> None:
        """Make ``entry`` visible in one step; then remove the entries it replaces."""
        directory = self.place("entries", entry.identity)
        final = self._metadata(entry)
        draft = os.path.join(directory, f".{entry.uid}.{os.getpid()}")
        try:
            os.makedirs(directory, exist_ok=True)
            with open(draft, "w", encoding="utf-8") as stream:
                json.dump(asdict(entry), stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(draft, final)
        except OSError as problem:
            with suppress(OSError):
                os.unlink(draft)
            raise disk_error(problem, final) from None
        self._entries[entry.uid] = entry
        for old in replaces:
            self.remove(old)

    def touch(self, entry: Entry) -> None:
        """Remember that ``entry`` was used now."""
        with suppress(OSError):
            os.utime(self._metadata(entry))

    def last_used(self, entry: Entry) -> float:
        """Seconds since the epoch of the last use."""
        try:
            return os.stat(self._metadata(entry)).st_mtime
        except OSError:
            return entry.created

    def remove(self, entry: Entry) -> None:
        """Remove an entry: its metadata first, so that it is never seen without its payload."""
        try:
            os.unlink(self._metadata(entry))
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise disk_error(problem, self._metadata(entry)) from None
        self._entries.pop(entry.uid, None)
        if os.path.dirname(entry.path) == self.place("store"):
            remove_tree(entry.path)
        with suppress(OSError):
            os.rmdir(self.place("entries", entry.identity))

    def sweep(self) -> int:
        """Remove what dead runs left half-made; returns how many directories that were."""
        try:
            names = sorted(os.listdir(self.place("staging")))
        except OSError:
            return 0
        return sum(self._sweep_one(self.place("staging", name)) for name in names)

    def _sweep_one(self, path: str) -> int:
        try:
            if path.endswith(_DRAFT) and time.time() - os.stat(path).st_mtime < DRAFT_SECONDS:
                return 0
            record = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(ValueError, OSError, AttributeError):
                self._clear(json.loads(os.read(record, 65536)).get("path", ""))
            with suppress(OSError):
                os.unlink(path)
            return 1
        except OSError:
            return 0
        finally:
            os.close(record)

    def _clear(self, path: str) -> None:
        """End what a dead run has left running, or remove what it has left half-made."""
        if os.path.dirname(path) != self.place("store"):
            orphans.end("CM_TMP_RUN_DIR", path)
        elif not self.published(path.rpartition("_")[2]):
            remove_tree(path)

    @contextmanager
    def lock(self, name: str, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock ``name`` across processes; ``waiting`` is told once who holds it."""
        path = self.place("locks", make_identity(name))
        handle = self._acquire(path, waiting)
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps({"name": name, **owner()}).encode(), 0)
            yield
        finally:
            with suppress(OSError):
                os.unlink(path)
            os.close(handle)

    def _acquire(self, path: str, waiting: Callable[[str], None]) -> int:
        told = False
        while True:
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as problem:
                raise disk_error(problem, path) from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    waiting(_holder(handle))
                    told = True
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _same_file(handle, path):
                return handle
            os.close(handle)


def owner() -> dict[str, Any]:
    """Who we are, so that others can say for whom they wait."""
    return {"host": os.uname().nodename, "pid": os.getpid(), "since": time.time()}


def remove_tree(path: str) -> None:
    """Remove a directory tree as far as that is possible."""
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def _holder(handle: int) -> str:
    try:
        data = json.loads(os.pread(handle, 65536, 0))
        return f"process {data['pid']} on {data['host']}"
    except (OSError, ValueError, KeyError):
        return "another run"


def _same_file(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _decode(data: dict[str, Any]) -> Entry:
    known = {f.name for f in fields(Entry)}
    values = {key: value for key, value in data.items() if key in known}
    for key in ("tags", "variations", "deps"):
        values[key] = tuple(values.get(key) or ())
    values["relies_on"] = tuple(Reliance(**item) for item in values.get("relies_on") or ())
    return Entry(**values)


def disk_error(problem: OSError, path: str) -> Error:
    """An ``OSError`` of the store in words a user can act on."""
    import errno

    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return Error(
            "no-space",
            f"no space left to write {path}",
            hint="make room, or keep the cache elsewhere: export CM_REPOS=/path/with/space",
            context=(str(problem),),
        )
    if problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return Error(
            "not-writable",
            f"cannot write {path}: {problem.strerror}",
            hint="check its owner, or keep the cache elsewhere: export CM_REPOS=/your/path",
        )
    return Error("file-error", f"{path}: {problem.strerror or problem}")


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
