"""A signed manifest with its files as one zip file: what waits to be sent."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cmbench.errors import Error
from cmbench_crowd import manifest as m
from cmbench_crowd.client_home import needs_cryptography

MANIFEST, SIGNATURE, FILES = "manifest.json", "signature", "files/"
_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError, RuntimeError)
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LARGEST = m.LARGEST_RUN + (8 << 20)
_END = struct.Struct("<4s16x4s6xHI4xH")
_MOST, _LONGEST = 2 + len(m.ROLES), 500
"""Members of a bundle, and bytes of what its directory says of one at most."""
_WHEN = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class UploadBundle:
    """The content of an upload: a manifest, its signature, the bytes of its files by digest."""

    data: bytes
    signature: str
    files: Mapping[str, bytes]

    @property
    def manifest(self) -> m.Manifest:
        """What the bytes say; raises ``bad-manifest``."""
        return m.parse(self.data)


def pack(parcel: UploadBundle) -> bytes:
    """Return a bundle; the same parcel always gives the same bytes."""
    members = {MANIFEST: parcel.data, SIGNATURE: parcel.signature.encode("ascii")}
    members |= {f"{FILES}{sha256}": parcel.files[sha256] for sha256 in sorted(parcel.files)}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _WHEN)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            archive.writestr(info, data)
    return stream.getvalue()


def read(path: Path) -> UploadBundle:
    """Return the parcel of a bundle from anywhere, checked whole.

    Raises ``file-not-found``, ``bad-bundle``, ``bad-manifest``, ``bad-signature``.
    """
    needs_cryptography()
    if not path.is_file():
        raise Error(
            "file-not-found", f"{path} is not a file", hint="name a bundle, or a result's id"
        )
    if path.stat().st_size > _LARGEST:
        # All members are listed before any of them is read.
        raise _bad(path, f"it is larger than {_LARGEST >> 20} MiB")
    try:
        _few(path)
        with zipfile.ZipFile(path) as archive:
            return _parcel(archive)
    except _FAULTS as problem:
        raise _bad(path, str(problem)) from None


def _few(path: Path) -> None:
    """Raise ``ValueError`` for more names than a bundle has: all of them would be taken in."""
    with open(path, "rb") as stream:
        stream.seek(max(0, path.stat().st_size - _END.size))
        large, mark, count, size, comment = _END.unpack(stream.read().ljust(_END.size))
    if mark != b"PK\5\6" or comment or large == b"PK\6\7":
        raise ValueError("it does not end like a bundle")
    if count > _MOST or size > _MOST * _LONGEST:
        raise ValueError(f"it has {count} members")


def _parcel(archive: zipfile.ZipFile) -> UploadBundle:
    data = _member(archive, MANIFEST, m.LARGEST)
    signature = _member(archive, SIGNATURE, 200).decode("ascii")
    listed = {file.sha256: file for file in m.verify(data, signature).files}
    expected = {MANIFEST, SIGNATURE, *(FILES + sha256 for sha256 in listed)}
    names = archive.namelist()
    if set(names) != expected or len(names) != len(expected):
        raise ValueError("its members are not those in its manifest")
    files = {
        sha256: _member(archive, FILES + sha256, file.bytes) for sha256, file in listed.items()
    }
    for sha256, content in files.items():
        if m.digest(content) != sha256:
            raise ValueError(f"the file {sha256[:12]} has other content")
    return UploadBundle(data, signature, files)


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    if archive.getinfo(name).compress_type not in _PACKED:
        # Others take as much memory to unpack as their maker likes.
        raise ValueError(f"{name} is not packed as in a bundle")
    with archive.open(name) as stream:
        # What the directory of an archive says of a size need not be so.
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{name} is larger than {most:,} bytes")
    return data


def _bad(path: Path, why: str) -> Error:
    return Error(
        "bad-bundle",
        f"{path} is not a valid bundle: {why}",
        hint="make it again where the result is: `cm bundle crowd ID --output=FILE`",
    )
