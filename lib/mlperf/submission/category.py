"""The category of a system, inferred from its scenarios where none is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlperf import catalog
from mlperf.catalog import BenchmarkSpec, Category, Division

from .errors import SubmissionError
from .sources import BenchmarkRun, ScenarioSources

BOTH = f"{Category.DATACENTER},{Category.EDGE}"
# A benchmark as a round has it, and what was measured of it.
Measured = tuple[BenchmarkSpec, frozenset[str]]


@dataclass(frozen=True, slots=True)
class CategorisedRuns:
    """Runs with their category, and notes on how it was inferred."""

    runs: tuple[BenchmarkRun, ...]
    notes: tuple[str, ...]


def settle(
    runs: Sequence[BenchmarkRun],
    benchmark_round: str,
    division: str,
    declared_category: Callable[[BenchmarkRun], str],
) -> CategorisedRuns:
    """Return the runs with the category of their system: declared, or inferred from its scenarios.

    In the closed and network divisions scenarios that an inferred category does not have are left
    out. Raises SubmissionError where the scenarios speak for several categories.
    """
    systems: dict[str, list[BenchmarkRun]] = {}
    for run in runs:
        systems.setdefault(run.sut, []).append(run)
    categorised: list[BenchmarkRun] = []
    notes: list[str] = []
    for system, system_runs in systems.items():
        category_name = next(
            filter(None, (declared_category(run) or run.category for run in system_runs)), ""
        )
        if category_name:
            categorised += [replace(run, category=category_name) for run in system_runs]
            continue
        category = _inferred(system, system_runs, benchmark_round)
        for run in system_runs:
            fitting, left_out = _fitting(run, benchmark_round, division, category)
            categorised.append(replace(run, category=category, scenarios=fitting))
            notes += [
                f"{system} {run.benchmark} {scenario} is left out: v{benchmark_round} has no such "
                f"scenario in the category {category}"
                for scenario in left_out
            ]
        if category:
            notes.append(f"{system} counts as {category}, by the scenarios that were measured")
    return CategorisedRuns(tuple(categorised), tuple(notes))


def _inferred(system: str, runs: Sequence[BenchmarkRun], benchmark_round: str) -> str:
    """Return the only category that the scenarios fit; empty without a known benchmark."""
    measured = list(_measured(runs, benchmark_round))
    if not measured:
        return ""
    categories = fitting(measured, benchmark_round)
    if len(categories) == 1:
        return categories[0]
    names_ = sorted({scenario for run in runs for scenario in run.scenarios})
    option = (
        f"--category={' or '.join(categories) if categories else f'edge, datacenter or {BOTH}'}"
    )
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
class CategoryFit:
    """How well what was measured fits a category of a round."""

    category: str
    round: str
    measured: Sequence[Measured]

    @property
    def asks(self) -> bool:
        """Whether all scenarios that the category requires were measured."""
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
    """Return the categories that require just what was measured; else a part of it; else more."""
    every = (CategoryFit(str(name), benchmark_round, measured) for name in (*Category, BOTH))
    fits = [fit for fit in every if fit.known]
    best = max(((fit.asks, fit.has) for fit in fits), default=(False, False))
    if not any(best):
        return []
    categories = [fit.category for fit in fits if (fit.asks, fit.has) == best]
    # Both together say no more than one of them that is enough.
    return [name for name in categories if name != BOTH] or categories


def _fitting(
    run: BenchmarkRun, benchmark_round: str, division: str, category: str
) -> tuple[Mapping[str, ScenarioSources], list[str]]:
    """The scenarios that a category has, and those that it does not have."""
    spec = _spec(run, benchmark_round)
    if spec is None or not Division(division).strict:
        return run.scenarios, []
    allowed = spec.allowed(benchmark_round, category)
    kept = {name: sources for name, sources in run.scenarios.items() if name in allowed}
    return kept, [name for name in run.scenarios if name not in allowed]
