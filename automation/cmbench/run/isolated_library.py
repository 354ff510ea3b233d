"""Shared code of another repository, as one ``customize.py`` imports it.

Two repositories, or two checkouts of one, may have modules of the same name. So what is in ``lib``
of any but the engine's own is imported under a private name, by its own modules too. Each script
loads it anew: an edit counts at once, and what loading opens is observed for each.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from cmbench.lib.import_closure import source_of

_BY_NAME = {
    "importlib": ("import_module",),
    "importlib.resources": ("files", "open_binary", "open_text", "read_binary", "read_text"),
    "importlib.util": ("find_spec",),
    "pkgutil": ("get_data", "resolve_name"),
    "runpy": ("run_module",),
}
"""Functions that find a module by the text of its name."""


class IsolatedLibrary(MetaPathFinder):
    """Imports modules below ``root`` for those who call it as they would ``__import__``."""

    def __init__(self, root: str, package: str) -> None:
        self._root = root
        self._package = package
        self._names = {**vars(builtins), "__import__": self}

    @classmethod
    def load(cls, root: str, script: str) -> IsolatedLibrary:
        """Return the library at ``root`` for the script at ``script``, with nothing imported."""
        identity = hashlib.sha256(f"{root}\0{script}".encode()).hexdigest()[:16]
        made = cls(root, f"cm_library_{identity}")
        for finder in sys.meta_path.copy():
            if isinstance(finder, cls) and finder._package == made._package:
                sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{made._package}.")]:
            del sys.modules[name]
        top = ModuleType(made._package)
        top.__path__ = [root]
        sys.modules[made._package] = top
        sys.meta_path.insert(0, made)
        return made

    def private(self, name: str) -> str:
        """Return what ``name`` is called in ``sys.modules``; itself where it is not in here."""
        held = bool(source_of(self._root, name.partition(".")[0]))
        return f"{self._package}.{name}" if held else name

    def __call__(
        self,
        name: str,
        scope: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """As ``builtins.__import__(name, globals, locals, fromlist, level)``."""
        private = name if level else self.private(name)
        if private == name:
            return by_name(
                builtins.__import__(name, scope, local, names or (), level), self.private
            )
        if names:
            return builtins.__import__(private, None, None, names, 0)
        importlib.import_module(private)
        return sys.modules[f"{self._package}.{name.partition('.')[0]}"]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of this library by its private name, as finders do."""
        if not fullname.startswith(self._package + "."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _IsolatingLoader(spec.loader, self._names)
        return spec


class _IsolatingLoader(Loader):
    """Loads a module that imports from its own library first."""

    def __init__(self, loader: Loader, names: Mapping[str, Any]) -> None:
        if isinstance(loader, SourceFileLoader):
            from cmbench.run.fresh_source import FreshSource

            loader = FreshSource(loader.name, loader.path)
        self._loader = loader
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader of the file does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with builtins of its library's own."""
        vars(module)["__builtins__"] = self._names
        self._loader.exec_module(module)

    def __getattr__(self, name: str) -> Any:
        # Others ask it for the source, for data and for the files of a package.
        return getattr(self._loader, name)


def by_name(module: ModuleType, private: Callable[[str], str]) -> ModuleType:
    """Return ``module``, whose functions that find modules by name find those of a library.

    ``private`` returns the name of a module in ``sys.modules``.
    """
    return _NamingModule(module, private) if module.__name__ in _BY_NAME else module


class _NamingModule(ModuleType):
    """A module of the standard library for those who import from a library of their own."""

    def __init__(self, module: ModuleType, private: Callable[[str], str]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._module = module
        self._private = private

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, ModuleType):
            return by_name(value, self._private)
        if name not in _BY_NAME[self._module.__name__]:
            return value

        @wraps(value)
        def find(named: Any, *rest: Any, **options: Any) -> Any:
            return value(
                self._private(named) if isinstance(named, str) else named, *rest, **options
            )

        return find
