"""Finding specifications by name: those of this package, and those of a user's own folder."""

from __future__ import annotations

import importlib
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

from . import plugins
from .backend import BackendSpec
from .benchmark import BenchmarkSpec
from .text_enums import CatalogError

S = TypeVar("S", BenchmarkSpec, BackendSpec)


class ShippedSpecs(Mapping[str, S]):
    """The specifications in the modules of a sub-package.

    For a lookup it imports the modules whose names that of the specification begins with, and
    the others only where it is in none of these.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        folder = Path(__file__).parent / package.rpartition(".")[2]
        self._files = {file.stem: file for file in sorted(folder.glob("[!_]*.py"))}
        self._found: dict[str, S] = {}

    def __getitem__(self, name: str) -> S:
        if name not in self._found:
            stems = list(self._files)
            likely = [stem for stem in stems if _plain(name).startswith(_plain(stem))]
            for stem in likely + stems:
                self._found.update({spec.name: spec for spec in self._specs(stem)})
                if name in self._found:
                    break
        return self._found[name]

    def file(self, name: str) -> Path:
        """Return the file that holds a specification; raises KeyError where there is none."""
        for stem, file in self._files.items():
            if any(spec.name == name for spec in self._specs(stem)):
                return file
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (spec.name for stem in self._files for spec in self._specs(stem))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _specs(self, stem: str) -> Sequence[S]:
        specs: Sequence[S] = importlib.import_module(f"{self._package}.{stem}").SPECS
        return specs


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name))


@cache
def _shipped_benchmarks() -> ShippedSpecs[BenchmarkSpec]:
    return ShippedSpecs("mlperf.catalog.benchmark_specs")


@cache
def _shipped_backends() -> ShippedSpecs[BackendSpec]:
    return ShippedSpecs("mlperf.catalog.backend_specs")


def benchmarks(plugins_folder: str | None = None) -> Mapping[str, BenchmarkSpec]:
    """Return every benchmark by its name, those of the user's own folder last.

    That folder is the one in the environment where ``plugins_folder`` is None.
    """
    return _together(_shipped_benchmarks(), plugins.specs(BenchmarkSpec, plugins_folder))


def backends(plugins_folder: str | None = None) -> Mapping[str, BackendSpec]:
    """Return every backend by its name, as ``benchmarks`` finds them."""
    return _together(_shipped_backends(), plugins.specs(BackendSpec, plugins_folder))


def _together(shipped: Mapping[str, S], own: Mapping[str, S]) -> Mapping[str, S]:
    """Return both, the shipped ones lazily; the user's own come first for equal names."""
    return ChainMap(dict(own), cast(MutableMapping[str, S], shipped)) if own else shipped


def names() -> tuple[str, ...]:
    """Return the names of all benchmarks."""
    return tuple(benchmarks())


def runnable() -> tuple[str, ...]:
    """Return the names of the benchmarks that the harness can run."""
    return tuple(name for name, spec in benchmarks().items() if spec.runnable)


def benchmark(name: str, plugins_folder: str | None = None) -> BenchmarkSpec:
    """Return the specification of a benchmark; raises CatalogError when there is none."""
    known = benchmarks(plugins_folder)
    if name not in known:
        raise CatalogError(f"no rules for the benchmark {name}; there are: {', '.join(known)}")
    return known[name]


def files_of(name: str, plugins_folder: str | None = None) -> tuple[Path, ...]:
    """The files that say what a benchmark is: its specification, or all of the user's folder."""
    if name in plugins.specs(BenchmarkSpec, plugins_folder):
        return plugins.files(plugins_folder)
    return (_shipped_benchmarks().file(benchmark(name, plugins_folder).name),)


def backend(name: str, plugins_folder: str | None = None) -> BackendSpec:
    """Return the specification of a backend; raises CatalogError when there is none."""
    known = backends(plugins_folder)
    if name not in known:
        raise CatalogError(f"no backend {name}; there are: {', '.join(known)}")
    return known[name]


def find(name: str, benchmark_round: str = "", open_division: bool = False) -> BenchmarkSpec | None:
    """Return the benchmark that a folder of a submission is named after, as it was in the round.

    With ``open_division`` the models count too that are compared with a benchmark there, such as
    ``mobilenet-v1``. None where the name means nothing.
    """
    known = benchmarks().values()
    by_round = [spec for spec in known if spec.aliases and spec.has_name(name, benchmark_round)]
    specs = [*_official(name, benchmark_round), *by_round]
    specs += [spec for spec in known if spec.has_name(name)]
    if open_division:
        specs += _compared(name, benchmark_round)
    return specs[0].at(benchmark_round) if specs and benchmark_round else next(iter(specs), None)


def _official(name: str, benchmark_round: str) -> list[BenchmarkSpec]:
    """Return those with this very name in trees, and in the round where it is given."""
    return [
        spec
        for spec in benchmarks().values()
        if name in (spec.checker_name, spec.name) and _had(spec, benchmark_round)
    ]


def _compared(name: str, benchmark_round: str) -> list[BenchmarkSpec]:
    """Return those that the open division compares such a model with, the closest first.

    What the round has comes before what it has no more, as in the guesses of its checker.
    """
    fits = {spec.name: spec.fits_in_open(name) for spec in benchmarks().values()}
    matches = [spec for spec in benchmarks().values() if fits[spec.name]]
    return sorted(matches, key=lambda s: (not _had(s, benchmark_round), -fits[s.name]))


def _had(spec: BenchmarkSpec, benchmark_round: str) -> bool:
    """Return whether a benchmark is one of a round, or there is no round to ask about."""
    return not benchmark_round or bool(spec.allowed(benchmark_round, "edge,datacenter"))
