"""A SQLite file that says again, faster, what is on the disk: many use it, none depend on it.

A damaged file is thrown away, one that cannot be opened or written only costs time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

_WAIT_S = 20
_CANNOT = (sqlite3.OperationalError, UnicodeError)
"""Not now, or never: the name of a file that is no text cannot be kept here."""


class Database:
    """The tables that the statements ``schema`` make, in the file ``path``.

    ``version`` is theirs: a file of another one is made anew. Without ``write`` nothing on disk is
    changed.
    """

    def __init__(self, path: str, version: int, schema: Sequence[str], write: bool = True) -> None:
        self._path = path
        self._version = version
        self._schema = schema
        self._write = write
        self._connection: sqlite3.Connection | None = None

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement; none where the file cannot be read."""
        connection = self._connect()
        if connection is None:
            return []
        try:
            return connection.execute(sql, values).fetchall()
        except _CANNOT:
            return []
        except sqlite3.DatabaseError:
            self._discard()
            return []

    def store(self, *statements: tuple[str, Iterable[Sequence[Any]]]) -> None:
        """Do every statement with all of its rows, all at once or nothing."""
        connection = self._connect() if self._write else None
        if connection is None:
            return
        try:
            with _transaction(connection):
                for sql, rows in statements:
                    connection.executemany(sql, rows)
        except _CANNOT:
            return
        except sqlite3.DatabaseError:
            self._discard()

    def close(self) -> None:
        """Release the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection | None:
        if self._connection is None:
            try:
                self._connection = self._open()
            except (sqlite3.OperationalError, OSError):
                return None
            except sqlite3.DatabaseError:
                # No database any more: the next writer makes a new one.
                self._discard()
        return self._connection

    def _open(self) -> sqlite3.Connection | None:
        if not self._write:
            if not os.path.isfile(self._path):
                return None
            connection = sqlite3.connect(
                _read_only(self._path), uri=True, timeout=_WAIT_S, isolation_level=None
            )
            return connection if self._is_current(connection) else None
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        # Threads of a run take turns in the engine: each may use what another one has opened.
        connection = sqlite3.connect(
            self._path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
        )
        if not self._is_current(connection):
            with _transaction(connection):
                # Another process may have made it in this moment.
                for statement in () if self._is_current(connection) else self._schema:
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {self._version}")
        return connection

    def _is_current(self, connection: sqlite3.Connection) -> bool:
        version: int = connection.execute("pragma user_version").fetchone()[0]
        return version == self._version

    def _discard(self) -> None:
        self.close()
        if self._write:
            with suppress(OSError):
                os.unlink(self._path)


def _read_only(path: str) -> str:
    """The address of a file that is only read."""
    for sign in "%?#":
        path = path.replace(sign, f"%{ord(sign):02x}")
    return f"file:{path}?mode=ro"


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    try:
        yield
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")
