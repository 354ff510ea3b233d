"""The files that an import of a module runs and opens, without running anything.

Imports are read from the source, those inside functions too: what is imported late runs late. A
name in a string is an import as well where it has a dot, or follows ``-m`` or ``import_module``.
Data files count where a module of their package, or of one in it, opens files next to itself.
What a source does not show, ``cmbench.run.observation`` sees where a step runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cmbench.lib.module_imports import ModuleImports

_NO_SOURCE = ("__pycache__", "tests")
_COMPILED = (".so", ".pyd", ".pyc")
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
    return path if os.path.isdir(f"{root}/{path}") else _compiled(root, path)


def _compiled(root: str, path: str) -> str:
    """Return the path of a module that has no source; empty where there is none."""
    folder, last = os.path.split(path)
    with suppress(OSError):
        for name in sorted(os.listdir(f"{root}/{folder}")):
            if name.startswith(f"{last}.") and name.endswith(_COMPILED):
                return os.path.join(folder, name)
    return ""


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
        named.add_text(text)
    named.add_data(closure.data)
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
        if os.path.isfile(f"{self._root}/{path}"):
            self._add_file(path)
        elif whole:
            for name in _below(self._root, path):
                self._add_file(name)
        else:
            self._add_file(f"{path}/__init__.py")

    def add_text(self, dotted: str) -> None:
        """Add what a string names: a module, a whole package, or the module of a class."""
        if source_of(self._root, dotted):
            # Code that names a package so imports what it lists of it.
            self.add(dotted, whole=True)
        else:
            self.add(dotted.rpartition(".")[0])

    def add_data(self, names: Iterable[str]) -> None:
        """Add files that are opened; programs among them run, if names in strings count."""
        self.data.update(names)
        for name in names if self._follows_texts else ():
            self._add_file(name)

    def finish(self) -> None:
        """Follow the imports of what was added, until nothing is new."""
        while self._pending:
            name = self._pending.pop()
            module = self._read(name)
            for dotted in module.names:
                self.add(dotted)
            self.texts |= set(module.texts)
            for dotted in module.texts if self._follows_texts else ():
                self.add_text(dotted)
            opened = [os.path.dirname(name)] if module.opens_own_files else []
            for folder in (*opened, *map(self._folder_of, module.opened_next_to)):
                self._add_opened(folder, module.file_names)
        self.files |= self.data

    def _folder_of(self, dotted: str) -> str:
        """Return the folder of a module, or of the one that has what ``dotted`` means."""
        path = source_of(self._root, dotted) or source_of(self._root, dotted.rpartition(".")[0])
        return path if os.path.isdir(f"{self._root}/{path}") else os.path.dirname(path)

    def _add_opened(self, folder: str, file_names: Iterable[str]) -> None:
        """Add the data of ``folder`` and those above, and what ``file_names`` may mean in it."""
        # Modules that are listed are imported as well: the import has their package.
        patterns = {os.path.basename(n) for n in file_names if not _is_of_modules(n)}
        for name in _all_below(self._root, folder) if folder else ():
            if any(fnmatch(os.path.basename(name), pattern) for pattern in patterns):
                self.add_data([name])
        while folder:
            self.add_data(list(_data_files(self._root, folder)))
            folder = os.path.dirname(folder)
        self.add_data(list(_data_of_root(self._root)))

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
    for top, folders, names in _walk(f"{root}/{folder}"):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _NO_SOURCE and (packages or not _is_package(f"{top}/{name}"))
        )
        inner = os.path.relpath(top, root)
        yield from (f"{inner}/{name}" for name in sorted(names) if _counts(name))


def _all_below(root: str, folder: str) -> Iterator[str]:
    """Yield the files below ``folder``, of tests and hidden ones as well."""
    for top, folders, names in _walk(f"{root}/{folder}"):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.relpath(f"{top}/{name}", root) for name in names)


def _walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """As ``os.walk`` that follows links, but for one that leads back to a folder above it."""
    seen: set[str] = set()
    for top, folders, names in os.walk(folder, followlinks=True):
        known = len(seen)
        seen.add(os.path.realpath(top))
        if len(seen) == known:
            folders[:] = []
        else:
            yield top, folders, names


def _is_of_modules(pattern: str) -> bool:
    return pattern.endswith(".py") and not pattern.removesuffix(".py").isidentifier()


def _is_package(folder: str) -> bool:
    return os.path.isfile(f"{folder}/__init__.py")


def _data_files(root: str, package: str) -> Iterator[str]:
    """Yield the files of a package that are no modules, and all below its folders of data."""
    for name in _below(root, package, packages=False):
        if os.path.dirname(name) != package or not name.endswith(".py"):
            yield name


def _data_of_root(root: str) -> Iterator[str]:
    """Yield the files of no package: next to packages, and in folders without a module."""
    for name in sorted(os.listdir(root)):
        if os.path.isfile(f"{root}/{name}"):
            yield from [name] if _counts(name) and not name.endswith(".py") else []
        elif name not in _NO_SOURCE:
            files = list(_below(root, name))
            yield from files if not any(file.endswith(".py") for file in files) else ()


def _counts(name: str) -> bool:
    return not name.startswith(".") and name not in _NO_DATA and not name.endswith((".pyc", "~"))
