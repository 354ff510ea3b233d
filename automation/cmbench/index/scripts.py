"""Repositories to scripts: a SQLite index keyed by path, time and size, and tag look-up in memory.

A look-up costs one ``stat`` per script directory and per meta file; only what changed is read
again. Apart from that, rows stay as the database has them until somebody asks for more. Many
processes may read and write the index at once; it is a cache of what is on disk, so a damaged or
read-only index only costs time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.format.dialect import Dialect, dialect_of
from cmbench.format.meta import META_FILES, check, parse_script, read_meta, tags_of
from cmbench.format.model import Script, Tags
from cmbench.index.contents import ScriptContents
from cmbench.lib.database import Database
from cmbench.lib.text_files import counted, read_or_empty
from cmbench.values import immutable

_FORMAT = 10
_SCHEMA = (
    "drop table if exists scripts",
    "drop table if exists contents",
    "drop table if exists details",
    "drop table if exists libraries",
    """create table scripts(path text primary key, stamp text, alias text, uid text, tags text,
    variations text, sort integer, faults text, title text) without rowid""",
    "create table details(path text primary key, meta text, stamp text, digest text, words text)",
    "create table libraries(path text primary key, stamp text, digest text, words text)",
)
"""``scripts`` is always read as a whole, the others only for what is used."""
_SCANS = 8
"""So many look-ups go through all scripts; only for more of them a table by tags pays."""


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Repository:
    """A registered repository; ``own`` marks this project's, whose scripts must be faultless."""

    alias: str
    path: str
    own: bool = False


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ScriptRow:
    """What the index knows of one script without its whole meta; some of it as JSON."""

    repo: str
    path: str
    stamp: str
    alias: str
    uid: str
    tags_text: str
    variations_text: str
    sort: int
    faults_text: str
    title: str

    @property
    def tags(self) -> frozenset[str]:
        """The tags that look-ups go by."""
        return frozenset(json.loads(self.tags_text))

    @property
    def variations(self) -> frozenset[str]:
        """Names of the variations, without their underscore."""
        return frozenset(json.loads(self.variations_text))

    @property
    def faults(self) -> tuple[str, ...]:
        """Return the faults of its meta."""
        return () if self.faults_text == "[]" else tuple(json.loads(self.faults_text))

    @property
    def meta_name(self) -> str:
        """The name of its first meta file."""
        return self.stamp.split(" ", 1)[1].partition(":")[0]

    def accepts(self, variation: str) -> bool:
        """Whether ``variation`` exists here, exactly or as a dynamic one (``name.#``)."""
        if json.dumps(variation) in self.variations_text:
            return True
        head, dot, tail = variation.partition(".")
        return bool(dot and tail) and json.dumps(f"{head}.#") in self.variations_text


class Index:
    """All scripts of ``repositories``. With ``write`` false nothing on disk is changed."""

    def __init__(
        self, repositories: Sequence[Repository], database: str, write: bool = True
    ) -> None:
        self._repositories = repositories
        self._database = Database(database, _FORMAT, _SCHEMA, write)
        self.contents = ScriptContents(self._database)
        self._rows: dict[str, ScriptRow] | None = None
        self._scans = 0
        self._by_tag: dict[str, set[str]] = {}
        self._scripts: dict[str, Script] = {}
        self._dialects: dict[tuple[str, str], Dialect] = {}
        self._order = {repository.alias: n for n, repository in enumerate(repositories)}

    def rows(self) -> dict[str, ScriptRow]:
        """Every script by path, read from disk once per process."""
        if self._rows is None:
            self._rows = self._refresh()
        return self._rows

    def find(self, tags: Tags) -> list[ScriptRow]:
        """Scripts that carry all wanted and no unwanted tags, variations not yet considered."""
        rows = self._with_all(tags.wanted)
        if tags.unwanted:
            unwanted = frozenset(tags.unwanted)
            rows = [row for row in rows if not unwanted & row.tags]
        return sorted(rows, key=self._rank)

    def _rank(self, row: ScriptRow) -> tuple[int, int, str]:
        return row.sort, self._order[row.repo], row.path

    def _with_all(self, wanted: Sequence[str]) -> Iterable[ScriptRow]:
        rows = self.rows()
        if not wanted:
            return rows.values()
        self._scans += 1
        if self._scans > _SCANS:
            by_tag = self._tagged()
            path_sets = sorted((by_tag.get(tag, set()) for tag in wanted), key=len)
            return [rows[path] for path in path_sets[0].intersection(*path_sets[1:])]
        matches: Iterable[ScriptRow] = rows.values()
        for tag in map(json.dumps, wanted):
            matches = [row for row in matches if tag in row.tags_text]
        # A text may look like a tag inside another one that has a quotation mark in it.
        return [row for row in matches if row.tags.issuperset(wanted)]

    def _tagged(self) -> dict[str, set[str]]:
        """Paths of scripts by tag."""
        if not self._by_tag:
            rows = self.rows()
            # One call of the parser for all scripts: thousands of calls would cost more.
            every = json.loads(f"[{','.join(row.tags_text for row in rows.values())}]")
            for path, tags in zip(rows, every, strict=True):
                for tag in tags:
                    self._by_tag.setdefault(tag, set()).add(path)
        return self._by_tag

    def by_uid(self, name: str) -> list[ScriptRow]:
        """Scripts whose uid or alias is ``name``, those of the first repository first."""
        return [row for row in self.rows().values() if name in (row.uid, row.alias)]

    def by_name(self, name: str) -> list[ScriptRow]:
        """As ``by_uid``, with ``repository:`` before it of that one alone.

        Raises ``script-not-found`` for a repository that is not there.
        """
        repo, colon, name = name.rpartition(":")
        wanted = self._repositories_named(repo) if colon else ()
        return [row for row in self.by_uid(name) if not colon or row.repo in wanted]

    def _repositories_named(self, name: str) -> set[str]:
        """Those with that alias, folder or uid; ``.`` is that of the current directory.

        Raises ``script-not-found`` where there is none.
        """
        here = os.path.realpath(os.curdir)
        aliases = {
            r.alias
            for r in self._repositories
            if name in (r.alias, r.alias.partition(" at ")[0], os.path.basename(r.path))
            or (name == "." and self.holds(r.alias, here))
        }
        aliases = aliases or {r.alias for r in self._repositories if name == _uid(r.path)}
        if not aliases:
            registered = [r.alias for r in self._repositories]
            where = "this directory is not in one" if name == "." else f'none is named "{name}"'
            raise Error(
                "script-not-found",
                f"no such repository is registered: {where}",
                hint=did_you_mean(name, registered) or f"there are: {', '.join(registered)}",
            )
        return aliases

    def holds(self, repo: str, path: str) -> bool:
        """Whether ``path``, without links in it, lies in the repository of that alias."""
        root = next(r.path for r in self._repositories if r.alias == repo)
        return f"{path}{os.sep}".startswith(f"{os.path.realpath(root)}{os.sep}")

    def tags(self) -> set[str]:
        """Every tag in use."""
        return set(self._tagged())

    def script(self, path: str) -> Script:
        """The whole typed script; raises ``Error`` (``bad-meta``) for faults in our own."""
        script = self._scripts.get(path)
        if script is None:
            row = self.rows()[path]
            if row.faults and self._owner(path).own:
                raise Error(
                    "bad-meta",
                    f"{path}/meta.yaml has {counted(len(row.faults), 'fault')}",
                    context=row.faults,
                    hint="correct the keys named above",
                )
            if "/" in row.alias or "\0" in row.alias:
                raise Error(
                    "bad-meta",
                    f'{path}/{row.meta_name}: alias: "{row.alias}" is not a name',
                    hint="write the name of the script's folder: no / may be in it",
                )
            try:
                script = parse_script(self._meta(path), path, row.repo, self.dialect(row))
            except (AttributeError, TypeError, ValueError, KeyError) as problem:
                raise Error(
                    "bad-meta",
                    f"{path}: its meta is not valid: {problem}",
                    context=row.faults,
                ) from problem
            self._scripts[path] = script
        return script

    def dialect(self, row: ScriptRow) -> Dialect:
        """The rules by which a script is read."""
        kind = row.repo, row.meta_name
        known = self._dialects.get(kind)
        if known is None:
            known = dialect_of(self._owner(row.path).path, row.meta_name)
            self._dialects[kind] = known
        return known

    def close(self) -> None:
        """Save what was learned and release the database."""
        self.contents.save()
        self._database.close()

    def _owner(self, path: str) -> Repository:
        name = self.rows()[path].repo
        return next(r for r in self._repositories if r.alias == name)

    def _refresh(self) -> dict[str, ScriptRow]:
        stored = {row[0]: row for row in self._database.query("select * from scripts")}
        rows: dict[str, ScriptRow] = {}
        changed: list[tuple[Any, ...]] = []
        metas: list[tuple[str, str]] = []
        for repository in self._repositories:
            for path, stamp in _stamps(repository.path, stored).items():
                known = stored.get(path)
                if known is None or _metas_of(known[1]) != _metas_of(stamp):
                    meta, known = _read(path, stamp)
                    changed.append(known)
                    metas.append((path, json.dumps(meta, default=str)))
                elif known[1] != stamp:
                    # The first run of a script writes its compiled form beside its sources.
                    known = (path, stamp, *known[2:])
                    changed.append(known)
                rows[path] = ScriptRow(repository.alias, *known)
        folders = tuple(repository.path + os.sep for repository in self._repositories)
        gone = [(path,) for path in stored.keys() - rows.keys() if path.startswith(folders)]
        if changed or gone:
            self._database.store(
                ("insert or replace into scripts values (?,?,?,?,?,?,?,?,?)", changed),
                ("insert or replace into details(path, meta) values (?,?)", metas),
                ("delete from scripts where path = ?", gone),
                ("delete from details where path = ?", gone),
            )
        return rows

    def _meta(self, path: str) -> dict[str, Any]:
        query = "select meta, stamp, digest, words from details where path = ?"
        for text, *content in self._database.query(query, (path,)):
            self.contents.expect(path, content)
            meta: dict[str, Any] = json.loads(text)
            return meta
        return read_meta(path)


def _read(path: str, stamp: str) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The meta of a script and its row."""
    try:
        meta = read_meta(path)
        faults = [f"{fault.where}: {fault.message}" for fault in check(meta)]
    except Error as error:
        meta, faults = {}, [error.message]
    return meta, (
        path,
        stamp,
        str(meta.get("alias", os.path.basename(path))),
        str(meta.get("uid", "")),
        json.dumps(tags_of(meta)),
        json.dumps([str(v) for v in _mapping(meta.get("variations"))]),
        _sort(meta.get("sort")),
        json.dumps(faults),
        str(meta.get("name", "")),
    )


def _sort(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0


def _mapping(value: Any) -> Iterable[Any]:
    return value if isinstance(value, dict) else ()


def _uid(repository: str) -> str:
    """The uid that a repository has in its own file."""
    from cmbench.format.meta import load_yaml

    path = os.path.join(repository, "cmr.yaml")
    return str((load_yaml(read_or_empty(path), path) or {}).get("uid") or "")


def _stamps(repository: str, stored: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return the script directories of a repository with their present stamps, sorted by name."""
    root = os.path.join(repository, "script")
    try:
        # Paths from here on are short: with thousands of scripts, looking them up is what costs.
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return {}
    stamps = {}
    try:
        with os.scandir(handle) as entries:
            names = sorted([e.name for e in entries if e.is_dir() and not e.name.startswith(".")])
        for name in names:
            path = f"{root}/{name}"
            row = stored.get(path)
            stamps[path] = _stamp(handle, name, row[1] if row else "")
        return {path: stamp for path, stamp in stamps.items() if stamp}
    finally:
        os.close(handle)


def _metas_of(stamp: str) -> str:
    """Return the part of a stamp on the meta files, without the time of their directory."""
    return stamp.partition(" ")[2]


def _stamp(root: int, name: str, previous: str) -> str:
    """Times and sizes of a script's meta files; of its directory, too, where others may appear.

    Where the directory is that of the ``previous`` stamp, its meta files are, too. Empty without
    any.
    """
    try:
        directory = str(os.stat(name, dir_fd=root).st_mtime_ns)
    except OSError:
        return ""
    before, *files = previous.split(" ")
    parts = [directory]
    for part in files if directory == before else META_FILES:
        file = part.partition(":")[0]
        try:
            info = os.stat(f"{name}/{file}", dir_fd=root)
        except OSError:
            continue
        parts.append(f"{file}:{info.st_size}:{info.st_ctime_ns}")
    return " ".join(parts) if len(parts) > 1 else ""
