"""Finding specifications by name: those of this package, and those of a user's own folder."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from . import plugins
from .backend import BackendSpec
from .benchmark import BenchmarkSpec
from .words import CatalogError

S = TypeVar("S", BenchmarkSpec, BackendSpec)


@cache
def _shipped(room: str) -> Mapping[str, tuple[Any, Path]]:
    """The specifications in the modules of a sub-package by name, each with its file."""
    files = sorted((Path(__file__).parent / room).glob("[!_]*.py"))
    modules = [
        (importlib.import_module(f"{__package__}.{room}.{file.stem}"), file) for file in files
    ]
    return {spec.name: (spec, file) for module, file in modules for spec in module.SPECS}


@cache
def _shipped_benchmarks() -> Mapping[str, BenchmarkSpec]:
    return {name: spec for name, (spec, _) in _shipped("benchmark_specs").items()}


@cache
def _shipped_backends() -> Mapping[str, BackendSpec]:
    return {name: spec for name, (spec, _) in _shipped("backend_specs").items()}


def benchmarks(plugins_folder: str | None = None) -> Mapping[str, BenchmarkSpec]:
    """Every benchmark by its name, those of the user's own folder last.

    That folder is the one in the environment where ``plugins_folder`` is None.
    """
    return _together(_shipped_benchmarks(), plugins.specs(BenchmarkSpec, plugins_folder))


def backends(plugins_folder: str | None = None) -> Mapping[str, BackendSpec]:
    """Every backend by its name, as ``benchmarks`` finds them."""
    return _together(_shipped_backends(), plugins.specs(BackendSpec, plugins_folder))


def _together(shipped: Mapping[str, S], own: Mapping[str, S]) -> Mapping[str, S]:
    """Both; the user's own comes first where names are one."""
    return {**shipped, **own}


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


def files_of(name: str, plugins_folder: str | None = None) -> tuple[Path, ...]:
    """The files that say what a benchmark is: its specification, or all of the user's folder."""
    if name in plugins.specs(BenchmarkSpec, plugins_folder):
        return plugins.files(plugins_folder)
    return (_shipped("benchmark_specs")[benchmark(name, plugins_folder).name][1],)


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
