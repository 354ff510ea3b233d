"""One configuration over time: its runs by the versions they used, with a test of significance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from cmbench_results import query
from cmbench_results.distinguish import differing, in_words
from cmbench_results.query import Filter
from cmbench_results.store import Store, results_by_id
from cmbench_results.values import LOWER, OFFICIAL, BenchmarkResult, configuration_of

RUNS = 400
"""Results that are read: the newest ones of a benchmark and scenario on a system."""
SIGNIFICANT = 0.05
"""Below this probability a difference counts as one."""
_VERSION = "version of "
_EXACT = 20_000
"""Ways to divide the runs of two versions that are counted one by one."""


@dataclass(frozen=True, slots=True)
class VersionRuns:
    """The valid runs of a configuration with the same versions, in the order of their time.

    ``ratio`` is that of the medians of this and the versions before, above 1 is better;
    ``probability`` is that of a difference as large as this one if the versions did not matter.
    Both are ``None`` where there is nothing to compare.
    """

    versions: str
    runs: tuple[BenchmarkResult, ...]
    ratio: float | None = None
    probability: float | None = None
    is_decidable: bool = False

    @property
    def values(self) -> list[float]:
        """Return the figures of its runs."""
        return [run.value for run in self.runs if run.value is not None]

    @property
    def verdict(self) -> str:
        """Return in words whether it is faster or slower than the versions before."""
        if self.ratio is None or self.probability is None:
            return ""
        change = f"{'faster' if self.ratio >= 1 else 'slower'} by {abs(self.ratio - 1):.1%}"
        if not self.is_decidable:
            return f"{change}: too few runs to tell from noise (4 of each version do)"
        if self.probability < SIGNIFICANT:
            return f"{change} (p = {self.probability:.2g})"
        return f"no significant difference (p = {self.probability:.2g})"


def history(store: Store, result: BenchmarkResult) -> tuple[VersionRuns, ...]:
    """Return the runs of a configuration by their versions, in the order of the first of each."""
    work, system = result.workload, result.system
    words = {"benchmark": work.benchmark, "scenario": work.scenario, "system": system.name}
    columns = {name: (value,) for name, value in words.items() if value}
    columns["tier"] = (f"!{OFFICIAL}",)
    rows = query.find(store, Filter(columns), "-measured_at", RUNS).rows
    own = results_by_id(store, [row["uid"] for row in rows])
    same = _without_versions(result)
    runs = [run for run in own.values() if _is_valid(run) and _without_versions(run) == same]
    return _compared(sorted(runs, key=lambda run: run.measured_at), result.direction == LOWER)


def _is_valid(run: BenchmarkResult) -> bool:
    return run.value is not None and run.validity != "INVALID"


def _without_versions(result: BenchmarkResult) -> Mapping[str, str]:
    facts = configuration_of(result)
    return {k: v for k, v in facts.items() if not k.startswith(_VERSION) and k != "framework"}


def _compared(runs: Sequence[BenchmarkResult], down: bool) -> tuple[VersionRuns, ...]:
    groups: dict[tuple[tuple[str, str], ...], list[BenchmarkResult]] = {}
    for run in runs:
        groups.setdefault(tuple(sorted(run.software.versions.items())), []).append(run)
    named = [{_VERSION + name: value for name, value in versions} for versions in groups]
    names = differing(named, shown=())
    lines: list[VersionRuns] = []
    for facts, members in zip(named, groups.values(), strict=True):
        words = in_words({name: facts.get(name, "") for name in names})
        line = VersionRuns(words or "the same versions", tuple(members))
        lines.append(_beside(lines[-1], line, down) if lines else line)
    return tuple(lines)


def _beside(before: VersionRuns, line: VersionRuns, down: bool) -> VersionRuns:
    """Return versions as they compare with those before."""
    base, middle = statistics.median(before.values), statistics.median(line.values)
    if not base or not middle:
        return line
    sizes = len(before.values), len(line.values)
    return VersionRuns(
        line.versions,
        line.runs,
        base / middle if down else middle / base,
        probability(before.values, line.values),
        2 / math.comb(sum(sizes), sizes[0]) < SIGNIFICANT,
    )


def probability(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value of the rank-sum test of Wilcoxon, Mann and Whitney.

    Exact where the ways to divide the figures can be counted, ties included; else by the normal
    approximation with its corrections for ties and continuity.
    """
    ranks = _ranks([*one, *other])
    total, size = len(ranks), len(one)
    expected = size * (total + 1) / 2
    distance = abs(sum(ranks[:size]) - expected)
    ways = math.comb(total, size)
    if ways <= _EXACT:
        sums = (sum(chosen) for chosen in combinations(ranks, size))
        return sum(abs(value - expected) >= distance - 1e-9 for value in sums) / ways
    middle = (total + 1) / 2
    variance = sum((rank - middle) ** 2 for rank in ranks) / (total - 1)
    deviation = math.sqrt(size * (total - size) / total * variance)
    return math.erfc(max(0.0, distance - 0.5) / deviation / math.sqrt(2)) if deviation else 1.0


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of every figure; equal ones share the middle of theirs."""
    places: dict[float, list[int]] = {}
    for rank, value in enumerate(sorted(values), 1):
        places.setdefault(value, []).append(rank)
    return [statistics.mean(places[value]) for value in values]
