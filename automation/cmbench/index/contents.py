"""What the files of scripts hold: digests and words, kept in the database by times and sizes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cmbench.format.model import Script
from cmbench.lib.database import Database

if TYPE_CHECKING:
    from cmbench.format.sources import Content, Programs
    from cmbench.index.libraries import LibraryIndex

_CONTENTS = 100
"""So many contents are stored at once: a write waits for the disk."""
_UNREAD = "", "", ""


class ScriptContents:
    """The contents of scripts, by their folders."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stored: dict[str, tuple[str, str, str]] = {}
        self._contents: dict[str, Content] = {}
        self._seen: dict[str, str] = {}
        self._programs: dict[str, Programs] = {}
        self._libraries: LibraryIndex | None = None
        self._unsaved: list[tuple[str, ...]] = []

    def expect(self, path: str, stored: Sequence[str]) -> None:
        """Take the row of a script whose files are needed next: stamp, digest and words."""
        self._stored[path] = (stored[0], stored[1], stored[2]) if stored[0] else _UNREAD

    def get(self, path: str) -> Content:
        """Digest and env words of the script's own files, cached by their times and sizes."""
        content = self._contents.get(path)
        if content is None:
            content = self._contents[path] = self._read(path)
        return content

    def has_changed(self, path: str) -> bool:
        """Whether files of the script are not as when ``content`` saw them: times and sizes."""
        from cmbench.format.sources import own_files, shared_files

        shared = self.get(path).shared
        return self._seen[path] != _files_stamp(own_files(path) + shared_files(path, shared))

    def edited(self, script: Script, uses: Sequence[str]) -> Iterator[str]:
        """Yield the script, and those of ``uses``, that are not as a plan has seen them."""
        if self.has_changed(script.path):
            yield f"the script {script.alias}"
        if uses:
            yield from (f"the library {n}" for n in self.libraries.edited(script.path, uses))

    @property
    def libraries(self) -> LibraryIndex:
        """The shared code that scripts use."""
        if self._libraries is None:
            from cmbench.index.libraries import LibraryIndex

            self._libraries = LibraryIndex(self._database)
        return self._libraries

    def library_words(self, path: str, names: Iterable[str]) -> Iterator[str]:
        """Yield what counts as read of the shared code ``names``, by who imports it."""
        from cmbench.index.library_importers import ScriptImports

        imports = ScriptImports(path, self.get(path).names)
        for name in names:
            library = self.libraries.find(path, name)
            in_hook, in_program = imports.importers(library.dotted)
            yield from library.words if in_program else ()
            yield from library.hook_words if in_hook else ()

    def programs(self, path: str) -> Programs:
        """Return what the source of a script's programs shows that they call and read."""
        from cmbench.format.sources import Programs

        if path not in self._programs:
            self._programs[path] = Programs(path, self.get(path).names)
        return self._programs[path]

    def save(self) -> None:
        """Store the contents that were read from the files themselves."""
        rows, self._unsaved = self._unsaved, []
        if rows:
            sql = "update details set stamp = ?, digest = ?, words = ? where path = ?"
            self._database.store((sql, rows))
        if self._libraries is not None:
            self._libraries.save()

    def _read(self, path: str) -> Content:
        from cmbench.format.sources import Content, own_files, read_content, shared_files

        files = own_files(path)
        names = tuple(sorted([name for name, _, _ in files]))
        stored = self._stored.pop(path) if path in self._stored else self._stored_content(path)
        known, digest, words = stored
        shared = _shared(known, os.path.basename(path))
        if known == _files_stamp(files + shared_files(path, shared)):
            self._seen[path] = known
            return Content(digest, tuple(json.loads(words)), names, shared)
        content = read_content(path, names)
        stamp = _files_stamp(files + shared_files(path, content.shared))
        self._seen[path] = stamp
        self._unsaved.append((stamp, content.digest, json.dumps(content.words), path))
        if len(self._unsaved) >= _CONTENTS:
            self.save()
        return content

    def _stored_content(self, path: str) -> tuple[str, str, str]:
        query = "select stamp, digest, words from details where path = ? and stamp is not null"
        return next(iter(self._database.query(query, (path,))), _UNREAD)


def _files_stamp(files: Iterable[tuple[str, int, int]]) -> str:
    return "\n".join([f"{name}:{size}:{time}" for name, size, time in files])


def _shared(stamp: str, own: str) -> tuple[str, ...]:
    """What a stamp lists of files outside those of the script, whose folder is called ``own``.

    Of another folder (``../NAME/FILE:``), it is the folder; of its own (``../own/README.md:``),
    only what is named.
    """
    if "../" not in stamp:
        return ()
    names = [line.rsplit(":", 2)[0] for line in stamp.splitlines() if line.startswith("../")]
    parts = [name.split("/")[1:3] for name in names]
    return tuple(dict.fromkeys([f"{own}/{rest}" if at == own else at for at, rest in parts]))
