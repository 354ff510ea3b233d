"""The outcomes of points, on the disk of a CM home: one file per point.

``HOME/cmbench/sweeps/points/KEY/outcome.json`` is replaced as a whole, by whoever holds the lock of
the point, so a point is measured, failed, or still to do at any moment. Where it is measured again,
it stays so until the new outcome is there; what is on the way is in ``KEY/replacement``.
``sweeps/names/NAME.json``
says which points a sweep has. ``CMBENCH_SWEEPS`` names another folder in place of ``sweeps``, for
several homes: who measures there divides the points, and a folder that a group may write into
stays so all the way down.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cmbench.errors import Error, did_you_mean
from cmbench.lib import locks
from cmbench.lib.files import file_error
from cmbench_sweep.values import MEASURED, PointOutcome, SweepPoint
from common.records import RecordReader

FORMAT = 1

decode = RecordReader(ValueError).decode
"""Return a dataclass of a sweep from parsed JSON; raise ``ValueError``."""


class _TakenError(Exception):
    """Another process holds a lock."""


class PointStore:
    """The points of one CM home; ``root`` is the folder of cmbench in it, with the records.

    ``replaced`` are the versions of outcomes that do not count here, by key: those points are to be
    measured again. For every other reader they are as they were until there is another outcome.
    """

    def __init__(
        self, root: str | os.PathLike[str], replaced: Mapping[str, str] | None = None
    ) -> None:
        self.replaced: Mapping[str, str] = replaced or {}
        self.root = Path(os.environ.get("CMBENCH_SWEEPS") or Path(root) / "sweeps").absolute()
        self.records = Path(root) / "runs"
        self.points = self.root / "points"

    def replacing(self, versions: Mapping[str, str]) -> PointStore:
        """Return the same store, where outcomes of these versions do not count."""
        same = copy.copy(self)
        same.replaced = dict(versions)
        return same

    def folder(self, key: str) -> Path:
        """Return the folder with the outcome of a point."""
        return self.points / key

    def run_folder(self, key: str) -> Path:
        """Return where the runs of a point leave what they write; raise ``no-space`` and others."""
        if not self._is_replaced(key):
            return self.folder(key)
        draft = self._replacement(key)
        try:
            # The next to measure here may be another user of the group.
            with for_its_group(self.root):
                draft.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise file_error(problem, draft) from None
        return draft

    def _replacement(self, key: str) -> Path:
        return self.folder(key) / "replacement"

    def version(self, key: str) -> str:
        """Return what names the outcome of a point as it is on the disk; empty without one."""
        try:
            data = (self.folder(key) / "outcome.json").read_bytes()
        except OSError:
            return ""
        return hashlib.sha256(data).hexdigest()[:16]

    def _is_replaced(self, key: str) -> bool:
        return key in self.replaced and self.replaced[key] == self.version(key)

    def outcome(self, key: str) -> PointOutcome:
        """Return the outcome of a point; one that cannot be read is still to do."""
        if not self._is_replaced(key):
            return self.read(key, self.folder(key) / "outcome.json")
        version = self.replaced[key]
        draft = self.read(key, self._replacement(key) / "outcome.json")
        return draft if draft.replaces == version else PointOutcome(key, replaces=version)

    @staticmethod
    def read(key: str, path: Path) -> PointOutcome:
        """Return what the file ``path`` says of a point; still to do where it cannot be read."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return decode(PointOutcome, {**data, "key": key})
        except (OSError, ValueError, TypeError, KeyError):
            return PointOutcome(key)

    def outcomes(self, points: Iterable[SweepPoint]) -> dict[str, PointOutcome]:
        """Return the outcomes of points, by key."""
        return {point.key: self.outcome(point.key) for point in points}

    def put(self, outcome: PointOutcome) -> None:
        """Store the outcome of a point; its lock must be held. Raises ``no-space`` and others.

        Only figures replace figures: a point that was measured, and fails when it is
        measured again, has failed here and for no other caller.
        """
        key = outcome.key
        with for_its_group(self.root):
            if not self._is_replaced(key):
                write(self.folder(key) / "outcome.json", asdict(outcome))
                return
            outcome = replace(outcome, replaces=self.replaced[key])
            before = self.read(key, self.folder(key) / "outcome.json")
            if outcome.status == MEASURED or (outcome.done and before.status != MEASURED):
                self._publish(outcome)
            else:
                write(self._replacement(key) / "outcome.json", asdict(outcome))

    def _publish(self, outcome: PointOutcome) -> None:
        """Replace an outcome by another one, with the files of its runs."""
        folder, draft = self.folder(outcome.key), self._replacement(outcome.key)
        for path in [path for path in draft.glob("*") if path.name != "outcome.json"]:
            clear(folder / path.name)
            path.rename(folder / path.name)
        write(folder / "outcome.json", asdict(outcome))
        clear(draft)

    def begin_again(self, key: str) -> None:
        """Forget how measuring a point again has ended that was given up or has failed."""
        with self.claim(key) as mine:
            draft = self._replacement(key)
            if mine and self.read(key, draft / "outcome.json").done:
                clear(draft)

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """Hold a point for oneself; whether that is so, or another process has it.

        The lock ends with its holder, whatever ends that. Raises ``no-locks``, ``no-space``.
        """
        path = self.folder(key) / "lock"
        try:
            with for_its_group(self.root):
                path.parent.mkdir(parents=True, exist_ok=True)
                handle = locks.acquire(path, _refuse)
        except _TakenError:
            yield False
            return
        except OSError as problem:
            raise lock_error(problem, path) from None
        try:
            yield True
        finally:
            locks.release(path, handle)

    def name(self, name: str, data: Mapping[str, Any]) -> None:
        """Keep which points a sweep has."""
        with for_its_group(self.root):
            write(self.root / "names" / f"{name}.json", data)

    def stored_sweep(self, name: str) -> dict[str, Any]:
        """Return the stored data of a sweep; raise ``sweep-not-found``."""
        path = self.root / "names" / f"{name}.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            names = self.names()
            hint = did_you_mean(name, names) or f"there are: {', '.join(names[:8]) or 'none yet'}"
            raise Error("sweep-not-found", f"there is no sweep {name}", hint=hint) from None
        return dict(data)

    def keys_of(self, name: str) -> set[str]:
        """Return the keys of the points of a sweep; none where they cannot be read."""
        try:
            return {str(point["key"]) for point in self.stored_sweep(name)["points"]}
        except (Error, KeyError, TypeError):
            return set()

    def names(self) -> list[str]:
        """Return the sweeps of this home."""
        return sorted(path.stem for path in (self.root / "names").glob("*.json"))


@contextmanager
def for_its_group(root: Path) -> Iterator[None]:
    """Let new files be writable for a group where ``root`` is: other users measure there too."""
    before = os.umask(0o022)
    group = root.stat().st_mode & stat.S_IWGRP if root.is_dir() else 0
    os.umask(before & ~group)
    try:
        yield
    finally:
        os.umask(before)


def clear(folder: Path) -> None:
    """Let nothing be at ``folder``; what another user has left there goes aside.

    Raises ``not-writable`` and others.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        try:
            folder.rename(folder.with_name(f"{folder.name}-{time.time_ns()}"))
        except OSError as problem:
            raise file_error(problem, folder) from None


def write(path: Path, data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Replace a JSON file as a whole; raises ``no-space``, ``not-writable``, ``file-error``."""
    write_text(path, json.dumps(data, ensure_ascii=False, default=str))


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole; raises ``no-space``, ``not-writable``, ``file-error``."""
    draft = path.with_name(f"{path.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise file_error(problem, path) from None


def lock_error(problem: OSError, path: Path) -> Error:
    """Return why a lock cannot be had."""
    if problem.errno in locks.UNSUPPORTED:
        return Error(
            "no-locks",
            f"the file system of {path.parent} has no locks",
            hint="use a CM home on another one: `export CM_REPOS=/path/on/another/disk`",
        )
    return file_error(problem, path)


def _refuse(handle: int) -> None:
    raise _TakenError


@contextmanager
def machine(on_wait: Callable[[], None]) -> Iterator[None]:
    """Lock this machine against every other process that measures points on it.

    ``on_wait`` is called before waiting for another one.
    """
    path = Path(tempfile.gettempdir()) / "cmbench-measuring.lock"
    try:
        handle = _opened(path)
    except OSError as problem:
        raise file_error(problem, path) from None
    try:
        _wait(handle, path, on_wait)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, path: Path, on_wait: Callable[[], None]) -> None:
    try:
        if not locks.try_lock(handle):
            on_wait()
            locks.lock(handle)
    except OSError as problem:
        raise lock_error(problem, path) from None


def _opened(path: Path) -> int:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except PermissionError:
        # It is another user's, in a folder where only owners may write; reading is enough to lock.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    if os.fstat(handle).st_uid == os.getuid():
        os.fchmod(handle, 0o666)
    return handle
