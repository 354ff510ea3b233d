"""Small records of the store: who claims what, who removes what, and for whom others wait.

A record in ``staging`` is locked by whoever works on what it names, so that a later look tells
whether that process lives. That of a removed entry, ``gone-<uid>.json``, is at first its own
metadata: one rename takes the entry away and leaves the record.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from cmbench.cache.cache_entry import make_identity
from cmbench.cache.disk import disk_error
from cmbench.lib import locks

DRAFT = ".new"
"""How the name of a record ends that is still being written."""
_RUN = "0-"
_READER = "reader-"


def owner() -> dict[str, Any]:
    """Who we are, so that others can say for whom they wait."""
    return {"host": os.uname().nodename, "pid": os.getpid(), "since": time.time()}


def holder(handle: int) -> str:
    """Who has locked the open record, in words; one that has just done so is given a moment."""
    for pause in (0.01, 0.1, 0.0):
        with suppress(OSError, ValueError, KeyError):
            data = json.loads(_text(handle))
            return f"process {data['pid']} on {data['host']}"
        time.sleep(pause)
    return "another run"


def write_over(handle: int, data: Mapping[str, Any]) -> None:
    """Make ``data`` the content of an open record; raises ``OSError``."""
    text = json.dumps({**data, **owner()}).encode()
    os.pwrite(handle, text, 0)
    os.ftruncate(handle, len(text))


def replace(path: str, data: Mapping[str, Any]) -> None:
    """Replace ``path`` by a record with ``data``, in one step; raises ``OSError``."""
    _put(path, json.dumps({**data, **owner()}).encode())


def content(handle: int) -> dict[str, Any]:
    """What an open record says: ``path``, ``after``, ``identity``; one cut off says nothing.

    ``after`` is ``None`` where nobody has looked yet who may use what it names.
    """
    try:
        data = json.loads(_text(handle))
        after = data.get("after")
        return {
            "path": str(data["path"]),
            "after": None if after is None else [str(name) for name in after],
            "identity": str(data.get("identity", "")),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"path": "", "after": None, "identity": ""}


def move(source: str, target: str) -> None:
    """Rename a file; to another disk as a copy that appears at once. Raises ``OSError``."""
    try:
        os.rename(source, target)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise
        with open(source, "rb") as stream:
            _put(target, stream.read())
        os.unlink(source)


def _put(path: str, text: bytes) -> None:
    draft = f"{path}.{os.urandom(4).hex()}{DRAFT}"
    try:
        with open(draft, "wb") as stream:
            stream.write(text)
        os.rename(draft, path)
    except OSError:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _text(handle: int) -> bytes:
    return os.pread(handle, os.fstat(handle).st_size, 0)


class Readers:
    """Who reads a store without writing to it: other homes, ``verify``, ``export``.

    Each holds a shared lock on the newest of some numbered files; the store's owner makes a new
    one when an entry goes, so that whoever comes later does not hold up what went before.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever is removed from now on stays on the disk until this has ended."""
        handle = self._locked()
        try:
            yield
        finally:
            if handle >= 0:
                os.close(handle)

    def _locked(self) -> int:
        while True:
            path = self._newest()
            try:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                if path == self._root:
                    return -1
                continue
            except OSError:
                return -1
            try:
                locks.lock(handle, shared=True)
                if locks.is_still(handle, path):
                    return handle
            except OSError:
                return handle
            os.close(handle)

    def held(self) -> list[str]:
        """The names of the files that readers hold now."""
        return [name for name in ("", *self._names()) if self.is_held(name)]

    def is_held(self, name: str) -> bool:
        """Whether a reader holds that file."""
        return locks.is_held(self._path(name), shared=False)

    def renew(self) -> None:
        """Let those who come from now on hold another file, and drop the files of the past."""
        names = self._names()
        latest = names[-1] if names else ""
        with suppress(OSError):
            if self.is_held(latest):
                os.makedirs(os.path.join(self._root, "readers"), exist_ok=True)
                path = self._path(f"{int(latest or 0) + 1:08d}")
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            for name in names[:-1]:
                if not self.is_held(name):
                    os.unlink(self._path(name))

    def _names(self) -> list[str]:
        try:
            names = os.listdir(os.path.join(self._root, "readers"))
        except OSError:
            return []
        return sorted(name for name in names if name.isdigit())

    def _path(self, name: str) -> str:
        return os.path.join(self._root, "readers", name) if name else self._root

    def _newest(self) -> str:
        return self._path((self._names() or [""])[-1])


class LiveRuns:
    """The runs that use the store at ``root``, and the readers of it."""

    def __init__(self, root: str) -> None:
        self.readers = Readers(root)
        self._folder = os.path.join(root, "staging")

    def record(self, name: str) -> str:
        """The path of the record ``name``."""
        return os.path.join(self._folder, name + ".json")

    @contextmanager
    def running(self, directory: str) -> Iterator[None]:
        """Mark the run that works in ``directory`` as alive; a later look sees when it died."""
        name = _RUN + os.path.basename(directory)
        try:
            record = self.claim(name, directory)
        except OSError as problem:
            raise disk_error(problem, directory) from None
        try:
            yield
        finally:
            with suppress(OSError):
                os.unlink(self.record(name))
            os.close(record)

    def names(self) -> list[str]:
        """The names of the runs that are alive now."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        runs = (n for n in names if n.startswith(_RUN) and not n.endswith(DRAFT))
        return sorted(name for name in runs if self.is_alive(name))

    def is_alive(self, name: str) -> bool:
        """Whether the run, or the reader, of that name is there; true where that is unknown."""
        try:
            if name.startswith(_READER):
                return self.readers.is_held(name.removeprefix(_READER))
            return locks.is_held(os.path.join(self._folder, name))
        except OSError:
            return True

    def present(self) -> list[str]:
        """The names of all runs and readers that are there now."""
        return [*self.names(), *(f"{_READER}{name}" for name in self.readers.held())]

    def claim(self, name: str, path: str) -> int:
        """Announce work at ``path`` by the record ``name``; return it, open and locked.

        Raises ``OSError``.
        """
        os.makedirs(self._folder, exist_ok=True)
        final = self.record(name)
        draft = final + DRAFT
        record = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            locks.lock(record)
            write_over(record, {"path": path})
            os.rename(draft, final)
        except OSError:
            os.close(record)
            with suppress(OSError):
                os.unlink(draft)
            raise
        return record


class NamedLocks:
    """Locks by name, of all processes that use a store: files below ``folder``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def hold(
        self,
        name: str,
        waiting: Callable[[str], None],
        wait: Callable[[int], None] = locks.lock,
    ) -> Iterator[None]:
        """Hold the lock ``name`` across processes; call ``waiting`` once with its holder.

        ``wait`` waits for the lock on an open file.
        """
        path = os.path.join(self._folder, make_identity(name))
        handle = self._acquire(path, waiting, wait)
        try:
            # It only tells others for whom they wait; a full disk must not keep gc from its work.
            with suppress(OSError):
                write_over(handle, {"name": name})
            yield
        finally:
            locks.release(path, handle)

    def _acquire(
        self, path: str, waiting: Callable[[str], None], wait: Callable[[int], None]
    ) -> int:
        is_reported = False

        def report_and_wait(handle: int) -> None:
            nonlocal is_reported
            if not is_reported:
                waiting(holder(handle))
                is_reported = True
            wait(handle)

        try:
            os.makedirs(self._folder, exist_ok=True)
            return locks.acquire(path, report_and_wait)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise disk_error(problem, path) from None
