"""The files that an import of a module runs and opens, without running anything.

Imports are read from the source, those inside functions too: what is imported late runs late. A
name in a string is an import as well where it has a dot, or follows ``-m`` or ``import_module``.
Data files count where a module of their package, or of one in it, opens files next to itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cmbench.lib.module_imports import ModuleImports

_NO_SOURCE = ("__pycache__", "tests")
_NO_DATA = ("README", "README.md", "README.rst", "README.txt")
Imports = dict[str, "ModuleImports"]
"""By the path of a module, its size and the time of its last change."""


def source_of(root: str, dotted: str) -> str:
    """Return the path from ``root`` of a module or package; empty where there is none."""
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts):
        return ""
    path = "/".join(parts)
    # The order of Python: a package, a module, a package without __init__.py.
    if not os.path.isfile(f"{root}/{path}/__init__.py") and os.path.isfile(f"{root}/{path}.py"):
        return f"{path}.py"
    return path if os.path.isdir(f"{root}/{path}") else ""


def import_closure(root: str, dotted: str, imports: Imports | None = None) -> list[str]:
    """Return all files that count for ``dotted``, as sorted paths from ``root``.

    A package counts with everything in it. ``imports`` are what earlier calls have read.
    """
    closure = _Closure(root, {} if imports is None else imports)
    closure.add(dotted, whole=True)
    closure.finish()
    return sorted(closure.files)


def statement_closure(
    root: str, dotted: str, imports: Imports | None = None
) -> tuple[set[str], set[str]]:
    """Return the modules that an import of ``dotted`` runs, and the files that these only name.

    Those are data, and all that counts for the names in strings: programs that are started. A file
    may be both.
    """
    imports = {} if imports is None else imports
    closure = _Closure(root, imports, follows_texts=False)
    closure.add(dotted, whole=True)
    closure.finish()
    named = _Closure(root, imports)
    for text in closure.texts:
        named.add(text, whole=True)
    named.finish()
    return closure.files - closure.data, named.files | closure.data


class _Closure:
    """Collects the files of names, and of what these import; names in strings if it follows these.

    ``data`` are the files that are no modules.
    """

    def __init__(self, root: str, imports: Imports, follows_texts: bool = True) -> None:
        self._root = root
        self._imports = imports
        self._follows_texts = follows_texts
        self._pending: list[str] = []
        self.files: set[str] = set()
        self.data: set[str] = set()
        self.texts: set[str] = set()

    def add(self, dotted: str, whole: bool = False) -> None:
        """Add a module, or a package: with all that is in it where ``whole``."""
        path = source_of(self._root, dotted)
        if not path:
            return
        self._add_parents(dotted)
        if path.endswith(".py"):
            self._add_file(path)
        elif whole:
            for name in _below(self._root, path):
                self._add_file(name)
        else:
            self._add_file(f"{path}/__init__.py")

    def finish(self) -> None:
        """Follow the imports of what was added, until nothing is new."""
        while self._pending:
            name = self._pending.pop()
            module = self._read(name)
            for dotted in module.names:
                self.add(dotted)
            self.texts |= set(module.texts)
            for dotted in module.texts if self._follows_texts else ():
                # Code that names a package so imports what it lists of it.
                self.add(dotted, whole=True)
            folder = os.path.dirname(name) if module.opens_own_files else ""
            while folder:
                self.data |= set(_data_files(self._root, folder))
                folder = os.path.dirname(folder)
        self.files |= self.data

    def _add_parents(self, dotted: str) -> None:
        parts = dotted.split(".")
        for count in range(1, len(parts)):
            self._add_file("/".join([*parts[:count], "__init__.py"]))

    def _add_file(self, name: str) -> None:
        if name not in self.files and os.path.isfile(f"{self._root}/{name}"):
            self.files.add(name)
            if name.endswith(".py"):
                self._pending.append(name)

    def _read(self, name: str) -> ModuleImports:
        path = f"{self._root}/{name}"
        info = os.stat(path)
        key = f"{path}:{info.st_size}:{info.st_ctime_ns}"
        if key not in self._imports:
            from cmbench.lib.module_imports import read_imports

            package = os.path.dirname(name).replace("/", ".")
            with open(path, "rb") as stream:
                self._imports[key] = read_imports(stream.read(), package)
        return self._imports[key]


def _below(root: str, folder: str, packages: bool = True) -> Iterator[str]:
    """Yield the files below ``folder``; if ``packages`` is false, not those of packages in it."""
    seen: set[str] = set()
    for top, folders, names in os.walk(f"{root}/{folder}", followlinks=True):
        # A link may lead back to a folder above it.
        known, real = len(seen), os.path.realpath(top)
        seen.add(real)
        if len(seen) == known:
            folders[:] = []
            continue
        folders[:] = sorted(
            name
            for name in folders
            if name not in _NO_SOURCE and (packages or not _is_package(f"{top}/{name}"))
        )
        inner = os.path.relpath(top, root)
        yield from (f"{inner}/{name}" for name in sorted(names) if _counts(name))


def _is_package(folder: str) -> bool:
    return os.path.isfile(f"{folder}/__init__.py")


def _data_files(root: str, package: str) -> Iterator[str]:
    """Yield the files of a package that are no modules, and all below its folders of data."""
    for name in _below(root, package, packages=False):
        if os.path.dirname(name) != package or not name.endswith(".py"):
            yield name


def _counts(name: str) -> bool:
    return not name.startswith(".") and name not in _NO_DATA and not name.endswith((".pyc", "~"))
