"""One archive of a tree, the same bytes for the same tree."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

from .errors import SubmissionError
from .layouts import DIVISIONS


def pack(tree: Path, target: Path) -> list[str]:
    """Write ``target`` (.tar.gz) with the divisions of ``tree``; returns the packed names.

    Owners, times and the order of files are fixed, so that only contents decide about the bytes.
    """
    if not tree.is_dir():
        raise SubmissionError(f"there is no tree {tree}", "check --submission_dir")
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise SubmissionError(f"--output_tar={target}: a name that ends with .tar.gz is needed")
    if tree.resolve() in target.resolve().parents:
        raise SubmissionError(f"{target} lies in the tree itself", "give another --output_tar")
    paths = [
        path
        for division in DIVISIONS
        for path in sorted((tree / division).rglob("*"))
        if path.is_file()
    ]
    if not paths:
        raise SubmissionError(f"{tree} holds no files of a submission", "generate it first")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            _write(packed, tree, paths)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return [path.relative_to(tree).as_posix() for path in paths]


def _write(packed: gzip.GzipFile, tree: Path, paths: list[Path]) -> None:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            member = tarfile.TarInfo(path.relative_to(tree).as_posix())
            member.size, member.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                archive.addfile(member, file)
