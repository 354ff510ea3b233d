"""The files of uploads on the disk: parts that grow, and whole ones whose digest was checked.

``FOLDER/<two digits>/<id>/<sha256>`` is a whole file; what is still coming has ``.part`` behind its
name. The size of a part is where an upload goes on, whatever has ended the last request.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.lib.files import file_error
from cmbench_crowd import manifest as m

LEAST_FREE = 256 << 20
"""Bytes of the disk that uploads leave free."""
MOST_RATIO = 200
"""So much larger than its packed form a piece may be: logs of LoadGen are up to 30."""
_STEP = 1 << 16


class Files:
    """All files below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, run: str) -> Path:
        """Return where the files of an upload lie."""
        return self.root / run[:2] / run

    def path(self, run: str, file: m.ManifestFile) -> Path:
        """Return the whole file."""
        return self.folder(run) / file.sha256

    def is_whole(self, run: str, file: m.ManifestFile) -> bool:
        """Return whether all of it has come, as its digest says."""
        return self.path(run, file).is_file()

    def offset(self, run: str, file: m.ManifestFile) -> int:
        """Return how many of its bytes are here."""
        if self.is_whole(run, file):
            return file.bytes
        try:
            return self._part(run, file).stat().st_size
        except OSError:
            return 0

    def check_room(self, more: int) -> None:
        """Raise ``no-space`` where the disk has no room for ``more`` bytes."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.root).free
        except OSError as problem:
            raise file_error(problem, self.root) from None
        if free < more + LEAST_FREE:
            raise Error(
                "no-space",
                "the server's disk is full file",
                hint="send it again later; what was received is kept",
            )

    @contextmanager
    def writing(self, run: str, file: m.ManifestFile) -> Iterator[UploadPart]:
        """The part of a file, for one writer at a time; raises ``wrong-offset``, ``no-space``."""
        path = self._part(run, file)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise file_error(problem, path) from None
        try:
            if not locks.try_lock(handle):
                raise Error(
                    "wrong-offset",
                    "another request is sending this file",
                    hint="wait for it to end, ask for Upload-Offset with HEAD, and continue there",
                )
            yield UploadPart(handle, path)
        finally:
            os.close(handle)

    def finish(self, run: str, file: m.ManifestFile) -> None:
        """Let a part that has all of its bytes be the file; raises ``bad-file``, ``no-space``."""
        part = self._part(run, file)
        sha = hashlib.sha256()
        try:
            with open(part, "rb") as stream:
                while data := stream.read(_STEP):
                    sha.update(data)
                os.fsync(stream.fileno())
            if sha.hexdigest() != file.sha256:
                part.unlink()
                raise Error(
                    "bad-file",
                    f"{file.name} does not have the SHA-256 of its manifest",
                    hint="send it again from the start",
                )
            os.replace(part, self.path(run, file))
        except OSError as problem:
            raise file_error(problem, part) from None

    def runs(self) -> Iterator[str]:
        """Yield the ids of all uploads that have files here."""
        yield from (path.name for path in self.root.glob("??/*") if path.is_dir())

    def remove(self, run: str) -> None:
        """Take all files of an upload away."""
        shutil.rmtree(self.folder(run), ignore_errors=True)

    def _part(self, run: str, file: m.ManifestFile) -> Path:
        return self.folder(run) / f"{file.sha256}.part"


class UploadPart:
    """An open part, whose lock is ours."""

    def __init__(self, handle: int, path: Path) -> None:
        self._handle = handle
        self._path = path
        self.size = os.lseek(handle, 0, os.SEEK_END)

    def write(self, data: bytes) -> None:
        """Append; of what does not fit on the disk nothing stays. Raises ``no-space``."""
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._handle, left) :]
        except OSError as problem:
            os.ftruncate(self._handle, self.size)
            raise file_error(problem, self._path) from None
        self.size += len(data)


class Unpacker:
    """The bytes of one request, unpacked as they come: never more than ``size`` of them."""

    def __init__(self, size: int, packed: bool) -> None:
        self._left = size
        self._most_taken = size + size // 8 + _STEP
        self._taken = 0
        self._given = 0
        self._gzip = zlib.decompressobj(wbits=31) if packed else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what ``data`` holds, in pieces; raise ``too-large``, ``bad-file``."""
        self._taken += len(data)
        if self._taken > self._most_taken:
            raise _too_large("a request is longer than its Content-Range says")
        while data:
            piece, data = self._step(data)
            self._left -= len(piece)
            self._given += len(piece)
            if self._left < 0:
                raise _too_large("a request has more bytes than its Content-Range says")
            if self._given > MOST_RATIO * self._taken + _STEP:
                raise _too_large(f"it unpacks to more than {MOST_RATIO} times its size")
            yield piece

    def _step(self, data: bytes) -> tuple[bytes, bytes]:
        if self._gzip is None:
            return data, b""
        if self._gzip.eof:
            raise Error("bad-file", "something follows the gzip stream", hint="compress it again")
        try:
            piece = self._gzip.decompress(data, min(_STEP, self._left + 1))
        except zlib.error as problem:
            raise Error(
                "bad-file", f"it is not gzip data: {problem}", hint="compress it again"
            ) from None
        return piece, self._gzip.unconsumed_tail or self._gzip.unused_data


def _too_large(why: str) -> Error:
    return Error("too-large", why, hint="send the files that the manifest lists")
