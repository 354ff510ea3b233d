"""A summary of the cache: all entries at once without reading all their metadata.

The short form of a metadata file is kept in a database, with the times of its folder and of the
file. What has other times, or came since, is read again: also what an older engine, or a run that
was killed, has left. So the files alone count, and the database can be thrown away.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cmbench.cache.cache_entry import CacheEntry, decode, make_identity, unsealed
from cmbench.cache.disk import read_plain_file
from cmbench.values import immutable, replace

if TYPE_CHECKING:
    from cmbench.lib.database import Database

_FORMAT = 1
_WORTH = 200
"""So many files must have been read for their short forms to be stored: less is read again."""
_SETTLED_S = 60
"""A folder that was changed so lately may change again without another time to show for it."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class EntrySummary:
    """One entry in short; lists are JSON. ``same`` is equal where two stand for each other.

    ``folder`` and ``file`` are the times in ns of the metadata's folder (0: not to be trusted) and
    of itself, which is that of the last use. Without ``script`` the metadata cannot be read.
    """

    identity: str
    uid: str
    folder: int
    file: int
    length: int
    script: str = ""
    script_uid: str = ""
    name: str = ""
    version: str = ""
    path: str = ""
    created: float = 0.0
    size: int = 0
    same: str = ""
    expires: float = 0.0
    tags_text: str = "[]"
    variations_text: str = "[]"
    deps_text: str = "[]"

    @property
    def key(self) -> str:
        """What names the entry in the store and in the entries that were made with it."""
        return f"{self.identity}/{self.uid}"

    @property
    def used(self) -> float:
        """When it was last used, in seconds since 1970."""
        return self.file / 1e9

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the entry."""
        return _items(self.tags_text)

    @property
    def variations(self) -> tuple[str, ...]:
        """Names of its variations, without their underscore."""
        return _items(self.variations_text)

    @property
    def deps(self) -> tuple[str, ...]:
        """Keys of the entries that it was made with."""
        return _items(self.deps_text)

    def needs(self, key: str) -> bool:
        """Whether it was made with the entry of that key."""
        return f'"{key}"' in self.deps_text

    def has_tags(self, tags: Iterable[str]) -> bool:
        """Whether it carries all ``tags``."""
        # A text may look like a tag inside another one that has a quotation mark in it.
        for tag in tags:
            if json.dumps(tag) not in self.tags_text or tag not in self.tags:
                return False
        return True


def _items(text: str) -> tuple[str, ...]:
    """The texts of a JSON list of them."""
    if text == "[]":
        return ()
    # Those of a hundred thousand entries are plain, and so many calls of the parser take longer.
    return tuple(json.loads(text) if "\\" in text else text[2:-2].split('", "'))


_COLUMNS = tuple(EntrySummary.__annotations__)
_SCHEMA = (
    "drop table if exists entries",
    f"create table entries({', '.join(_COLUMNS)}, primary key (identity, uid)) without rowid",
)
_Folders = dict[str, list[EntrySummary]]
Where = Callable[[EntrySummary], bool]


class Listing:
    """The entries whose metadata is below the folder ``entries``, told by ``database`` and read.

    With ``once`` the files are looked at for the first question only.
    """

    def __init__(self, entries: str, database: str, once: bool = False) -> None:
        self._entries = entries
        self._database = database
        self._once = once
        self._has_looked = False
        self._unsaved: set[str] = set()
        self._folders: _Folders | None = None

    def as_it_is_now(self) -> Listing:
        """Return the same for a caller that lists entries once."""
        now = Listing(self._entries, self._database, once=True)
        now._folders, now._has_looked = self._folders, self._once and self._has_looked
        return now

    def rows(self, where: Where = bool) -> list[EntrySummary]:
        """All entries that can be read, or those for which ``where`` is true."""
        return [row for row in self.everything(where) if row.script]

    def everything(self, where: Where = bool) -> list[EntrySummary]:
        """The same with the files of unreadable metadata."""
        if self._folders is None or not (self._once and self._has_looked):
            self._folders = self._refreshed()
            self._has_looked = True
        rows = (row for rows in self._folders.values() for row in rows)
        selected = [row for row in rows if not row.script or where(row)]
        current = [row for row in self._as_they_are(selected) if not row.script or where(row)]
        if len(self._unsaved) >= _WORTH:
            self._save({name: self._folders.get(name, []) for name in self._unsaved})
        return current

    def _as_they_are(self, chosen: Iterable[EntrySummary]) -> Iterator[EntrySummary]:
        """What the files are now whose folders have not changed: used since, or edited by hand."""
        try:
            root = _open_folder(self._entries)
        except OSError:
            return
        try:
            for row in chosen:
                if _is_same(root, row):
                    yield row
                else:
                    yield from self._read_again(root, row)
        finally:
            os.close(root)

    def _read_again(self, root: int, row: EntrySummary) -> Iterator[EntrySummary]:
        assert self._folders is not None
        before = self._folders[row.identity]
        with suppress(OSError):
            # The time of the folder is that of the look before: what came since is found next time.
            rows = _read_folder(root, row.identity, row.folder, before)
            self._folders[row.identity] = rows
            self._unsaved.add(row.identity)
            yield from (now for now in rows if now.uid == row.uid)

    def _refreshed(self) -> _Folders:
        cached = self._folders
        if cached is None:
            cached = _stored(self._made()) if os.path.isfile(self._database) else {}
        try:
            root = _open_folder(self._entries)
        except OSError:
            return {}
        try:
            folders = dict(_looked_at(root, cached))
        finally:
            os.close(root)
        changed = [name for name, rows in folders.items() if rows is not cached.get(name)]
        self._unsaved.update(changed, cached.keys() - folders.keys())
        if len(self._unsaved) >= _WORTH:
            self._save({name: folders.get(name, []) for name in self._unsaved})
        return folders

    def _made(self) -> Database:
        from cmbench.lib.database import Database

        return Database(self._database, _FORMAT, _SCHEMA)

    def _save(self, changed: _Folders) -> None:
        database = self._made()
        rows = [[getattr(row, c) for c in _COLUMNS] for rows in changed.values() for row in rows]
        database.store(
            ("delete from entries where identity = ?", [(name,) for name in changed]),
            (f"insert into entries values ({','.join('?' * len(_COLUMNS))})", rows),
        )
        database.close()
        self._unsaved.clear()


def _open_folder(path: str, root: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)


def _stored(database: Database) -> _Folders:
    folders: _Folders = {}
    for values in database.query(f"select {', '.join(_COLUMNS)} from entries"):
        folders.setdefault(values[0], []).append(EntrySummary(*values))
    database.close()
    return folders


def _looked_at(root: int, known: _Folders) -> Iterator[tuple[str, list[EntrySummary]]]:
    """Yield the folders of the open folder ``root`` with their present entries."""
    now = time.time_ns()
    for name in os.listdir(root):
        before = known.get(name, [])
        with suppress(OSError):
            folder = os.stat(name, dir_fd=root).st_mtime_ns
            if not before or any(row.folder != folder for row in before):
                settled = now - folder > _SETTLED_S * 1_000_000_000
                rows = _read_folder(root, name, folder if settled else 0, before)
                # The same list says that nothing has to be stored.
                before = before if list(map(id, rows)) == list(map(id, before)) else rows
            yield name, before


def _is_same(root: int, row: EntrySummary) -> bool:
    """Whether the file is still the one that was read."""
    try:
        info = os.stat(f"{row.identity}/{row.uid}.json", dir_fd=root)
    except OSError:
        return False
    return info.st_mtime_ns == row.file and info.st_size == row.length and bool(row.script)


def _read_folder(
    root: int, name: str, folder: int, before: Iterable[EntrySummary]
) -> list[EntrySummary]:
    cached = {row.uid: row for row in before if row.script}
    handle = _open_folder(name, root)
    try:
        files = [file for file in os.listdir(handle) if file.endswith(".json")]
        rows = (_read_file(handle, name, file, folder, cached) for file in files)
        return [row for row in rows if row is not None]
    finally:
        os.close(handle)


def _read_file(
    handle: int, identity: str, file: str, folder: int, known: Mapping[str, EntrySummary]
) -> EntrySummary | None:
    """One entry; ``None`` where it has gone meanwhile."""
    uid = file.removesuffix(".json")
    try:
        info = os.stat(file, dir_fd=handle)
        times = folder, info.st_mtime_ns, info.st_size
        row = known.get(uid)
        if row is not None and (row.file, row.length) == times[1:]:
            return row if row.folder == folder else replace(row, folder=folder)
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            entry = decode(unsealed(read_plain_file(file, handle).decode()))
            if (entry.identity, entry.uid) == (identity, uid):
                return _short(entry, *times)
    except FileNotFoundError:
        return None
    return EntrySummary(identity, uid, *times)


def _short(entry: CacheEntry, folder: int, file: int, length: int) -> EntrySummary:
    values: dict[str, Any] = {
        name: getattr(entry, name)
        for name in (
            "script",
            "script_uid",
            "name",
            "version",
            "path",
            "created",
            "size",
            "expires",
        )
    }
    for name in ("tags", "variations", "deps"):
        values[f"{name}_text"] = json.dumps(getattr(entry, name))
    same = make_identity(entry.identity, entry.name, entry.reads, entry.facts, entry.deps)
    return EntrySummary(entry.identity, entry.uid, folder, file, length, same=same, **values)
