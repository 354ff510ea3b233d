"""Benchmarks and backends of a user's own, in a folder that ``--plugins`` names.

Every Python file of the folder may hold ``SPECS``, a list of specifications. The ``module`` of such
a specification names a class in a file of the same folder: ``my_metric:Inverted`` is the class
``Inverted`` in ``my_metric.py``. A file is imported only when it is needed: specifications stand
in files named ``*_spec.py``, which import nothing but the catalogue.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from common.python_path import add_folder

from .backend import BackendSpec
from .benchmark import BenchmarkSpec
from .text_enums import CatalogError

KEY = "CM_MLPERF_PLUGINS"
PATTERN = "*_spec.py"
S = TypeVar("S", BenchmarkSpec, BackendSpec)


def folder(named: str | None = None) -> Path | None:
    """Return the user's folder: ``named``, or the one in the environment where that is None."""
    path = os.environ.get(KEY) if named is None else named
    return Path(os.path.abspath(os.path.expanduser(path))) if path else None


def specs(kind: type[S], named: str | None = None) -> Mapping[str, S]:
    """Return the user's specifications of a kind by name; raises CatalogError for a broken file."""
    place = folder(named)
    available = _all(str(place)) if place else ()
    return {spec.name: spec for spec in available if isinstance(spec, kind)}


def files(named: str | None = None) -> tuple[Path, ...]:
    """Return the Python files of the user's folder, below it too: what a plugin is made of."""
    place = folder(named)
    return tuple(sorted(place.rglob("*.py"))) if place else ()


def facts(*names: str) -> dict[str, str]:
    """What to compare where one of ``names`` is a plugin's: the digest of the user's files.

    Empty where none of them is. Raises CatalogError for a broken file, OSError for one that cannot
    be read.
    """
    own = {*specs(BenchmarkSpec), *specs(BackendSpec)}
    if own.isdisjoint(names):
        return {}
    place, digest = folder(), hashlib.sha256()
    for path in files():
        code = path.read_bytes()
        digest.update(f"{path.relative_to(place or path)}\0{len(code)}\0".encode() + code)
    return {"plugins": digest.hexdigest()}


@cache
def _all(folder_name: str) -> tuple[Any, ...]:
    if not os.path.isdir(folder_name):
        raise CatalogError(f"--plugins={folder_name}: there is no such folder")
    collected = [
        spec for path in sorted(Path(folder_name).glob(PATTERN)) for spec in _specs_of(path)
    ]
    if not collected:
        raise CatalogError(f"--plugins={folder_name}: no file {PATTERN} there holds SPECS")
    return tuple(collected)


def _specs_of(path: Path) -> Iterator[Any]:
    try:
        yield from load(path).SPECS
    except Exception as error:
        raise CatalogError(f"--plugins: {path} cannot be used: {error}") from error


def module(name: str) -> ModuleType | None:
    """Return the user's module ``name``; None where the folder has no such file."""
    place = folder()
    path = place / f"{name}.py" if place else None
    return load(path) if path is not None and path.is_file() else None


def named_class(target: str, package: str) -> Any:
    """What ``module:class`` names in ``package``, or else in a file of the user's folder.

    Raises ImportError when neither has it.
    """
    name, _, attribute = target.partition(":")
    if importlib.util.find_spec(f"{package}.{name}") is not None:
        return getattr(importlib.import_module(f"{package}.{name}"), attribute)
    loaded = module(name)
    if loaded is None or not hasattr(loaded, attribute):
        raise ImportError(f"there is no {target}, neither in {package} nor in {folder()}")
    return getattr(loaded, attribute)


def load(path: Path) -> ModuleType:
    """Import a file under a name of its own; it may import others of its folder by their names."""
    name = f"mlperf_plugin_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", "") == str(path):
        return known
    add_folder(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    return made
