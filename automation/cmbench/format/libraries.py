"""The shared code that a script names under ``uses``: which files an import of it runs and opens.

A name stands for a module, or for a package with everything in it. Its sources are the module, the
modules that it imports, and so on, and the data files of packages that open their own. Imports are
read from the source, those inside functions too: what is imported late runs late. A dotted name in
a string is an import as well (``python -m``, ``import_module``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import cmbench
from cmbench.errors import Error
from cmbench.values import immutable

if TYPE_CHECKING:
    from cmbench.format.module_imports import ModuleImports

FOLDER = "lib"
"""Where a repository of scripts keeps shared code, from its root."""
OWN = "./lib/"
"""How a name begins that means the repository of the script itself, written as a path."""
_NO_SOURCE = ("__pycache__", "tests")


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Library:
    """What a name under ``uses`` stands for.

    ``root`` is the folder to import from, ``digest`` that of all sources, ``words`` what they may
    read of the environment, as ``environment_reads.Reads.words``.
    """

    root: str
    digest: str
    words: tuple[str, ...]


Imports = dict[str, "ModuleImports"]
"""By the path of a module, its size and the time of its last change."""


def locate(script: str, name: str) -> tuple[str, str]:
    """Return the root and the dotted name of ``name``, as the script at ``script`` writes it.

    The repository of the script comes first, then the libraries of the engine's own. Raises
    ``Error`` (``bad-meta``) where neither has it.
    """
    own = os.path.join(os.path.dirname(os.path.dirname(script)), FOLDER)
    dotted = name.removeprefix(OWN).strip("/").replace("/", ".") if name.startswith(OWN) else name
    roots = [own] if name.startswith(OWN) else [own, cmbench.LIBRARIES]
    for root in roots:
        if source_of(root, dotted):
            return root, dotted
    raise Error(
        "bad-meta",
        f"{script}: it uses {name}, and there is no such module or package",
        context=[f"looked in {root}" for root in roots],
        hint="correct the key uses, or add the module to lib of the repository",
    )


def search_path(script: str, names: Iterable[str]) -> list[str]:
    """Return the folders that the programs of ``script`` need to import ``names``."""
    return list(dict.fromkeys(locate(script, name)[0] for name in names))


def source_of(root: str, dotted: str) -> str:
    """Return the path from ``root`` of a module or package; empty where there is none."""
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts):
        return ""
    path = "/".join(parts)
    if os.path.isfile(f"{root}/{path}.py"):
        return f"{path}.py"
    return path if os.path.isdir(f"{root}/{path}") else ""


def sources(root: str, dotted: str, imports: Imports) -> list[str]:
    """Return all files that count for ``dotted``, as sorted paths from ``root``."""
    closure = _Closure(root, imports)
    closure.add(dotted, whole=True)
    closure.finish()
    return sorted(closure.files)


def read_sources(root: str, dotted: str, imports: Imports) -> tuple[list[str], Library]:
    """Return the paths that ``stamp`` looks at for ``dotted``, and what they say.

    A file that appears may change what an import means: so the folders are among the paths.
    """
    import hashlib

    from cmbench.format.environment_reads import Reads

    digest, reads = hashlib.sha256(), Reads()
    files = sources(root, dotted, imports)
    for name in files:
        with open(f"{root}/{name}", "rb") as stream:
            data = stream.read()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
        reads.add(name, data)
    folders = sorted({os.path.dirname(name) + "/" for name in files})
    return [*files, *folders], Library(root, digest.hexdigest()[:32], reads.words())


def stamp(root: str, paths: Iterable[str]) -> str:
    """Return size and time of each path below ``root``; of one that is gone, neither."""
    return "\n".join([f"{name}:{_state(f'{root}/{name}')}" for name in paths])


def _state(path: str) -> str:
    with suppress(OSError):
        info = os.stat(path)
        return f"{0 if path.endswith('/') else info.st_size}:{info.st_ctime_ns}"
    return ":"


def stamp_again(root: str, seen: str) -> str:
    """Return the ``stamp`` of the same paths as ``seen`` as they are now."""
    return stamp(root, [line.rsplit(":", 2)[0] for line in seen.splitlines()])


class _Closure:
    """Collects the files of names, and of what these import."""

    def __init__(self, root: str, imports: Imports) -> None:
        self._root = root
        self._imports = imports
        self._pending: list[str] = []
        self.files: set[str] = set()

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
            for dotted in module.texts:
                # Code that names a package so imports what it lists of it.
                self.add(dotted, whole=True)
            if module.opens_own_files:
                self.files |= set(_data_files(self._root, os.path.dirname(name)))

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
            from cmbench.format.module_imports import read_imports

            package = os.path.dirname(name).replace("/", ".")
            with open(path, "rb") as stream:
                self._imports[key] = read_imports(stream.read(), package)
        return self._imports[key]


def _below(root: str, folder: str) -> Iterator[str]:
    for top, folders, names in os.walk(f"{root}/{folder}"):
        folders[:] = sorted(name for name in folders if name not in _NO_SOURCE)
        inner = os.path.relpath(top, root)
        yield from (f"{inner}/{name}" for name in sorted(names) if _counts(name))


def _data_files(root: str, package: str) -> Iterator[str]:
    """The files of a package that are no modules of it, and all below its folders of data."""
    for name in _below(root, package):
        folder = os.path.dirname(name)
        if folder == package:
            is_data = not name.endswith(".py")
        else:
            is_data = not os.path.isfile(f"{root}/{folder}/__init__.py")
        if is_data:
            yield name


def _counts(name: str) -> bool:
    return not name.startswith((".", "README")) and not name.endswith((".pyc", "~"))
