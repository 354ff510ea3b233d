"""The rules of the benchmarks, read from ``rules.json``: the one place where they are written.

This module imports nothing of the package, so that a script can read the rules before the
environment that the harness runs in is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("rules.json")
ORDER = ("SingleStream", "MultiStream", "Server", "Offline")


class RuleError(ValueError):
    """Something that the rules do not know: a benchmark, a category, a scenario, a round."""


@dataclass(frozen=True, slots=True)
class Metric:
    """An accuracy figure: that of the fp32 reference, and the least in the closed division."""

    metric: str
    unit: str
    reference: float
    target: float


@dataclass(frozen=True, slots=True)
class Period:
    """The scenarios that a category must measure from round ``first`` to round ``last``."""

    first: str
    last: str
    scenarios: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compliance:
    """A compliance test and the rounds that ask for it."""

    test: str
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class BenchmarkRules:
    """One benchmark.

    ``loadgen_key`` is its name in LoadGen's built-in rules; where these do not know it
    (``known_to_loadgen`` false), its limits have to be given to LoadGen. ``server_limit_ms`` is
    the Server latency limit, ``loaded_samples`` how many samples a performance run keeps in
    memory, ``offline_minimum`` the fewest samples of an Offline run, ``test01_samples`` how many
    answers TEST01 logs, and ``accuracy_delta_percent`` how much they may differ in accuracy.
    """

    name: str
    checker_name: str
    loadgen_key: str
    known_to_loadgen: bool
    server_limit_ms: float | None
    loaded_samples: int
    dataset_size: int
    offline_minimum: int
    accuracy: tuple[Metric, ...]
    scenarios: Mapping[str, tuple[Period, ...]]
    compliance: tuple[Compliance, ...]
    test01_samples: int
    accuracy_delta_percent: float

    def all_scenarios(self, category: str = "") -> tuple[str, ...]:
        """Every scenario of a category, or of all of them; raises RuleError when it has none."""
        if category and category not in self.scenarios:
            known = ", ".join(self.scenarios)
            raise RuleError(f"{self.name} is not measured in the category {category}, only {known}")
        periods = [
            period
            for name, periods in self.scenarios.items()
            for period in periods
            if category in ("", name)
        ]
        wanted = {scenario for period in periods for scenario in period.scenarios}
        return tuple(scenario for scenario in ORDER if scenario in wanted)

    def checked(self, scenario: str, category: str = "") -> str:
        """``scenario`` itself; raises RuleError naming those there are when it is none of them."""
        known = self.all_scenarios(category)
        if scenario not in known:
            where = f" in the category {category}" if category else ""
            raise RuleError(
                f"{self.name} has no scenario {scenario}{where}; it has: {', '.join(known)}"
            )
        return scenario

    def in_round(self, scenario: str, benchmark_round: str) -> bool:
        """Whether a round has this scenario of the benchmark in any category."""
        return any(
            scenario in period.scenarios and _within(benchmark_round, period.first, period.last)
            for periods in self.scenarios.values()
            for period in periods
        )

    def last_round(self, scenario: str) -> str:
        """The last round that has the scenario."""
        rounds = [
            period.last
            for periods in self.scenarios.values()
            for period in periods
            if scenario in period.scenarios
        ]
        return max(rounds, key=_position)

    def required(self, benchmark_round: str, category: str) -> tuple[str, ...]:
        """The scenarios that a round asks for in a category, or in several with commas between."""
        wanted = {
            scenario
            for name in category.split(",")
            for period in self.scenarios.get(name, ())
            if _within(benchmark_round, period.first, period.last)
            for scenario in period.scenarios
        }
        return tuple(scenario for scenario in ORDER if scenario in wanted)

    def tests(self, benchmark_round: str) -> tuple[str, ...]:
        """The compliance tests that a round asks for; those of the last round once it is gone."""
        last = max((p.last for periods in self.scenarios.values() for p in periods), key=_position)
        asked = min(benchmark_round, last, key=_position)
        return tuple(each.test for each in self.compliance if _within(asked, each.first, each.last))


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return data


def rounds() -> tuple[str, ...]:
    """All rounds, in the order of time."""
    return tuple(_data()["rounds"])


def qsl_seeds() -> dict[str, int]:
    """By round the seed that tells its LoadGen from those of other rounds."""
    return dict(_data()["qsl_seeds"])


def seeds(benchmark_round: str, test: str = "") -> dict[str, int]:
    """The seeds that a round's LoadGen uses: qsl, sample_index, schedule; as far as known.

    The compliance test TEST05 has seeds of its own.
    """
    if test == "TEST05":
        return dict(_data()["test05_seeds"].get(benchmark_round, {}))
    qsl = qsl_seeds().get(benchmark_round)
    others = _data()["other_seeds"].get(benchmark_round, {})
    return {**({} if qsl is None else {"qsl": qsl}), **others}


def minimum_duration_ms() -> int:
    """How long a performance run must last."""
    return int(_data()["minimum_duration_ms"])


def names() -> tuple[str, ...]:
    """The benchmarks that have rules."""
    return tuple(_data()["benchmarks"])


def benchmark(name: str) -> BenchmarkRules:
    """The rules of a benchmark; raises RuleError when there are none."""
    data = _data()["benchmarks"].get(name)
    if data is None:
        raise RuleError(f"no rules for the benchmark {name}; there are: {', '.join(names())}")
    return BenchmarkRules(
        **{
            **data,
            "name": name,
            "accuracy": tuple(Metric(**each) for each in data["accuracy"]),
            "scenarios": {
                category: tuple(
                    Period(each["first"], each["last"], tuple(each["scenarios"]))
                    for each in periods
                )
                for category, periods in data["scenarios"].items()
            },
            "compliance": tuple(Compliance(**each) for each in data["compliance"]),
        }
    )


def _position(benchmark_round: str) -> int:
    known = rounds()
    if benchmark_round not in known:
        raise RuleError(f"no round {benchmark_round}; there are: {', '.join(known)}")
    return known.index(benchmark_round)


def _within(benchmark_round: str, first: str, last: str) -> bool:
    return _position(first) <= _position(benchmark_round) <= _position(last)
