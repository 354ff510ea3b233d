"""The category of a system, from what was measured on it where nobody tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlperf import catalog
from mlperf.catalog import BenchmarkSpec, Category, Division

from .errors import SubmissionError
from .sources import BenchmarkRun, Sources

BOTH = f"{Category.DATACENTER},{Category.EDGE}"
# A benchmark as a round has it, and what was measured of it.
Measured = tuple[BenchmarkSpec, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Settled:
    """Runs whose category is known, and what a person should know of how it came about."""

    runs: tuple[BenchmarkRun, ...]
    notes: tuple[str, ...]


def settle(
    runs: Sequence[BenchmarkRun],
    benchmark_round: str,
    division: str,
    told: Callable[[BenchmarkRun], str],
) -> Settled:
    """Give each run the category of its system: as ``told``, or as its scenarios are asked for.

    In the closed and network divisions scenarios that an inferred category does not have are left
    out. Raises SubmissionError where the scenarios speak for several categories.
    """
    systems: dict[str, list[BenchmarkRun]] = {}
    for run in runs:
        systems.setdefault(run.sut, []).append(run)
    made: list[BenchmarkRun] = []
    notes: list[str] = []
    for system, mine in systems.items():
        known = next(filter(None, (told(run) or run.category for run in mine)), "")
        if known:
            made += [replace(run, category=known) for run in mine]
            continue
        category = _inferred(system, mine, benchmark_round)
        for run in mine:
            fitting, left_out = _fitting(run, benchmark_round, division, category)
            made.append(replace(run, category=category, scenarios=fitting))
            notes += [
                f"{system} {run.benchmark} {each} is left out: v{benchmark_round} has no such "
                f"scenario in the category {category}"
                for each in left_out
            ]
        if category:
            notes.append(f"{system} counts as {category}, by the scenarios that were measured")
    return Settled(tuple(made), tuple(notes))


def _inferred(system: str, runs: Sequence[BenchmarkRun], benchmark_round: str) -> str:
    """The one category that the scenarios speak for; empty where no benchmark is known."""
    measured = list(_measured(runs, benchmark_round))
    if not measured:
        return ""
    found = fitting(measured, benchmark_round)
    if len(found) == 1:
        return found[0]
    names_ = sorted({scenario for run in runs for scenario in run.scenarios})
    option = f"--category={' or '.join(found) if found else f'edge, datacenter or {BOTH}'}"
    raise SubmissionError(
        f"the scenarios measured on {system} ({', '.join(names_)}) do not tell its category",
        f"give {option}",
        "needs-input",
        {option: f"the category of {system}"},
    )


def _measured(runs: Iterable[BenchmarkRun], benchmark_round: str) -> Iterable[Measured]:
    for run in runs:
        spec = _spec(run, benchmark_round)
        if spec is not None and spec.allowed(benchmark_round, BOTH):
            yield spec, frozenset(run.scenarios)


def _spec(run: BenchmarkRun, benchmark_round: str) -> BenchmarkSpec | None:
    name = run.mapping.get(run.benchmark, run.benchmark)
    return catalog.find(name, benchmark_round, open_division=True)


@dataclass(frozen=True, slots=True)
class Fit:
    """How well what was measured fits a category of a round."""

    category: str
    round: str
    measured: Sequence[Measured]

    @property
    def asks(self) -> bool:
        """Whether all that the category asks for was measured."""
        return all(set(spec.required(self.round, self.category)) <= m for spec, m in self.measured)

    @property
    def has(self) -> bool:
        """Whether the category has all that was measured."""
        return all(m <= set(spec.allowed(self.round, self.category)) for spec, m in self.measured)

    @property
    def known(self) -> bool:
        """Whether the category has all the benchmarks."""
        return all(spec.allowed(self.round, self.category) for spec, _ in self.measured)


def fitting(measured: Sequence[Measured], benchmark_round: str) -> list[str]:
    """The categories that ask for just what was measured; else for a part of it; else for more."""
    every = (Fit(str(name), benchmark_round, measured) for name in (*Category, BOTH))
    fits = [each for each in every if each.known]
    best = max(((each.asks, each.has) for each in fits), default=(False, False))
    if not any(best):
        return []
    found = [each.category for each in fits if (each.asks, each.has) == best]
    # Both together say no more than one of them that is enough.
    return [name for name in found if name != BOTH] or found


def _fitting(
    run: BenchmarkRun, benchmark_round: str, division: str, category: str
) -> tuple[Mapping[str, Sources], list[str]]:
    """The scenarios that a category has, and those that it does not have."""
    spec = _spec(run, benchmark_round)
    if spec is None or not Division(division).strict:
        return run.scenarios, []
    allowed = spec.allowed(benchmark_round, category)
    kept = {name: each for name, each in run.scenarios.items() if name in allowed}
    return kept, [name for name in run.scenarios if name not in allowed]
