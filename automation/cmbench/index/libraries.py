"""The shared code that scripts use, with the digests of its sources kept between commands."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from cmbench.errors import Error
from cmbench.format.libraries import ScriptLibrary, locate, read_sources, stamp, stamp_again
from cmbench.lib.database import Database
from cmbench.lib.import_closure import Imports


class LibraryIndex:
    """What names under ``uses`` stand for, by the rows of the table ``libraries``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[str, tuple[str, ScriptLibrary]] = {}
        self._imports: Imports = {}
        self._unsaved: list[tuple[str, ...]] = []

    def find(self, path: str, name: str) -> ScriptLibrary:
        """Return what ``name`` under ``uses`` of the script at ``path`` stands for.

        Raises ``Error`` (``bad-meta``) where there is no such module or package.
        """
        root, dotted = locate(path, name)
        key = f"{root}/{dotted}"
        if key not in self._seen:
            self._seen[key] = self._stored(key) or self._read(root, dotted)
        return self._seen[key][1]

    def files(self, path: str, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the files that count for ``names``, as paths from the roots that have them.

        Raises ``Error`` (``bad-meta``) where there is no such module or package.
        """
        files: dict[str, frozenset[str]] = {}
        for name in names:
            library = self.find(path, name)
            seen, _ = self._seen[f"{library.root}/{library.dotted}"]
            lines = frozenset(line.rsplit(":", 2)[0] for line in seen.splitlines())
            files[library.root] = files.get(library.root, frozenset()) | lines
        return files

    def digest(self, path: str, name: str) -> str:
        """Return the digest of ``find``, or an empty string where that is gone."""
        with suppress(Error):
            return self.find(path, name).digest
        return ""

    def edited(self, path: str, names: Iterable[str]) -> Iterator[str]:
        """Yield those of ``names`` whose sources are not as when ``find`` read them."""
        for name in names:
            root, dotted = locate(path, name)
            seen, library = self._seen[f"{root}/{dotted}"]
            # A folder has another time when a module in it is compiled.
            if stamp_again(root, seen) != seen and (
                self._read(root, dotted)[1].digest != library.digest
            ):
                yield name

    def save(self) -> None:
        """Store the digests that were read from the files themselves."""
        rows, self._unsaved = self._unsaved, []
        if rows:
            self._database.store(("insert or replace into libraries values (?,?,?,?)", rows))

    def _stored(self, key: str) -> tuple[str, ScriptLibrary] | None:
        root, dotted = os.path.split(key)
        query = "select stamp, digest, words from libraries where path = ?"
        for seen, digest, words in self._database.query(query, (key,)):
            if stamp_again(root, seen) == seen:
                read = [tuple(each) for each in json.loads(words)]
                return seen, ScriptLibrary(root, dotted, digest, *read)
        return None

    def _read(self, root: str, dotted: str) -> tuple[str, ScriptLibrary]:
        paths, library = read_sources(root, dotted, self._imports)
        seen, words = stamp(root, paths), json.dumps([library.words, library.hook_words])
        self._unsaved.append((f"{root}/{dotted}", seen, library.digest, words))
        return seen, library
