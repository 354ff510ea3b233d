"""Shared code of another repository, as one ``customize.py`` imports it.

Two repositories, or two checkouts of one, may have modules of the same name. So what is in ``lib``
of any but the engine's own is imported under a private name, by its own modules too.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from cmbench.lib.import_closure import source_of


class IsolatedLibrary(MetaPathFinder):
    """Imports modules below ``root`` for those who call it as they would ``__import__``."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._package = f"cm_library_{hashlib.sha256(root.encode()).hexdigest()[:16]}"
        self._names = {**vars(builtins), "__import__": self}

    @classmethod
    def at(cls, root: str) -> IsolatedLibrary:
        """Return the library at ``root``, the same one for the whole process."""
        made = cls(root)
        for finder in sys.meta_path:
            if isinstance(finder, cls) and finder._package == made._package:
                return finder
        top = ModuleType(made._package)
        top.__path__ = [root]
        sys.modules[made._package] = top
        sys.meta_path.insert(0, made)
        return made

    def holds(self, name: str) -> bool:
        """Return whether ``name``, without a dot, is a module or package of this library."""
        return bool(source_of(self._root, name))

    def __call__(
        self,
        name: str,
        scope: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """As ``builtins.__import__(name, globals, locals, fromlist, level)``."""
        top = name.partition(".")[0]
        if level or not self.holds(top):
            return builtins.__import__(name, scope, local, names or (), level)
        private = f"{self._package}.{name}"
        if names:
            return builtins.__import__(private, None, None, names, 0)
        importlib.import_module(private)
        return sys.modules[f"{self._package}.{top}"]

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
        self._loader = loader
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader of the file does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with builtins of its library's own."""
        vars(module)["__builtins__"] = self._names
        self._loader.exec_module(module)
