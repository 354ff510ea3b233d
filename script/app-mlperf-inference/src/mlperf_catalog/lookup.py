"""Finding specifications by name: those of this package, and those of a user's own folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TypeVar

from . import plugins
from .backend import BackendSpec
from .benchmark import BenchmarkSpec
from .words import CatalogError

S = TypeVar("S", BenchmarkSpec, BackendSpec)


@cache
def _own(room: str) -> tuple[ModuleType, ...]:
    """The modules of a sub-package, each with ``SPECS``, in the order of their names."""
    package = importlib.import_module(f"{__package__}.{room}")
    found = sorted(each.name for each in pkgutil.iter_modules(package.__path__))
    return tuple(importlib.import_module(f"{package.__name__}.{name}") for name in found)


@cache
def _shipped(kind: type[S], room: str) -> Mapping[str, S]:
    specs = (spec for module in _own(room) for spec in module.SPECS)
    return {spec.name: spec for spec in specs if isinstance(spec, kind)}


def benchmarks(plugins_folder: str | None = None) -> Mapping[str, BenchmarkSpec]:
    """Every benchmark by its name, those of the user's own folder last.

    That folder is the one in the environment where ``plugins_folder`` is None.
    """
    own = plugins.specs(BenchmarkSpec, plugins_folder)
    return {**_shipped(BenchmarkSpec, "benchmark_specs"), **own}


def backends(plugins_folder: str | None = None) -> Mapping[str, BackendSpec]:
    """Every backend by its name, as ``benchmarks`` finds them."""
    return {**_shipped(BackendSpec, "backend_specs"), **plugins.specs(BackendSpec, plugins_folder)}


def names() -> tuple[str, ...]:
    """The names of all benchmarks."""
    return tuple(benchmarks())


def runnable() -> tuple[str, ...]:
    """The names of the benchmarks that the harness can run."""
    return tuple(name for name, spec in benchmarks().items() if spec.runnable)


def benchmark(name: str, plugins_folder: str | None = None) -> BenchmarkSpec:
    """The specification of a benchmark; raises CatalogError when there is none."""
    known = benchmarks(plugins_folder)
    if name not in known:
        raise CatalogError(f"no rules for the benchmark {name}; there are: {', '.join(known)}")
    return known[name]


def backend(name: str, plugins_folder: str | None = None) -> BackendSpec:
    """The specification of a backend; raises CatalogError when there is none."""
    known = backends(plugins_folder)
    if name not in known:
        raise CatalogError(f"no backend {name}; there are: {', '.join(known)}")
    return known[name]


def find(name: str, benchmark_round: str = "", open_division: bool = False) -> BenchmarkSpec | None:
    """The benchmark that a folder of a submission is named after, as it was in the round.

    With ``open_division`` the models count too that are compared with a benchmark there, such as
    ``mobilenet-v1``. None where the name means nothing.
    """
    known = benchmarks().values()
    by_round = [spec for spec in known if spec.aliases and spec.named(name, benchmark_round)]
    found = [*_official(name, benchmark_round), *by_round]
    found += [spec for spec in known if spec.named(name)]
    if open_division:
        found += [spec for spec in known if spec.compared_in_open(name)]
    return found[0].at(benchmark_round) if found and benchmark_round else next(iter(found), None)


def _official(name: str, benchmark_round: str) -> list[BenchmarkSpec]:
    """Those with this very name in trees, and in the round where it is given."""
    return [
        spec
        for spec in benchmarks().values()
        if name in (spec.checker_name, spec.name)
        and (not benchmark_round or spec.allowed(benchmark_round, "edge,datacenter"))
    ]
