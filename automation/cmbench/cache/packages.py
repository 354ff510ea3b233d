"""Files of a Python environment in an entry that pip has replaced or removed since.

What is installed into an environment later may bring another version of what is there: torch
brings a newer setuptools. Each installed package lists its files with their digests in its
``RECORD`` (https://packaging.python.org/en/latest/specifications/recording-installed-packages/).
"""

from __future__ import annotations

import base64
import csv
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cmbench.lib.files import file_checksum

_PACKAGES = "site-packages"


class Packages:
    """The packages of all Python environments below a folder, read on demand."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._listed: dict[str, dict[str, str] | None] = {}

    def explain(self, name: str) -> bool:
        """Whether pip has made a file what it is now, or has removed it; ``name`` is relative."""
        root = self._environment(name)
        listed = None if root is None else self._list(root)
        if listed is None:
            return False
        path = Path(self._folder, name)
        if not os.path.lexists(path):
            # In bin there are files of no package, such as the interpreter.
            return name not in listed and _PACKAGES in path.parts
        digest = listed.get(name)
        # A list of files does not list its own digest.
        return digest == _digest(path) if digest else digest is not None and path.name == "RECORD"

    def _list(self, root: str) -> dict[str, str] | None:
        """What the packages of an environment list; none where a list is damaged itself."""
        if root not in self._listed:
            self._listed[root] = None
            with suppress(OSError, ValueError, csv.Error):
                self._listed[root] = dict(_listed(Path(self._folder, root), root))
        return self._listed[root]

    def _environment(self, name: str) -> str | None:
        """The environment that a file is a package's of; none for other files."""
        parts = Path(name).parts
        ends = [n for n, part in enumerate(parts[:-1]) if part in (_PACKAGES, "bin")]
        roots = (os.path.join("", *parts[:n]) for end in ends for n in range(end, -1, -1))
        return next(
            (root for root in roots if Path(self._folder, root, "pyvenv.cfg").is_file()), None
        )


def _listed(environment: Path, root: str) -> Iterator[tuple[str, str]]:
    """What the packages of an environment list: names below the payload, and digests."""
    for record in environment.glob(f"lib*/*/{_PACKAGES}/*.dist-info/RECORD"):
        here = os.path.join(root, os.path.relpath(record.parents[1], environment))
        with open(record, encoding="utf-8", newline="") as stream:
            for row in csv.reader(stream):
                if len(row) == 3:
                    yield os.path.normpath(os.path.join(here, row[0])), row[1]


def _digest(path: Path) -> str:
    raw = bytes.fromhex(file_checksum(path, "sha256"))
    return "sha256=" + base64.urlsafe_b64encode(raw).decode().rstrip("=")
