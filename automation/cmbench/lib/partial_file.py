"""A file that is being downloaded: the bytes received so far, and which process downloads it.

The state is in files next to the destination, so that another process can see and resume it:

    NAME.part        the bytes received
    NAME.part.json   their source, and how many of them the disk has for certain
    NAME.part.lock   locked by the process that downloads
    NAME.wish        announces a download ahead of its use that no process has begun
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from cmbench.lib import locks
from cmbench.lib.files import CHUNK
from cmbench.lib.text_files import sha256

_SYNC_SECONDS = 1.0
"""How much of a transfer a loss of power may cost; more often, slow disks would hold it up."""
_LOOK_SECONDS = 0.1
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class PartSource:
    """The source of the bytes of a partial file. ``url`` is hashed: it may hold secrets.

    ``validator`` shows whether the server still has the same file. ``safe`` bytes are flushed to
    the disk; the others are as written since the start of the machine that is named by ``boot``.
    ``encoding`` is how the server has compressed the bytes, although none was requested.
    """

    url: str = ""
    validator: str = ""
    total: int | None = None
    safe: int = 0
    boot: str = ""
    encoding: str = ""


class PartialFile:
    """The part received so far of the file that is downloaded to ``destination``."""

    def __init__(self, destination: Path) -> None:
        self.destination = destination
        self.path = self._beside(".part")
        self.note = PartSource()
        self._out: IO[bytes] = io.BytesIO()
        self._next = 0.0
        self._lock = self._beside(".part.lock")
        self._wish = self._beside(".wish")
        self._note = self._beside(".part.json")

    def _beside(self, suffix: str) -> Path:
        return self.destination.with_name(self.destination.name + suffix)

    @property
    def size(self) -> int:
        """Return the number of bytes received; raises ``OSError`` where there are none."""
        return self.path.stat().st_size

    # ------------------------------------------------------------ which process downloads

    @contextmanager
    def held(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of the download; ``waiting`` is called while another process has it.

        Where the file system has no locks, no process waits.
        """

        def wait(handle: int) -> None:
            while not locks.try_lock(handle):
                waiting()
                time.sleep(_LOOK_SECONDS)

        try:
            handle = locks.acquire(self._lock, wait)
        except OSError as problem:
            if problem.errno not in locks.UNSUPPORTED:
                raise
            handle = -1
        try:
            yield
        finally:
            locks.release(self._lock, handle)

    def is_held(self) -> bool:
        """Return whether a process is downloading the file now."""
        with suppress(OSError):
            return locks.is_held(self._lock)
        return False

    def is_begun(self) -> bool:
        """Return whether the file or a part of it exists, or a download is running."""
        return any(path.exists() for path in (self.destination, self.path, self._lock))

    def announce(self) -> None:
        """Announce that the file will be downloaded ahead of its use; raises ``OSError``."""
        self.destination.parent.mkdir(parents=True, exist_ok=True)
        self._wish.touch()

    def begin(self) -> bool:
        """Take the lock file in place of the announcement; return whether that was still there."""
        with suppress(OSError):
            os.link(self._wish, self._lock)
        return self.withdraw()

    def withdraw(self) -> bool:
        """Remove the announcement; return whether there was one. The caller then downloads."""
        try:
            self._wish.unlink()
        except FileNotFoundError:
            return False
        return True

    # ------------------------------------------------------------ bytes received

    def resume(self, url: str, any_source: bool) -> int:
        """Return how many bytes a transfer from ``url`` can keep, and set ``note`` to their source.

        With ``any_source`` bytes of another URL are kept too: in the end a checksum decides whether
        they fit.
        """
        self.note = PartSource()
        try:
            known = PartSource(**json.loads(self._note.read_text(encoding="utf-8")))
            length = self.size
        except (OSError, ValueError, TypeError):
            return 0
        if not known.boot or known.boot != boot():
            length = min(length, known.safe)
        same = known.url == sha256(url) and known.validator
        if not same and not any_source:
            return 0
        self.note = known if same else replace(known, validator="")
        return length

    @contextmanager
    def writing(self, offset: int, note: PartSource) -> Iterator[None]:
        """Open for writing bytes of the source ``note`` from ``offset`` on; truncate there."""
        with open(self.path, "r+b" if offset else "wb") as self._out:
            self._out.seek(offset)
            self._out.truncate()
            # Only now: before, the part may be one of another file than the note would say.
            self.note = replace(note, boot=boot())
            self._sync()
            yield
            self._sync()

    def write(self, chunk: bytes) -> None:
        """Add bytes, inside ``writing``."""
        self._out.write(chunk)
        if time.monotonic() >= self._next:
            self._sync()

    def _sync(self) -> None:
        """Flush the bytes received to the disk, and record their number."""
        self._out.flush()
        os.fsync(self._out.fileno())
        self.note = replace(self.note, safe=self._out.tell())
        draft = self._beside(".part.json.new")
        draft.write_text(json.dumps(asdict(self.note)), encoding="utf-8")
        os.replace(draft, self._note)
        self._next = time.monotonic() + _SYNC_SECONDS

    def unpack(self) -> None:
        """Undo the encoding that the server has put on; raises ``OSError`` where it is damaged."""
        if not self.note.encoding or not self._is_gzip():
            return
        draft = self._beside(".part.plain")
        try:
            with gzip.open(self.path) as packed, open(draft, "wb") as out:
                shutil.copyfileobj(packed, out, CHUNK)
            os.replace(draft, self.path)
        finally:
            draft.unlink(missing_ok=True)

    def _is_gzip(self) -> bool:
        with open(self.path, "rb") as stream:
            return stream.read(2) == b"\x1f\x8b"

    def forget(self) -> None:
        """Remove the part and its record."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def finish(self) -> None:
        """Move the complete part to the destination."""
        os.replace(self.path, self.destination)
        self._note.unlink(missing_ok=True)


def boot() -> str:
    """Return the identifier of this start of the machine; empty where it is not known."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""
