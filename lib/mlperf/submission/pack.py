"""One archive of a tree or of any folder, the same bytes for the same contents."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

from common.files import sha256

from .errors import SubmissionError
from .layouts import DIVISIONS


def pack(tree: Path, target: Path) -> list[str]:
    """Write ``target`` (.tar.gz) with the divisions of ``tree``; returns the packed names.

    Raises SubmissionError where there is nothing to pack.
    """
    check_target(tree, target, "--output_tar")
    paths = files(tree)
    if not paths:
        raise SubmissionError(f"{tree} holds no files of a submission", "generate it first")
    return archive(tree, paths, target)


def files(tree: Path) -> list[Path]:
    """Every file of the divisions of a tree, in a fixed order."""
    return [
        path
        for division in DIVISIONS
        for path in sorted((tree / division).rglob("*"))
        if path.is_file()
    ]


def pack_folder(folder: Path, target: Path) -> list[str]:
    """Write ``target`` (.tar.gz) with everything in ``folder``, below its own name."""
    check_target(folder, target, "--outfile")
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file() or not any(path.iterdir())
    ]
    return archive(folder.parent, paths, target)


def check_target(folder: Path, target: Path, option: str) -> None:
    """Raise SubmissionError unless ``folder`` exists and ``target`` is an archive outside of it."""
    if not folder.is_dir():
        source = {"--output_tar": "--submission_dir"}.get(option, "--input_dir")
        raise SubmissionError(f"there is no folder {folder} to pack", f"check {source}")
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise SubmissionError(f"{option}={target}: a name that ends with .tar.gz is needed")
    if folder.resolve() in target.resolve().parents:
        what = f"{target} lies in the folder that it would hold"
        raise SubmissionError(what, f"give another {option}")


def archive(root: Path, paths: Iterable[Path], target: Path) -> list[str]:
    """Write ``paths`` as they lie below ``root``; returns their names.

    Owners, times and the order of files are fixed, so that only contents decide about the bytes.
    """
    named = {path.relative_to(root).as_posix(): path for path in paths}
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        with (
            part.open("wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out,
        ):
            for name, path in named.items():
                _add(out, name, path)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return list(named)


def _add(out: tarfile.TarFile, name: str, path: Path) -> None:
    member = tarfile.TarInfo(name)
    member.mode = 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644
    if path.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
        out.addfile(member)
    elif path.is_dir():
        member.type = tarfile.DIRTYPE
        out.addfile(member)
    else:
        member.size = path.stat().st_size
        with path.open("rb") as file:
            out.addfile(member, file)


def fingerprint(tree: Path) -> str:
    """A hash of the names and contents of a tree."""
    hash_ = hashlib.sha256()
    for path in files(tree):
        hash_.update(f"{path.relative_to(tree).as_posix()} {sha256(path)}\n".encode())
    return hash_.hexdigest()
