"""The database of results: made from the files, in SQLite or, for many, in PostgreSQL."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.record import steps_back
from cmbench_results import read_only, schema
from cmbench_results.result_sources import ResultSource, SourceFiles
from cmbench_results.sql import sa
from cmbench_results.values import (
    ENERGY,
    PER_ACCELERATOR,
    PER_CORE,
    PER_WATT,
    POWER,
    THROUGHPUT,
    BenchmarkResult,
    combined,
    digest,
    from_json,
    rates,
    to_json,
)

SERVED = Path("crowd", "server.lock")
"""What a server of contributed results has left in a CM home."""
LATEST = "0004"
"""The revision of the tables that this code is for."""
CHUNK = 500
_SILENT_S, _WAIT_S = 2.0, 60.0
_SHORTEST = 4
"""Characters of an id that are enough: who mistypes one should not meet another result."""
_SHOWN = 80
_DISK = {
    "full": "free disk space; no kept result is lost",
    "locked": "another program is writing to it: try again",
    "readonly": "check who owns it and its folder",
    "unable to open": "check who owns it and its folder",
}
"""What to do where SQLite says one of these of its file, which is as good as it was."""
_MIGRATIONS = Path(__file__).parent / "migrations"


class _GoneError(Exception):
    """Another process has removed the source that is being read: nothing of it is stored."""


class Store:
    """One database; ``url`` is SQLAlchemy's, or empty for the file in the CM home of ``places``.

    Opening it makes the tables, or brings those of an older version up to date. Of a home that can
    only be read it is a copy. ``say`` is called with a line where another program has to be waited
    for. Raises ``no-database``, ``newer-database``.
    """

    def __init__(
        self, places: SourceFiles, url: str = "", say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.places = places
        self._say = say
        self.unread: dict[str, Error] = {}
        """What is wrong with files of sources that could not be read; ``refresh`` begins anew."""
        self._copy: TemporaryDirectory[str] | None = None
        self._file = None if url else self._own_file()
        self._engine = _engine(url, self._file)
        try:
            self._prepare()
            self._opened = self._identity()
        except sa.exc.SQLAlchemyError as problem:
            raise self._failed(problem) from None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()
        if self._copy is not None:
            self._copy.cleanup()

    def _own_file(self) -> Path:
        file = self.places.root / "index.sqlite"
        if not read_only.cannot_be_written(self.places.root):
            return file
        try:
            self._copy = read_only.copy_of(file)
        except OSError as problem:
            from cmbench.lib.files import file_error

            raise file_error(problem, file) from None
        return Path(self._copy.name, file.name)

    def replaced(self) -> bool:
        """Whether there is another file now, or another version of cmbench has changed the tables.

        Who keeps a database open for long opens it again then. Raises ``no-database``.
        """
        if self._identity() != self._opened:
            return True
        with self.reading() as connection:
            return _revision(connection) != LATEST

    def _identity(self) -> tuple[int, int] | None:
        if self._file is None:
            return None
        try:
            status = os.stat(self._file)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection whose queries see one state; raises ``no-database``."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as problem:
            raise self._failed(problem) from None

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """The same for the only writer of this moment: all of it is kept, or nothing.

        Raises ``no-database``.
        """
        with self.reading() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(20512)"))
            else:
                # The lock of a transaction that has read before it writes cannot be waited for.
                connection.exec_driver_sql("COMMIT")
                self._begin_writing(connection)
            yield connection

    def _begin_writing(self, connection: sa.Connection) -> None:
        """Wait for the lock of the file, and say so where that takes long."""
        connection.exec_driver_sql(f"PRAGMA busy_timeout={_SILENT_S * 1000:.0f}")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            return
        except sa.exc.OperationalError as problem:
            if "locked" not in str(problem.orig):
                raise
        finally:
            # The connection is used again, and nothing else on it says for whom it waits.
            connection.exec_driver_sql(f"PRAGMA busy_timeout={_WAIT_S * 1000:.0f}")
        self._say(f"waiting up to {_WAIT_S:.0f} s: another program is writing to {self._file}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def add(self, source: ResultSource, results: Iterable[BenchmarkResult]) -> int:
        """Replace the results of a source in the database by these; return how many.

        Results that several sources have are combined.
        """
        with self.writing() as connection:
            return self._put(connection, source, results)

    def take_in(self, source: ResultSource) -> int:
        """Add a source as its file has it; nothing of one that was removed meanwhile.

        Raises ``broken-results``.
        """
        try:
            with self.writing() as connection:
                many = self._put(connection, source, self.places.results(source))
                # Who removes a source takes it out of the database once its file is gone.
                if not self.places.has(source):
                    raise _GoneError
                return many
        except _GoneError:
            return 0

    def _put(
        self, connection: sa.Connection, source: ResultSource, results: Iterable[BenchmarkResult]
    ) -> int:
        before = _uids_of(connection, source)
        _put_place(connection, source)
        now: set[str] = set()
        for chunk in _chunks(results):
            now.update(_insert(connection, source, chunk))
        self._restore(connection, before - now, source)
        return len(now)

    def remove(self, source: ResultSource, uids: Iterable[str] = ()) -> int:
        """Remove a source, whose results have these ids; restore them from other sources.

        Returns how many they are.
        """
        with self.writing() as connection:
            gone = {*uids, *_uids_of(connection, source)}
            self._restore(connection, gone, source)
            connection.execute(schema.place.delete().where(schema.place.c.id == source.id))
            return len(gone)

    def forget(self, source: ResultSource) -> int:
        """Remove a source with its file; return how many results it had.

        What others say of the results of a broken one is not known: all is made anew then.
        """
        try:
            uids = [result.uid for result in self.places.results(source)]
        except Error:
            self.places.remove(source)
            gone = self.remove(source)
            self.rebuild()
            return gone
        # A database that refuses has kept all of it, as the files have: the next try is a first
        # one.
        gone = self.remove(source, uids)
        self.places.remove(source)
        if source.id in self.known():  # Another command has read the file in between.
            self.remove(source, uids)
        return gone

    def _restore(self, connection: sa.Connection, uids: set[str], without: ResultSource) -> None:
        """Remove results, and add them again as the other sources of this home have them."""
        if not uids:
            return
        _delete(connection, sorted(uids))
        for other in self.readable():
            if other.id != without.id:
                for chunk in _chunks(self.some(other, uids)):
                    _put_place(connection, other)
                    _insert(connection, other, chunk)

    def readable(self) -> list[ResultSource]:
        """Return every source whose file begins as it should; the others are in ``unread``."""
        readable, broken = self.places.readable()
        self._note(broken)
        return readable

    def some(self, source: ResultSource, uids: Set[str]) -> list[BenchmarkResult]:
        """Return the results of a source with these ids; none of a broken one, see ``unread``."""
        try:
            return [result for result in self.places.results(source) if result.uid in uids]
        except Error as error:
            self._note([error])
            return []

    def _note(self, broken: Iterable[Error]) -> None:
        self.unread.update((error.message, error) for error in broken)

    def known(self) -> dict[str, str]:
        """Return the times at which the sources in the database were added."""
        with self.reading() as connection:
            rows = connection.execute(sa.select(schema.place.c.id, schema.place.c.added))
            return {row.id: row.added for row in rows}

    def version(self) -> str:
        """Return a text that changes with the content of the database."""
        with self.reading() as connection:
            many = connection.execute(sa.select(sa.func.count()).select_from(schema.run)).scalar()
        return digest([many, sorted(self.known().items())])[:16]

    def refresh(self) -> None:
        """Bring the database to the state of the files; fills ``unread``.

        A run adds to the files only, and a command that fails or is killed may not come further.
        """
        self.unread.clear()
        added = self.known()
        self._forget(added)
        for source in self.readable():
            if added.get(source.id, "") < source.added:
                self._try(source)

    def rebuild(self) -> int:
        """Make all that comes from this home's files anew; returns the number of results.

        Rows of the sources in ``unread`` stay.
        """
        self.unread.clear()
        self.places.clear()
        readable = self.readable()
        self._forget(self.known())
        return sum(self._try(source) for source in readable)

    def _forget(self, ids: Iterable[str]) -> None:
        """Remove sources without a file; others may share a database that has a url."""
        if self._file is None or not self.places.is_listable():
            return
        for name in sorted({*ids} - self.places.ids()):
            source = ResultSource(name, "", "", "")
            if not self.places.has(source):
                self.remove(source)

    def _try(self, source: ResultSource) -> int:
        try:
            return self.take_in(source)
        except Error as error:
            if error.code != "broken-results":
                raise
            self._note([error])
            return 0

    def result(self, uid: str) -> BenchmarkResult:
        """Return the result with this id or prefix of one, or that ``last``, ``last~1`` names.

        Raises ``result-not-found``, ``ambiguous``.
        """
        if len(uid) < _SHORTEST:
            problem = f"{uid!r} is too short for the id of a result"
            raise Error("result-not-found", problem, hint=f"give {_SHORTEST} characters or more")
        with self.reading() as connection:
            matches = _uids_called(connection, uid)
            if len(matches) == 1:
                detail = schema.detail.c
                whole = sa.select(detail.result).where(detail.run_uid == matches[0])
                return _read(connection.execute(whole).scalar_one())
        if not matches:
            raise Error(
                "result-not-found",
                f"there is no result {uid[:_SHOWN]}",
                hint="see them with their ids: `cm find results`",
            )
        raise Error(
            "ambiguous",
            f"several results begin with {uid}: {', '.join(matches)}",
            hint="give more of the id",
        )

    def _prepare(self) -> None:
        with self._engine.connect() as connection:
            if _revision(connection) == LATEST:
                return
        lock = (self._file.parent if self._file else self.places.root) / "index.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = locks.acquire(lock)
        try:
            with self._engine.begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(sa.text("SELECT pg_advisory_xact_lock(20513)"))
                _migrate(connection)
        finally:
            locks.release(lock, handle)

    def _failed(self, problem: sa.exc.SQLAlchemyError) -> Error:
        lines = str(getattr(problem, "orig", None) or problem).strip().splitlines()
        of_disk = next((hint for what, hint in _DISK.items() if lines and what in lines[0]), "")
        where = str(self._file) if self._file else self._engine.url.render_as_string()
        if isinstance(problem, sa.exc.OperationalError) and self._file is None:
            hint = "check its address: --db=postgresql://user@host/name"
        elif isinstance(problem, sa.exc.DBAPIError) and self._file is not None:
            hint = of_disk or self._remedy()
        else:
            hint = "report it, with the command"
        return Error("no-database", f"{where}: {lines[0] if lines else problem}", hint=hint)

    def _remedy(self) -> str:
        """Return what to do with a file that is no database any more."""
        if (self.places.root.parent / SERVED).exists():
            return "it alone holds the uploads of a server: move it aside, restore your backup"
        return "rebuild it from the files: `cm reindex results`"


def set_aside(places: SourceFiles) -> Path | None:
    """Move a damaged database away, for a new one to be made; where it is now.

    That of a server stays: no files have what is in it. Raises what ``file_error`` gives.
    """
    file = places.root / "index.sqlite"
    if (places.root.parent / SERVED).exists() or not file.exists() or _is_whole(file):
        return None
    target = file.with_name(f"{file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        for end in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                os.rename(f"{file}{end}", f"{target}{end}")
    except OSError as problem:
        from cmbench.lib.files import file_error

        raise file_error(problem, file) from None
    return target


def _is_whole(file: Path) -> bool:
    """Return whether SQLite finds no damage; one that cannot be opened now counts as whole."""
    try:
        with closing(sqlite3.connect(file, timeout=_WAIT_S)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.OperationalError:
        return True
    except sqlite3.DatabaseError:
        return False


def _engine(url: str, file: Path | None) -> sa.Engine:
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            from cmbench.lib.files import file_error

            raise file_error(problem, file.parent) from None
        engine = sa.create_engine(
            f"sqlite:///{file}", connect_args={"timeout": _WAIT_S}, max_overflow=-1
        )
        sa.event.listen(engine, "connect", _as_we_begin)
        sa.event.listen(engine, "begin", _begin)
        return engine
    scheme, colon, rest = url.partition("://")
    if not colon or scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise Error(
            "bad-value",
            f"--db={url} is not an address of a database",
            hint="write --db=postgresql://user@host/name, or leave it out for a file of your own",
        )
    try:
        return sa.create_engine(
            f"postgresql+psycopg://{rest}", connect_args={"connect_timeout": 10}
        )
    except ModuleNotFoundError:
        raise Error(
            "extra-missing",
            "PostgreSQL needs psycopg, which is not installed",
            hint="`pip install 'psycopg[binary]'`",
        ) from None
    except (sa.exc.SQLAlchemyError, ValueError) as problem:
        raise Error("bad-value", f"--db cannot be parsed: {problem}") from None


def _as_we_begin(connection: Any, _: object) -> None:
    # Python's module would begin transactions by itself, and too late.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _revision(connection: sa.Connection) -> str:
    """Return the revision of the tables that are there; empty where there are none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return ""
    version = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return str(version or "")


def _migrate(connection: sa.Connection) -> None:
    """Bring the tables up to date; raises ``newer-database``."""
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    before = _revision(connection)
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, LATEST)
    except CommandError as problem:
        raise Error(
            "newer-database",
            f"the tables have revision {_revision(connection)}, which this version does not know",
            hint="update: `pip install --upgrade 'cmbench[gui]'`",
            context=[str(problem)],
        ) from None
    if before:
        _derive(connection)


def _derive(connection: sa.Connection) -> None:
    """Fill the columns of all runs from the whole results, as this version does."""
    place, columns = schema.run.c.place_id, (schema.run.c.uid, schema.detail.c.result)
    uids = list(connection.execute(sa.select(columns[0])).scalars())
    for start in range(0, len(uids), CHUNK):
        chosen = columns[0].in_(uids[start : start + CHUNK])
        details = sa.select(place, *columns).join(schema.detail).where(chosen)
        rows = [_row(row.place_id, _read(row.result)) for row in connection.execute(details)]
        bound = [{f"new_{name}": value for name, value in row.items()} for row in rows]
        values: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in rows[0]}
        changed = schema.run.update().where(columns[0] == sa.bindparam("new_uid"))
        connection.execute(changed.values(values), bound)


def _chunks(results: Iterable[BenchmarkResult]) -> Iterator[list[BenchmarkResult]]:
    remaining = iter(results)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def _uids_called(connection: sa.Connection, uid: str) -> list[str]:
    """Return the ids that begin so, a few of them; ``last~1`` is the last but one of our own."""
    column, back = schema.run.c.uid, steps_back(uid)
    if back is not None:
        newest = schema.run.c.measured_at.desc()
        load_test = schema.run.c.framework == "bench,endpoint"
        own = sa.or_(schema.run.c.key.startswith("run:"), load_test)
        chosen = sa.select(column).where(own).order_by(newest, column).offset(back).limit(1)
    elif uid.isascii() and uid.isalnum() and len(uid) <= 16:
        chosen = sa.select(column).where(column.startswith(uid.lower())).limit(5)
    else:
        return []
    return list(connection.execute(chosen).scalars())


def _uids_of(connection: sa.Connection, source: ResultSource) -> set[str]:
    chosen = sa.select(schema.run.c.uid).where(schema.run.c.place_id == source.id)
    return set(connection.execute(chosen).scalars())


def _put_place(connection: sa.Connection, source: ResultSource) -> None:
    values = {name: getattr(source, name) for name in ("kind", "path", "added")}
    changed = schema.place.update().where(schema.place.c.id == source.id).values(values)
    if not connection.execute(changed).rowcount:
        connection.execute(schema.place.insert(), {"id": source.id, **values})


def _delete(connection: sa.Connection, uids: Sequence[str]) -> None:
    for start in range(0, len(uids), CHUNK):
        part = uids[start : start + CHUNK]
        connection.execute(schema.detail.delete().where(schema.detail.c.run_uid.in_(part)))
        connection.execute(schema.run.delete().where(schema.run.c.uid.in_(part)))


def _insert(
    connection: sa.Connection, source: ResultSource, results: Sequence[BenchmarkResult]
) -> list[str]:
    """Insert results, combined with those of other sources; return their ids."""
    by_uid = {result.uid: result for result in results}
    columns = (schema.run.c.uid, schema.run.c.place_id, schema.detail.c.result)
    both = sa.select(*columns).join(schema.detail).where(columns[0].in_(by_uid))
    stored = connection.execute(both).all()
    places = dict.fromkeys(by_uid, source.id)
    for uid, other, detail in stored:
        if other != source.id:
            existing, mine = _read(detail), by_uid[uid]
            by_uid[uid] = combined(existing, mine)
            places[uid] = other if by_uid[uid].folder == existing.folder else source.id
    _delete(connection, [row.uid for row in stored])
    rows = [_row(places[uid], result) for uid, result in by_uid.items()]
    connection.execute(schema.run.insert(), rows)
    details = [{"run_uid": u, "result": json.loads(to_json(r))} for u, r in by_uid.items()]
    connection.execute(schema.detail.insert(), details)
    return list(by_uid)


def _row(place_id: str, result: BenchmarkResult) -> dict[str, Any]:
    work, system, software = result.workload, result.system, result.software
    own = (
        *("metric", "value", "unit", "direction", "organization", "validity", "accuracy", "tier"),
        *("measured_at", "inferred", "availability", "figures_from", "key", "uid", "series"),
    )
    of_work = ("benchmark", "model", "form", "scenario", "round", "division", "category")
    energy, per = result.figure(ENERGY) or result.figure(POWER), rates(result)
    return {
        **{name: getattr(result, name) for name in own},
        **{name: getattr(work, name) for name in of_work},
        **{n: getattr(system, n) for n in ("cpu", "accelerator", "accelerators", "nodes")},
        **{n: getattr(software, n) for n in ("framework", "backend", "device", "precision")},
        **{n: _value(result, n) for n in (THROUGHPUT, "latency_p90", "latency_p99", POWER, ENERGY)},
        **{name: per.get(name) for name in (PER_ACCELERATOR, PER_WATT, PER_CORE)},
        "energy_tier": energy.tier if energy else "",
        "system": system.name,
        "system_id": digest([system.name, system.fingerprint])[:16],
        "place_id": place_id,
    }


def _value(result: BenchmarkResult, name: str) -> float | None:
    metric = result.figure(name)
    return metric.value if metric else None


def _read(detail: Mapping[str, Any]) -> BenchmarkResult:
    return from_json(json.dumps(detail))


def results_by_id(store: Store, uids: Sequence[str]) -> dict[str, BenchmarkResult]:
    """Return the results with these ids, by id; one that is gone is left out."""
    detail, results = schema.detail.c, {}
    for start in range(0, len(uids), CHUNK):
        chosen = sa.select(detail.run_uid, detail.result)
        chosen = chosen.where(detail.run_uid.in_(uids[start : start + CHUNK]))
        with store.reading() as connection:
            results.update({uid: _read(data) for uid, data in connection.execute(chosen)})
    return results


def exists(root: str | os.PathLike[str]) -> bool:
    """Return whether a home has any results."""
    return any((Path(root) / "results" / "places").glob("*.jsonl"))
