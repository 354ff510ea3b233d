"""Payloads that are no entries: what a run is making, and what was removed but is still in use."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from cmbench.cache import records
from cmbench.cache.disk import disk_error, remove_tree
from cmbench.cache.records import LiveRuns
from cmbench.errors import Error
from cmbench.lib import locks

DRAFT_SECONDS = 60
_GONE = "gone-"


class Staging:
    """A private directory in which one entry is being made.

    ``record`` is the file that announces it, open and locked as ``handle``; ``clear`` removes what
    is in a directory that never became an entry.
    """

    def __init__(
        self, path: str, uid: str, record: str, handle: int, clear: Callable[[str], None]
    ) -> None:
        self.path = path
        self.uid = uid
        self._record = record
        self._handle = handle
        self._clear = clear

    def discard(self) -> None:
        """Remove everything made so far, unless it has just become an entry."""
        self._clear(self.path)
        self._release()

    def keep(self) -> None:
        """Let go of a directory whose entry has been published."""
        self._release()

    def _release(self) -> None:
        with suppress(OSError):
            os.unlink(self._record)
        os.close(self._handle)


class StagingArea:
    """The payloads below ``root`` on their way to become entries, or to go."""

    def __init__(self, root: str, live: LiveRuns) -> None:
        self._live = live
        self._folder, self._payloads, self._entries, self._files = (
            os.path.join(root, name) for name in ("staging", "store", "entries", "files")
        )

    def stage(self, script: str, uid: str = "") -> Staging:
        """A new private directory at the final path of a future entry.

        With ``uid`` it is that of an imported entry, and replaces an existing one.
        """
        is_import = bool(uid)
        uid = uid or os.urandom(8).hex()
        path = os.path.join(self._payloads, f"{script}_{uid}")
        try:
            record = self._live.claim(uid, path)
        except OSError as problem:
            raise disk_error(problem, path) from None
        staging = Staging(path, uid, self._live.record(uid), record, self.clear)
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
            self.remove_retired(uid)
        if self._is_leaving(uid):
            raise Error(
                "cannot-import",
                f"{path} was removed, but a current run may still use its files",
                hint="repeat the command after that run",
            )
        if not self._is_published(uid):
            remove_tree(path)

    def retire(self, uid: str, metadata: str) -> None:
        """Remove an entry: one rename makes its ``metadata`` the record that it is to go.

        Runs that live now may have been told of it: the payload stays until they have ended.
        """
        try:
            os.makedirs(self._folder, exist_ok=True)
            # Another process has removed it.
            with suppress(FileNotFoundError):
                records.move(metadata, self._live.record(_GONE + uid))
        except OSError as problem:
            raise disk_error(problem, metadata) from None

    def remove_retired(self, uid: str) -> None:
        """Remove the payload of a retired entry, unless it is still in use."""
        self._sweep_one(self._live.record(_GONE + uid))

    def sweep_retired(self) -> None:
        """Remove the payloads of retired entries that are not in use."""
        self.sweep(_GONE)

    def sweep(self, start: str = "") -> int:
        """Remove what dead runs left half-made; returns how many directories that were."""
        try:
            names = sorted(n for n in os.listdir(self._folder) if n.startswith(start))
        except OSError:
            return 0
        return sum(self._sweep_one(os.path.join(self._folder, name)) for name in names)

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
            if data["path"] and (data["identity"] or not self._is_published(_uid(path))):
                self._drop(os.path.join(self._payloads, os.path.basename(data["path"])))
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
                    os.unlink(os.path.join(self._entries, data["identity"], uid + ".json"))
            # Only now: a run that starts from here on cannot find the entry any more.
            after = self._live.present()
            if after:
                # Where this cannot be written, the payload waits for those who come later too.
                with suppress(OSError):
                    records.replace(path, {**data, "after": after})
                self._live.readers.renew()
        return not any(self._live.is_alive(name) for name in after)

    def clear(self, path: str) -> None:
        """End what a dead run has left running, or remove what was left half-made."""
        if os.path.dirname(path) != self._payloads:
            if path:
                from cmbench.lib import orphans

                orphans.end(path)
            return
        uid = _uid(path)
        # In this order: an entry that is published now may be removed, and wait, a moment later.
        if not self._is_published(uid) and not self._is_leaving(uid):
            self._drop(path)
            with suppress(OSError):
                for identity in os.listdir(self._entries):
                    with suppress(OSError):
                        os.unlink(os.path.join(self._entries, identity, f".{uid}"))

    def _is_leaving(self, uid: str) -> bool:
        """Whether an entry ``uid`` was removed whose payload waits for the runs that use it."""
        return os.path.exists(self._live.record(_GONE + uid))

    def _drop(self, path: str) -> None:
        remove_tree(path)
        with suppress(OSError):
            os.unlink(os.path.join(self._files, _uid(path) + ".json"))

    def _is_published(self, uid: str) -> bool:
        """Whether an entry ``uid`` is visible."""
        try:
            identities = os.listdir(self._entries)
        except OSError:
            return False
        paths = (os.path.join(self._entries, identity, uid + ".json") for identity in identities)
        return any(map(os.path.isfile, paths))


def _uid(path: str) -> str:
    """The uid that the name of a payload or of a record ends with."""
    return re.split("[_-]", os.path.basename(path).removesuffix(".json"))[-1]
