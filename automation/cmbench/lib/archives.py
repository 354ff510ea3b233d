"""Unpack archives that came from elsewhere: nothing outside the target, nothing half-made.

Members go to a private folder beside the target, which is renamed when all of it is there. A member
that would leave that folder (an absolute name, ``..``, a link that points out, a device) stops the
extraction with its name. Owners, set-user bits and write permission for others are not taken over.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import struct
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from cmbench.errors import Error
from cmbench.lib import locks
from cmbench.lib.files import CHUNK, Progress, file_error, require_space
from cmbench.lib.probe import which
from common.problems import shell_word

_MAGIC = (
    (b"\x1f\x8b", "gz"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_SUFFIXES = {"gz": (".gz", ".gzip"), "bz2": (".bz2",), "xz": (".xz",), "zst": (".zst", ".zstd")}
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
)
"""What the readers of the standard library raise for bytes that are not as they should be."""
_DEEPEST = 250
"""Folders in folders; what walks through more of them meets limits of its own."""
_LONGEST_PATH = 3500
"""Longer paths cannot be resolved by the system, and so not be checked."""


@dataclass(frozen=True, slots=True)
class ExtractionResult:
    """What an extraction made: at ``path``, so many ``files`` of so many ``size`` bytes.

    ``single`` is the file where the archive was one compressed file and no folder of files.
    """

    path: Path
    files: int
    size: int
    single: Path | None


def extract(
    archive: Path,
    target: Path,
    *,
    strip_folder: bool = False,
    single_name: str = "",
    progress: Progress | None = None,
) -> ExtractionResult:
    """Unpack ``archive`` so that ``target`` is the folder of its members.

    tar (also gz, bz2, xz, zst), zip, and single gz, bz2, xz, zst files, recognised by content. The
    name of a single file is ``single_name``, else that of the archive without its suffix. With
    ``strip_folder`` the only folder at the top of the archive is left out. Where ``target`` exists,
    the members are put into it and take the place of files of the same name.
    Raises Error: ``archive-unsafe``, ``archive-corrupt``, ``archive-unknown``, ``no-space`` ...
    """
    # Relative to the folder that the caller is in now, whatever a thread of its does later.
    archive, target = Path(os.path.abspath(archive)), Path(os.path.abspath(target))
    with private_folder(target) as folder:
        writer = _Writer(archive, folder / "content")
        try:
            _unpack(archive, writer, single_name, progress)
            content = writer.finish(strip_folder)
        except _DAMAGE as problem:
            raise _corrupt(archive, writer.member, problem) from None
        except OSError as problem:
            if isinstance(problem, gzip.BadGzipFile) or problem.errno is None:
                raise _corrupt(archive, writer.member, problem) from None
            where = archive if problem.filename == str(archive) else target
            raise file_error(problem, where) from None
        try:
            publish(content, target)
        except OSError as problem:
            raise file_error(problem, target) from None
    single = target / writer.single if writer.single else None
    return ExtractionResult(target, writer.files, writer.size, single)


def first_member(archive: Path, pattern: str, limit: int = 1 << 20) -> tuple[str, bytes] | None:
    """Name and at most ``limit`` bytes of the first file of a tar whose name fits ``pattern``.

    Nothing is unpacked, and nothing is read behind that file. None where there is no such file.
    Raises Error as ``extract`` does.
    """
    kind = kind_of(archive)
    if kind not in ("tar", *_SUFFIXES):
        raise Error(
            "archive-unknown", f"{archive} is not a tar archive", context=(_first_bytes(archive),)
        )
    name = ""
    try:
        with (
            open(archive, "rb") as raw,
            _decompressed(raw, archive, kind, None) as plain,
            tarfile.open(fileobj=plain, mode="r|") as tar,
        ):
            for member in tar:
                name = member.name
                if member.isreg() and re.search(pattern, name):
                    return name, _opener(tar, member)().read(limit)
    except (*_DAMAGE, OSError) as problem:
        raise _corrupt(archive, name, problem) from None
    return None


def kind_of(path: Path) -> str:
    """``tar``, ``zip``, ``gz``, ``bz2``, ``xz``, ``zst`` by content; empty for anything else."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(512)
    except OSError as problem:
        raise file_error(problem, path) from None
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    return "tar" if _is_tar_header(head, path.name) else ""


def _is_tar_header(head: bytes, name: str) -> bool:
    if len(head) < 512:
        return False
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        # An archive without members is blocks of zeros, and so may other files begin.
        return not any(head) and (".tar" in name or name.endswith(".tgz"))
    return True


@contextmanager
def private_folder(target: Path) -> Iterator[Path]:
    """A new folder on the disk of ``target``, gone afterwards; sweeps those of dead runs."""
    prefix = f".{target.name[:100]}.partial-"
    # A folder that is there already may be the root of a disk: only inside is it the same one.
    place = target if target.is_dir() else target.parent
    try:
        place.mkdir(parents=True, exist_ok=True)
        _sweep(place, prefix)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    except OSError as problem:
        raise file_error(problem, target) from None
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # Some network file systems have no locks: nothing is swept there.
            locks.try_lock(lock)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(parent: Path, prefix: str) -> None:
    for path in parent.iterdir():
        if path.name.startswith(prefix) and _is_folder(path):
            with suppress(OSError):
                # Only a run that is dead lets go of its lock.
                if not locks.is_held(path):
                    shutil.rmtree(path, ignore_errors=True)


def publish(content: Path, target: Path) -> None:
    """Put the finished ``content`` at ``target``: one rename where that is free, else merged.

    An empty ``target`` is not replaced: it may be the current directory of a process.
    Raises FileExistsError where a file and a folder have the same name.
    """
    if target.is_dir():
        _merge(content, target)
    elif os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "there is a file of that name", str(target))
    else:
        os.rename(content, target)


def _merge(source: Path, target: Path) -> None:
    for item in sorted(source.iterdir()):
        place = target / item.name
        both_folders = _is_folder(item) and _is_folder(place)
        if both_folders:
            _merge(item, place)
        elif _is_folder(place):
            raise IsADirectoryError(errno.EISDIR, "there is a folder of that name", str(place))
        else:
            if _is_folder(item):
                place.unlink(missing_ok=True)
            os.rename(item, place)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _only_folder(root: Path) -> Path:
    entries = list(root.iterdir())
    return entries[0] if len(entries) == 1 and _is_folder(entries[0]) else root


def _unpack(archive: Path, writer: _Writer, single_name: str, progress: Progress | None) -> None:
    kind = kind_of(archive)
    if kind == "zip":
        _unpack_zip(archive, writer, progress)
    elif kind:
        _unpack_stream(archive, kind, writer, single_name, progress)
    else:
        raise Error(
            "archive-unknown",
            f"{archive} is not an archive that can be unpacked",
            hint="tar, tar.gz, tar.bz2, tar.xz, tar.zst, zip, gz, bz2, xz and zst files can",
            context=(_first_bytes(archive),),
        )


def _first_bytes(archive: Path) -> str:
    with open(archive, "rb") as stream:
        head = stream.read(48)
    return f"it starts with {head!r}" if head else "it is empty"


def _unpack_stream(
    archive: Path, kind: str, writer: _Writer, single_name: str, progress: Progress | None
) -> None:
    """Unpack a tar, compressed or not, or a single compressed file."""
    if kind == "tar":
        require_space(writer.root, archive.stat().st_size)
    with open(archive, "rb") as raw, _decompressed(raw, archive, kind, progress) as plain:
        buffered = io.BufferedReader(_Source(plain), CHUNK)
        if kind == "tar" or _is_tar_header(buffered.peek(512)[:512], archive.name):
            _unpack_tar(buffered, writer)
        else:
            writer.single = single_name or _without_suffix(archive.name, kind)
            writer.file(writer.single, 0o644, lambda: buffered)


def _without_suffix(name: str, kind: str) -> str:
    for suffix in _SUFFIXES[kind]:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name + ".out"


def _decompressed(
    raw: IO[bytes], archive: Path, kind: str, progress: Progress | None
) -> AbstractContextManager[IO[bytes]]:
    if kind == "zst":
        return _zstd(raw, archive)
    readers: dict[str, Any] = {
        "gz": gzip.open,
        "bz2": bz2.open,
        "xz": lzma.open,
        "tar": lambda x: x,
    }
    opened: IO[bytes] = readers[kind](_watched(raw, archive, progress))
    return opened


@contextmanager
def _zstd(raw: IO[bytes], archive: Path) -> Iterator[IO[bytes]]:
    program = which("zstd")
    if program is None:
        raise Error(
            "tool-missing",
            f"{archive.name} is compressed with zstd, but the program zstd is not installed",
            hint='install zstd; this shows how on your system:\n`cm run script "get sys-utils-cm"`',
        )
    with subprocess.Popen(
        [program, "--decompress", "--stdout", "--quiet"],
        stdin=raw,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process.stdout
            if process.wait() != 0:
                raise EOFError(process.stderr.read().decode(errors="replace").strip())
        finally:
            if process.poll() is None:
                process.kill()


class _Source(io.RawIOBase):
    """A stream as raw input, so that one buffer with ``peek`` fits them all.

    ``report`` is called after every read.
    """

    def __init__(self, stream: IO[bytes], report: Callable[[], None] = lambda: None) -> None:
        self._stream = stream
        self._report = report

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self._report()
        return len(data)


def _watched(raw: IO[bytes], archive: Path, progress: Progress | None) -> IO[bytes]:
    """The archive's own bytes; ``progress`` receives the number of bytes read."""
    if progress is None:
        return raw
    total = archive.stat().st_size
    return io.BufferedReader(_Source(raw, lambda: progress(raw.tell(), total)), CHUNK)


def _unpack_tar(stream: IO[bytes], writer: _Writer) -> None:
    with tarfile.open(fileobj=stream, mode="r|", errorlevel=1) as tar:
        for member in tar:
            writer.member = member.name
            if member.isdir():
                writer.folder(member.name, member.mode)
            elif member.issym():
                writer.symlink(member.name, member.linkname)
            elif member.islnk():
                writer.hardlink(member.name, member.linkname)
            elif member.isreg():
                writer.file(member.name, member.mode, _opener(tar, member), member.mtime)
            else:
                raise writer.unsafe("it is a device or another special file")
    # Reading on to the end lets the decompressor check its checksum.
    while stream.read(CHUNK):
        pass


def _opener(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        stream = tar.extractfile(member)
        assert stream is not None  # Only for members that are no files.
        return stream

    return opened


def _unpack_zip(archive: Path, writer: _Writer, progress: Progress | None) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = packed.infolist()
        total = sum(member.file_size for member in members)
        require_space(writer.root, total)
        for member in members:
            writer.member = member.filename
            if not member.filename:
                raise zipfile.BadZipFile("a member has no name")
            mode = member.external_attr >> 16
            if member.is_dir():
                writer.folder(member.filename, mode or 0o755)
            elif stat.S_ISLNK(mode):
                target = packed.read(member).decode("utf-8", "surrogateescape")
                writer.symlink(member.filename, target)
            elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise writer.unsafe("it is a device or another special file")
            else:
                _require_readable(archive, member)
                writer.file(member.filename, mode or 0o644, partial(packed.open, member))
            if progress:
                progress(writer.size, total)


def _require_readable(archive: Path, member: zipfile.ZipInfo) -> None:
    if member.flag_bits & 0x1:
        raise Error(
            "archive-encrypted",
            f"{archive} is encrypted (member {member.filename})",
            hint="unpack it yourself with its password and give the folder instead",
        )


class _Writer:
    """Puts members below ``root`` and nowhere else."""

    def __init__(self, archive: Path, root: Path) -> None:
        self.archive = archive
        root.mkdir()
        self.root = Path(os.path.realpath(root))
        self.member = ""
        self.single = ""
        self.files = 0
        self.size = 0
        self._modes: dict[Path, int] = {}

    def unsafe(self, why: str) -> Error:
        """The error for the present member."""
        name = self.member if len(self.member) <= 200 else self.member[:200] + "..."
        return Error(
            "archive-unsafe",
            f'{self.archive.name}: member "{name}" was refused: {why}',
            hint="do not use this archive; get it again from where it is published",
            context=(f"archive: {self.archive}",),
        )

    def folder(self, name: str, mode: int) -> None:
        path = self._place(name)
        if path == self.root:
            return
        if not _is_folder(path):
            path.unlink(missing_ok=True)
            path.mkdir()
        # Applied at the end: a read-only folder could not be filled.
        self._modes[path] = (mode & 0o755) | 0o700

    def file(
        self, name: str, mode: int, opened: Callable[[], IO[bytes]], mtime: float | None = None
    ) -> None:
        self.member = name
        path = self._free(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with opened() as source, open(os.open(path, flags, 0o600), "wb") as out:
            while chunk := source.read(CHUNK):
                out.write(chunk)
                self.size += len(chunk)
            os.fchmod(out.fileno(), (mode & 0o755) | 0o600)
        if mtime is not None and 0 <= mtime < 2**40:
            os.utime(path, (mtime, mtime))
        self.files += 1

    def symlink(self, name: str, target: str) -> None:
        path = self._free(name)
        self._check_name(target)
        if os.path.isabs(target) or not _is_inside(path.parent / target, self.root):
            raise self.unsafe(f'it is a link to "{target}", outside of the folder')
        os.symlink(target, path)
        self.files += 1

    def hardlink(self, name: str, target: str) -> None:
        source = self._place(target)
        if source.is_symlink() or not source.is_file():
            raise self.unsafe(f'it is a link to "{target}", which is not a file of the archive')
        path = self._free(name)
        if path != source:
            os.link(source, path)
        self.files += 1

    def finish(self, strip_folder: bool) -> Path:
        """Look at every link once more, now that all they may lead through is there.

        Returns where all of it is: under a name that no link of the archive can know. By the name
        of the folder that it was unpacked in, or of the one that is left out, a link would find
        what lies beside the target in the end.
        """
        for path, mode in reversed(self._modes.items()):
            if _is_folder(path):
                path.chmod(mode)
        content = _only_folder(self.root) if strip_folder else self.root
        inside = content.relative_to(self.root)
        content = content.rename(tempfile.mkdtemp(dir=self.root.parent))
        for folder, names, files in os.walk(content):
            for path in (Path(folder, name) for name in (*names, *files)):
                if path.is_symlink() and not _is_inside(path, content):
                    self.member = str(inside / path.relative_to(content))
                    raise self.unsafe(f'it is a link to "{os.readlink(path)}", outside')
        return content

    def _free(self, name: str) -> Path:
        path = self._place(name)
        if path == self.root:
            raise self.unsafe("it has no name")
        if _is_folder(path):
            raise self.unsafe("there is a folder of that name already")
        path.unlink(missing_ok=True)
        return path

    def _place(self, name: str) -> Path:
        """Where the member ``name`` goes; the folder for it is there afterwards."""
        self._check_name(name)
        if name.startswith("/"):
            raise self.unsafe("its name is absolute")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self.unsafe('its name contains ".."')
        path = self.root.joinpath(*parts)
        if path == self.root:
            return path
        if not _is_inside(path.parent, self.root):
            raise self.unsafe("a link leads out of the folder")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise self.unsafe("a file of the archive is where its folder should be") from None
        return path

    def _check_name(self, name: str) -> None:
        if "\0" in name or not name:
            raise self.unsafe("its name is not a valid file name")
        if name.count("/") > _DEEPEST:
            raise self.unsafe(f"it is more than {_DEEPEST} folders deep")
        if len(os.fsencode(name)) + len(os.fsencode(self.root)) > _LONGEST_PATH:
            raise self.unsafe("its name is too long")


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether ``path`` leads into ``folder``, which is no link."""
    resolved = os.path.realpath(path)
    return resolved == str(folder) or resolved.startswith(f"{folder}{os.sep}")


def _corrupt(archive: Path, member: str, problem: Exception) -> Error:
    at = f' at member "{member}"' if member else ""
    return Error(
        "archive-corrupt",
        f"{archive} is damaged or truncated{at}",
        hint=f"remove it and get it again: `rm {shell_word(str(archive))}`",
        context=(f"{type(problem).__name__}: {problem}",),
    )
