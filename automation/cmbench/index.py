"""Repositories to scripts: a SQLite index keyed by path, time and size, and tag look-up in memory.

A look-up costs one ``stat`` per script directory and per meta file; only what changed is read
again. Apart from that, rows stay as the database has them until somebody asks for more. Many
processes may read and write the index at once; it is a cache of what is on disk, so a damaged or
read-only index only costs time.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cmbench.dialect import Dialect, dialect_of
from cmbench.errors import Error
from cmbench.meta import META_FILES, check, parse_script, read_meta, tags_of
from cmbench.model import Script, Tags
from cmbench.values import immutable

_SCHEMA = """
create table if not exists scripts(
    path text primary key, stamp text, alias text, uid text, tags text, variations text,
    sort integer, meta text, faults text);
create table if not exists contents(path text primary key, stamp text, digest text, words text);
pragma user_version = 1;
"""
_LISTED = "path, stamp, alias, uid, tags, variations, sort, faults"
_IGNORED = re.compile(
    r"(^|/)(__pycache__|tests|detection_test\.yaml|\.[^/]*|README[^/]*|COPYRIGHT[^/]*|[^/]*\.(md|pyc))$"
)
_SHELL_WORD = re.compile(rb"(?:\$\{?[#!]?|\bprintenv\s+)([A-Za-z_][A-Za-z0-9_]*)")
_OS_WORD = re.compile(rb"(?:environ(?:\.get\(|\[)|getenv\()\s*['\"](\w+)['\"]")
_ENV_WORD = re.compile(rb"\b(?:CM|MLC)_[A-Z0-9_]+")


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Repository:
    """A registered repository; ``own`` marks this project's, whose scripts must be faultless."""

    alias: str
    path: str
    own: bool = False


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Row:
    """What the index knows of one script without its whole meta; the last two are JSON."""

    path: str
    repo: str
    alias: str
    uid: str
    tags: frozenset[str]
    sort: int
    meta_name: str
    variations_text: str
    faults_text: str

    @property
    def variations(self) -> frozenset[str]:
        """Names of the variations, without their underscore."""
        return frozenset(json.loads(self.variations_text))

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with its meta."""
        return () if self.faults_text == "[]" else tuple(json.loads(self.faults_text))

    def accepts(self, variation: str) -> bool:
        """Whether ``variation`` exists here, exactly or as a dynamic one (``name.#``)."""
        if json.dumps(variation) in self.variations_text:
            return True
        head, dot, tail = variation.partition(".")
        return bool(dot and tail) and json.dumps(f"{head}.#") in self.variations_text


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Content:
    """Digest of a script's own files, their names, the env words that its programs may read.

    A word ``os:NAME`` is a variable of the process that ``customize.py`` itself looks at.
    """

    digest: str
    words: tuple[str, ...]
    names: tuple[str, ...]


class Index:
    """All scripts of ``repositories``. With ``write`` false nothing on disk is changed."""

    def __init__(
        self, repositories: Sequence[Repository], database: str, write: bool = True
    ) -> None:
        self._repositories = repositories
        self._database = database
        self._write = write
        self._connection: sqlite3.Connection | None = None
        self._rows: dict[str, Row] | None = None
        self._by_tag: dict[str, set[str]] = {}
        self._scripts: dict[str, Script] = {}
        self._dialects: dict[tuple[str, str], Dialect] = {}
        self._contents: dict[str, Content] = {}

    def rows(self) -> dict[str, Row]:
        """Every script by path, read from disk once per process."""
        if self._rows is None:
            self._rows = self._refresh()
            for path, row in self._rows.items():
                for tag in row.tags:
                    self._by_tag.setdefault(tag, set()).add(path)
        return self._rows

    def find(self, tags: Tags) -> list[Row]:
        """Scripts that carry all wanted and no unwanted tags, variations not yet considered."""
        rows = self.rows()
        hits = sorted((self._by_tag.get(tag, set()) for tag in tags.wanted), key=len)
        chosen = hits[0].intersection(*hits[1:]) if hits else rows.keys()
        unwanted = set(tags.unwanted)
        found = [rows[p] for p in chosen if not unwanted & rows[p].tags]
        return sorted(found, key=lambda row: (row.sort, row.path))

    def by_uid(self, name: str) -> list[Row]:
        """Scripts whose uid or alias is ``name``."""
        return [row for row in self.rows().values() if name in (row.uid, row.alias)]

    def tags(self) -> set[str]:
        """Every tag in use."""
        self.rows()
        return set(self._by_tag)

    def script(self, path: str) -> Script:
        """The whole typed script; raises ``Error`` (``bad-meta``) for faults in our own."""
        script = self._scripts.get(path)
        if script is None:
            row = self.rows()[path]
            if row.faults and self._owner(path).own:
                raise Error(
                    "bad-meta",
                    f"{path}/meta.yaml has {_count(len(row.faults), 'fault')}",
                    context=row.faults,
                    hint="correct the keys named above",
                )
            try:
                script = parse_script(self._meta(path), path, row.repo, self.dialect(row))
            except (AttributeError, TypeError, ValueError, KeyError) as problem:
                raise Error(
                    "bad-meta",
                    f"{path}: its meta cannot be understood: {problem}",
                    context=row.faults,
                ) from problem
            self._scripts[path] = script
        return script

    def dialect(self, row: Row) -> Dialect:
        """The rules by which a script is read."""
        kind = row.repo, row.meta_name
        known = self._dialects.get(kind)
        if known is None:
            known = dialect_of(self._owner(row.path).path, row.meta_name)
            self._dialects[kind] = known
        return known

    def content(self, path: str) -> Content:
        """Digest and env words of the script's own files, cached by their times and sizes."""
        content = self._contents.get(path)
        if content is None:
            content = self._contents[path] = self._content(path)
        return content

    def close(self) -> None:
        """Release the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _owner(self, path: str) -> Repository:
        name = self.rows()[path].repo
        return next(r for r in self._repositories if r.alias == name)

    def _refresh(self) -> dict[str, Row]:
        stored: dict[str, Sequence[Any]]
        stored = {row[0]: row[1:] for row in self._query(f"select {_LISTED} from scripts")}
        found: dict[str, tuple[str, Sequence[Any]]] = {}
        changed: list[tuple[Any, ...]] = []
        for repository in self._repositories:
            for path in _script_directories(repository.path):
                known = stored.get(path)
                if known is None or not _unchanged(path, known[0]):
                    stamp = _meta_stamp(path)
                    if not stamp:
                        continue
                    fresh = self._read(path, stamp)
                    changed.append((path, *fresh))
                    known = fresh[:-1]
                found[path] = repository.alias, known
        rows = _rows(found)
        gone = [
            (path,)
            for path in stored.keys() - rows.keys()
            if any(path.startswith(r.path + os.sep) for r in self._repositories)
        ]
        if changed or gone:
            self._store(
                (
                    f"insert or replace into scripts({_LISTED}, meta) values (?,?,?,?,?,?,?,?,?)",
                    changed,
                ),
                ("delete from scripts where path = ?", gone),
            )
        return rows

    def _read(self, path: str, stamp: str) -> tuple[Any, ...]:
        try:
            meta = read_meta(path)
            faults = [f"{fault.where}: {fault.message}" for fault in check(meta)]
        except Error as error:
            meta, faults = {}, [error.message]
        tags = tags_of(meta)
        return (
            stamp,
            str(meta.get("alias", os.path.basename(path))),
            str(meta.get("uid", "")),
            json.dumps(tags),
            json.dumps([str(v) for v in _mapping(meta.get("variations"))]),
            _sort(meta.get("sort")),
            json.dumps(faults),
            json.dumps(meta, default=str),
        )

    def _meta(self, path: str) -> dict[str, Any]:
        for (text,) in self._query("select meta from scripts where path = ?", (path,)):
            meta: dict[str, Any] = json.loads(text)
            return meta
        return read_meta(path)

    def _content(self, path: str) -> Content:
        files = list(_own_files(path))
        stamp = "\n".join(f"{name}:{size}:{time}" for name, size, time in files)
        names = tuple(sorted(name for name, _, _ in files))
        for known, digest, words in self._query(
            "select stamp, digest, words from contents where path = ?", (path,)
        ):
            if known == stamp:
                return Content(digest, tuple(json.loads(words)), names)
        content = _read_content(path, names)
        row = (path, stamp, content.digest, json.dumps(content.words))
        self._store(("insert or replace into contents values (?,?,?,?)", [row]))
        return content

    def _connect(self) -> sqlite3.Connection | None:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection | None:
        if not self._write:
            if not os.path.isfile(self._database):
                return None
            with suppress(sqlite3.Error):
                return sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=20)
            return None
        try:
            os.makedirs(os.path.dirname(self._database), exist_ok=True)
            connection = sqlite3.connect(self._database, timeout=20)
            if connection.execute("pragma user_version").fetchone()[0] != 1:
                connection.executescript(_SCHEMA)
            return connection
        except (sqlite3.Error, OSError):
            return None

    def _query(self, sql: str, values: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
        connection = self._connect()
        if connection is None:
            return []
        try:
            return connection.execute(sql, values).fetchall()
        except sqlite3.DatabaseError:
            self._discard()
            return []

    def _store(self, *statements: tuple[str, list[tuple[Any, ...]]]) -> None:
        connection = self._connect() if self._write else None
        if connection is None:
            return
        try:
            with connection:
                for sql, rows in statements:
                    connection.executemany(sql, rows)
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError:
            self._discard()

    def _discard(self) -> None:
        self.close()
        if self._write:
            with suppress(OSError):
                os.unlink(self._database)


def _rows(found: Mapping[str, tuple[str, Sequence[Any]]]) -> dict[str, Row]:
    # One call of the parser for the tags of all scripts: thousands of calls would cost more.
    every = json.loads(f"[{','.join(stored[3] for _, stored in found.values())}]")
    return {
        path: Row(path, repo, alias, uid, frozenset(tags), sort, _first(stamp), variations, faults)
        for (path, (repo, (stamp, alias, uid, _, variations, sort, faults))), tags in zip(
            found.items(), every, strict=True
        )
    }


def _sort(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0


def _mapping(value: Any) -> Iterable[Any]:
    return value if isinstance(value, dict) else ()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _script_directories(repository: str) -> Iterator[str]:
    root = os.path.join(repository, "script")
    try:
        with os.scandir(root) as entries:
            names = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
    except OSError:
        return
    for name in names:
        yield f"{root}/{name}"


def _meta_stamp(path: str) -> str:
    """Times and sizes of a script's meta files; of its directory, too, where others may appear."""
    directory = os.stat(path).st_mtime_ns
    parts = []
    for name in META_FILES:
        with suppress(OSError):
            parts.append(_file_stamp(path, name))
    return " ".join((str(directory), *parts)) if parts else ""


def _unchanged(path: str, stamp: str) -> bool:
    try:
        directory, *parts = stamp.split(" ")
        return directory == str(os.stat(path).st_mtime_ns) and all(
            part == _file_stamp(path, part.partition(":")[0]) for part in parts
        )
    except OSError:
        return False


def _first(stamp: str) -> str:
    """The name of the first meta file that a stamp speaks of."""
    return stamp.split(" ", 1)[1].partition(":")[0]


def _file_stamp(path: str, name: str) -> str:
    info = os.stat(f"{path}/{name}")
    return f"{name}:{info.st_size}:{info.st_mtime_ns}"


def _own_files(path: str) -> Iterator[tuple[str, int, int]]:
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(os.path.join(path, prefix)) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                name = prefix + entry.name
                if _IGNORED.search(name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(name + "/")
                elif entry.is_file():
                    info = entry.stat()
                    yield name, info.st_size, info.st_mtime_ns


def _read_content(path: str, names: tuple[str, ...]) -> Content:
    import hashlib

    digest = hashlib.sha256()
    words: set[bytes] = set()
    for name in names:
        with open(os.path.join(path, name), "rb") as stream:
            data = stream.read()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
        if name == "customize.py":
            words |= {b"os:" + word for word in _OS_WORD.findall(data)}
        elif name not in META_FILES:
            words |= _words(name, data)
    return Content(digest.hexdigest()[:32], tuple(sorted(w.decode() for w in words)), names)


def _words(name: str, data: bytes) -> set[bytes]:
    patterns: list[Callable[[bytes], list[bytes]]] = []
    if name.endswith(".sh"):
        patterns.append(_SHELL_WORD.findall)
    if name.endswith(".py"):
        patterns.append(_OS_WORD.findall)
    if name.endswith((".sh", ".py", ".json", ".yaml", ".txt", ".c", ".cpp", ".cu")):
        patterns.append(_ENV_WORD.findall)
    return {word for find in patterns for word in find(data)}
