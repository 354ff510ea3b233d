"""What a script directory holds: its own files, a digest of them, the env words they may read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from operator import attrgetter

from cmbench.format.meta import META_FILES
from cmbench.values import immutable

_IGNORED = re.compile(
    r"(^|/)(__pycache__|tests|detection_test\.yaml|\.[^/]*|README[^/]*|COPYRIGHT[^/]*|[^/]*\.(md|pyc))$"
)
_NAME = attrgetter("name")
_SHORT = 16
"""Digits of a digest that tell the versions of one file apart."""
_SHELL_WORD = re.compile(rb"(?:\$\{?[#!]?|\bprintenv\s+)([A-Za-z_][A-Za-z0-9_]*)")
_OS_WORD = re.compile(rb"(?:environ(?:\.get\(|\[)|getenv\()\s*['\"](\w+)['\"]")
_ENV_WORD = re.compile(rb"\b(?:CM|MLC)_[A-Z0-9_]+")


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Content:
    """Digest of a script's own files, their names, the env words that its programs may read.

    A word ``os:NAME`` is a variable of the process that ``customize.py`` itself looks at.
    """

    digest: str
    words: tuple[str, ...]
    names: tuple[str, ...]


def own_files(path: str) -> list[tuple[str, int, int]]:
    """Name, size and time (ns) of each file of the script directory ``path`` that counts."""
    found: list[tuple[str, int, int]] = []
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(f"{path}/{prefix}") as entries:
            for entry in sorted(entries, key=_NAME):
                name = prefix + entry.name
                if _IGNORED.search(name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(name + "/")
                elif entry.is_file():
                    info = entry.stat()
                    found.append((name, info.st_size, info.st_mtime_ns))
    return found


def read_content(path: str, names: Sequence[str]) -> Content:
    """The content of the script directory ``path``, whose own files are ``names``, sorted."""
    import hashlib

    digest = hashlib.sha256()
    words: set[bytes] = set()
    for name in names:
        with open(os.path.join(path, name), "rb") as stream:
            data = stream.read()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
        if name == "customize.py":
            words |= {b"os:" + word for word in _OS_WORD.findall(data)}
        elif name not in META_FILES:
            words |= _words(name, data)
    found = tuple(sorted(word.decode() for word in words))
    return Content(digest.hexdigest()[:32], found, tuple(names))


def file_digests(path: str) -> dict[str, str]:
    """A digest of each file of the script directory ``path`` that counts, read from the disk."""
    from pathlib import Path

    from cmbench.lib.files import file_checksum

    names = [name for name, _, _ in own_files(path)]
    return {name: file_checksum(Path(path, name), "sha256")[:_SHORT] for name in names}


def _words(name: str, data: bytes) -> set[bytes]:
    patterns: list[Callable[[bytes], list[bytes]]] = []
    if name.endswith(".sh"):
        patterns.append(_SHELL_WORD.findall)
    if name.endswith(".py"):
        patterns.append(_OS_WORD.findall)
    if name.endswith((".sh", ".py", ".json", ".yaml", ".txt", ".c", ".cpp", ".cu")):
        patterns.append(_ENV_WORD.findall)
    return {word for find in patterns for word in find(data)}
