"""What a run needs on another machine besides its cache entries: repositories and libraries.

A parcel is a set of files, named by its content; the other machine keeps it under that name, so
that what is there already is not sent again. Libraries are those that the engine imports, as they
are installed here: no package index is asked. Their compiled parts are used where they fit; each of
them works without.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import os
import re
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cmbench.errors import Error
from cmbench.lib import engine_code
from cmbench.lib.files import file_checksum, file_error
from cmbench.record import revision

WORKER = (
    "import sys, runpy; sys.path[1:1] = [sys.argv.pop(1)]; "
    "runpy.run_module('cmbench_sweep.worker', run_name='__main__', alter_sys=True)"
)
"""A worker for a Python that has no libraries of ours; before its arguments is where they are."""
_ENGINE = ("cmind", "Jinja2", "PyYAML", "packaging", "requests", "rich")
_NOT_RUN = {"setuptools", "wheel", "pip"}
_LEFT_OUT = {".git", ".venv", ".cm", ".tox", "__pycache__", "node_modules"}
_OF_RUNS = {"cache", "experiment"}
"""Folders of a repository in which CM keeps what runs make; deeper ones are code."""


@dataclass(frozen=True)
class DeploymentArchive:
    """Files by their names in the parcel; ``head`` is the commit that they are at, if any."""

    files: Mapping[str, Path]
    head: str = ""

    @cached_property
    def digest(self) -> str:
        """Return its name: the digest of its content."""
        sha = hashlib.sha256(self.head.encode())
        for name, path in self.files.items():
            status = path.lstat()
            what = os.readlink(path) if stat.S_ISLNK(status.st_mode) else _content(path)
            sha.update(f"{name}\0{status.st_mode & 0o111}\0{what}\n".encode())
        return sha.hexdigest()[:24]

    @cached_property
    def packed(self) -> bytes:
        """A compressed tar file of it."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w:gz", compresslevel=1) as tar:
            for name, path in self.files.items():
                tar.add(path, name, recursive=False, filter=_ownerless)
            if self.head:
                head = tarfile.TarInfo(".git/HEAD")
                head.size = len(self.head)
                tar.addfile(head, io.BytesIO(self.head.encode()))
        return made.getvalue()


def laid_out(parcel: DeploymentArchive, below: Path) -> Path:
    """Return the folder of an archive here, made once; raise ``no-space`` and others."""
    final = below / parcel.digest
    if not final.exists():
        try:
            below.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".arriving-", dir=below) as draft:
                with tarfile.open(fileobj=io.BytesIO(parcel.packed), mode="r:gz") as tar:
                    tar.extractall(Path(draft) / "all")
                with suppress(FileExistsError, IsADirectoryError):
                    (Path(draft) / "all").rename(final)
        except OSError as problem:
            if not final.exists():
                raise file_error(problem, final) from None
    return final


def _content(path: Path) -> str:
    return file_checksum(path, "sha256")


def _ownerless(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def repository(folder: str) -> DeploymentArchive:
    """Return a repository of scripts with uncommitted files, without ignored ones."""
    names = _tracked(folder)
    root = Path(folder)
    every = sorted(_walked(folder) if names is None else names)
    files = {name: root / name for name in every if _is_file(root / name)}
    return DeploymentArchive(files, revision(folder))


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _tracked(folder: str) -> list[str] | None:
    """Return what git counts to a checkout; ``None`` where it is none."""
    if not os.path.exists(os.path.join(folder, ".git")):
        return None
    words = ["git", "-C", folder, "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def _walked(folder: str) -> Iterator[str]:
    for top, folders, files in os.walk(folder):
        out = _LEFT_OUT | (_OF_RUNS if top == folder else set())
        folders[:] = [name for name in folders if name not in out]
        yield from (os.path.relpath(os.path.join(top, name), folder) for name in files)


def folder(path: str) -> DeploymentArchive:
    """Return all files of a folder; raise ``bad-value`` if it is not one."""
    if not os.path.isdir(path):
        raise Error(
            "bad-value", f"{path} is not a folder", hint="`pip download -d DIR PACKAGE` makes one"
        )
    return DeploymentArchive(_below(Path(path), sorted(Path(path).rglob("*"))))


def engine() -> DeploymentArchive:
    """Return the packages of cmbench, where they are installed outside of any repository."""
    files: dict[str, Path] = {}
    for folder in engine_code.travelling():
        files |= _below(folder.parent, sorted(folder.rglob("*")))
    return DeploymentArchive(files)


def repository_of_engine(repositories: Iterable[str]) -> str:
    """Return the one of ``repositories`` that holds cmbench, a checkout; empty for none."""
    paths = engine_code.import_paths()
    return next(
        (r for r in repositories if all(p.is_relative_to(Path(r).resolve()) for p in paths)), ""
    )


def libraries() -> DeploymentArchive:
    """Return what the engine imports, as it is installed here."""
    files: dict[str, Path] = {}
    for distribution in _distributions(_ENGINE):
        root = Path(str(distribution.locate_file("")))
        files |= _below(root, (root / str(file) for file in distribution.files or ()))
    return DeploymentArchive(dict(sorted(files.items())))


def _below(root: Path, paths: Iterable[Path]) -> dict[str, Path]:
    """Return files by their names below ``root``, without what was compiled from others."""
    sources = (p for p in paths if ".." not in p.parts and "__pycache__" not in p.parts)
    return {str(path.relative_to(root)): path for path in sources if _is_file(path)}


def _distributions(names: Sequence[str]) -> Iterator[importlib.metadata.Distribution]:
    """Installed distributions with all that they need."""
    pending, seen = list(names), set(_NOT_RUN)
    while pending:
        name = re.split(r"[^\w.-]", pending.pop(), maxsplit=1)[0]
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        yield distribution
        pending += [text for text in distribution.requires or () if "extra ==" not in text]
