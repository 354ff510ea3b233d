"""What the rules and this collection say of one benchmark: the specification that others read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any

from . import rounds
from .forms import USUAL
from .metrics import Metric
from .scenario import (
    DEFAULT_LIMIT_MS,
    MINIMUM_DURATION_MS,
    SCENARIOS,
    TOKEN_RESULTS,
    ResultKey,
    Scenario,
)
from .text_enums import Answers, CatalogError, Category

SHARE, STRICT_SHARE = 0.99, 0.999
# A number of tokens must come this close to the reference.
TOKENS_SHARE, TOKENS_MOST = 0.9, 1.1


@dataclass(frozen=True, slots=True)
class Target:
    """An accuracy figure of the fp32 reference and the bounds of the closed division.

    ``share`` of the reference must be reached; where ``most`` is set, no more than that share.
    """

    metric: Metric
    reference: float
    share: float = SHARE
    most: float | None = None

    @property
    def unit(self) -> str:
        """Return the unit of the reference and the bounds."""
        return self.metric.unit

    @property
    def target(self) -> float:
        """Return the least figure in the closed division, in ``unit``."""
        return self.reference if self.share == 1 else _digits(self.reference * self.share)

    @property
    def greatest(self) -> float | None:
        """Return the greatest figure in the closed division, in ``unit``, where there is one."""
        return None if self.most is None else _digits(self.reference * self.most, 10)

    def holds(self, value: float) -> bool:
        """Return whether a figure is good enough for the closed division."""
        return value >= self.target and (self.greatest is None or value <= self.greatest)

    @property
    def text(self) -> str:
        """Return the bounds for people."""
        most = "" if self.greatest is None else f" to {self.greatest:g}"
        return f"{self.target:g}{most} {self.unit}".rstrip()


def _digits(value: float, count: int = 8) -> float:
    """Return a product such as 0.99 * 76.46 without the digits that floating point adds."""
    return float(f"{value:.{count}g}")


def tokens(metric: Metric, reference: float, most: float | None = TOKENS_MOST) -> Target:
    """Return the bounds of a number of tokens, which are the same whatever the accuracy target."""
    return Target(metric, reference, TOKENS_SHARE, most)


@dataclass(frozen=True, slots=True)
class Period:
    """The scenarios that a category must, and may, measure from round ``first`` to ``last``."""

    first: str
    last: str
    required: Sequence[Scenario]
    optional: Sequence[Scenario] = ()

    def covers(self, benchmark_round: str) -> bool:
        """Return whether the round lies in the period."""
        return rounds.within(benchmark_round, self.first, self.last)

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Return all that may be measured."""
        return (*self.required, *self.optional)


@dataclass(frozen=True, slots=True)
class Compliance:
    """A compliance test and the rounds that ask for it."""

    test: str
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Limit:
    """The p99 latency limits of Server or Interactive, in ms, as far as a benchmark has them.

    Language models have limits for the first token and for further ones.
    """

    latency_ms: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name: that of the submission's folders in some rounds, or a vendor's."""

    name: str
    first: str = rounds.ROUNDS[0]
    last: str = rounds.LATEST
    vendor: str = ""


@dataclass(frozen=True, slots=True)
class Assets:
    """Tags of the scripts that bring model and data, and the words that name them in ``--adr``.

    ``model`` and ``data`` are without a form: ``_tiny`` or another is added. ``calibration``
    is the variation of ``data`` with samples for quantization; empty where there are none.
    ``base`` names the variation with what several benchmarks have in common. ``by_hand``: the user
    has to fetch the data, so it is requested before the model is downloaded. ``gated``: the env key
    of a checkpoint that Hugging Face gives out, as ``repository``, only to those with permission;
    both are empty for others. ``forms`` are those that the scripts make.
    """

    model: str
    data: str
    model_name: str
    data_name: str
    calibration: str = "_training"
    packages: tuple[str, ...] = ()
    base: str = ""
    by_hand: bool = False
    gated: str = ""
    repository: str = ""
    forms: tuple[str, ...] = USUAL


@dataclass(frozen=True, slots=True)
class Outputs:
    """Samples whose output is submitted, by round.

    They are files ``SAMPLE.*`` in ``folder`` of the accuracy run.
    """

    folder: str
    samples: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Need:
    """Memory in bytes that a form of a benchmark takes, and how to do with less."""

    memory: int
    hint: str


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The weights of a model in millions, and the floating-point operations that it takes at least.

    The operations, for a sample or for a token of input or output, are those of the rules' model,
    rounded down; where samples differ in length, half of the mean or less (twice the multiply-adds
    published with the models). 0 where no bound is known.
    """

    parameters: int = 0
    sample_operations: float = 0
    token_operations: float = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """Folders of a benchmark in the scratch space of NVIDIA's flow, and their GB.

    The size is an estimate from those of the published data set and checkpoints. ``memory`` is the
    GB of main memory that NVIDIA's guide requires, 0 where it names none. ``whole`` are folders
    below the scratch space with the end of their files' names and their least number.
    """

    gigabytes: int
    data: str
    models: str
    preprocessed_data: str
    memory: int = 0
    whole: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """Fields of a specification that had other values from round ``first`` to ``last``."""

    first: str
    last: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BenchmarkSpec:
    """One benchmark.

    Attributes:
        name: Ours, as ``--model`` takes it.
        checker_name: The name of its folders in submission trees, ``name`` unless it is given.
        loadgen_key: Its name in LoadGen's built-in mlperf.conf; where that file does not know it
            (``known_to_loadgen`` false), its limits have to be given to LoadGen; ``name``
            unless it is given.
        loaded_samples: How many samples a performance run keeps in memory, all unless it is given.
        dataset_size: Samples of the data set; an accuracy run takes ``accuracy_samples`` of them,
            or all.
        offline_minimum: Fewest samples of an Offline run, ``dataset_size`` unless it is given.
        minimum_duration_ms: Least length of a performance run.
        accuracy: The figures that are judged, the main one first.
        edge, datacenter: Scenarios by rounds; ``both`` where a system of both categories has
            others than those of the two together.
        test01_samples: How many answers TEST01 logs.
        accuracy_delta_percent: How much accuracy may differ between result and test.
        equal_issue: Whether every sample must be issued equally often, as samples differ in cost.
        percentiles: Latency percentiles that differ from those of the scenarios.
        token_rates: Whether results are in tokens per second.
        inferred_tokens: Whether they are, by a fixed number of tokens for a sample.
        generates: Whether the backend generates tokens one after the other, and LoadGen times the
            first of an answer; only backends that generate too can run it.
        module: ``module:class`` of its part of the harness; empty where it cannot be run here,
            which ``unavailable`` explains.
        open_names: Patterns of models that the open division compares with it.
        fastest: The number format that pays most on a CPU with instructions for it.
        refuses: Number formats and forms that are impossible, and why.
        outputs: Outputs that people look at.
        in_scenario: Fields that have other values in a scenario.
        memory: What a form of it needs, where that is more than most machines have.
        size: Weights and operations of its model.
        scratch: Its folders in the scratch space of NVIDIA's flow.
    """

    name: str
    dataset_size: int
    accuracy: tuple[Target, ...]
    checker_name: str = ""
    loadgen_key: str = ""
    loaded_samples: int = 0
    offline_minimum: int = 0
    edge: tuple[Period, ...] = ()
    datacenter: tuple[Period, ...] = ()
    both: tuple[Period, ...] = ()
    limits: Mapping[Scenario, Limit] = field(default_factory=dict)
    compliance: tuple[Compliance, ...] = ()
    known_to_loadgen: bool = True
    accuracy_samples: int | None = None
    minimum_duration_ms: int = MINIMUM_DURATION_MS
    test01_samples: int = 4096
    accuracy_delta_percent: float = 1.0
    equal_issue: bool = False
    percentiles: Mapping[Scenario, float] = field(default_factory=dict)
    token_rates: bool = False
    inferred_tokens: bool = False
    generates: bool = False
    answers: Answers = Answers.FIXED
    aliases: tuple[Alias, ...] = ()
    open_names: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    module: str = ""
    unavailable: str = ""
    assets: Assets | None = None
    fastest: str = ""
    refuses: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, Need] = field(default_factory=dict)
    size: ModelSize = ModelSize()
    scratch: Scratch | None = None
    outputs: Outputs | None = None
    in_scenario: Mapping[Scenario, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill in the names and counts that are left out."""
        for key in ("checker_name", "loadgen_key"):
            object.__setattr__(self, key, getattr(self, key) or self.name)
        for key in ("loaded_samples", "offline_minimum"):
            object.__setattr__(self, key, getattr(self, key) or self.dataset_size)

    @property
    def runnable(self) -> bool:
        """Return whether the harness can run it."""
        return bool(self.module)

    @property
    def server_limit_ms(self) -> float | None:
        """Return the latency limit of Server, None where it has none."""
        limit = self.limits.get(Scenario.SERVER)
        return limit.latency_ms if limit else None

    @property
    def server_limit_s(self) -> float:
        """The latency limit of Server in seconds; LoadGen's default where the rules have none."""
        return (self.server_limit_ms or DEFAULT_LIMIT_MS) / 1000

    @property
    def scenarios(self) -> Mapping[str, tuple[Period, ...]]:
        """Return the scenarios by rounds of the categories that have any."""
        by_category = {Category.EDGE: self.edge, Category.DATACENTER: self.datacenter}
        return {category: periods for category, periods in by_category.items() if periods}

    def at(self, benchmark_round: str) -> BenchmarkSpec:
        """Return the specification with the values that held in a round."""
        for change in self.changes:
            if rounds.within(benchmark_round, change.first, change.last):
                return replace(self, **change.values)
        return self

    def of(self, scenario: Scenario | None) -> BenchmarkSpec:
        """Return the specification with the values that hold in a scenario."""
        changes = self.in_scenario.get(scenario) if scenario else None
        return replace(self, **changes) if changes else self

    def has_name(self, name: str, benchmark_round: str = "") -> bool:
        """Return whether ``name`` means this benchmark, in a round or in any."""
        return name in (self.name, self.checker_name) or any(
            name == alias.name
            and (not benchmark_round or rounds.within(benchmark_round, alias.first, alias.last))
            for alias in self.aliases
        )

    @property
    def family(self) -> str:
        """Return the name without accuracy target and data set, which is NVIDIA's word for it."""
        return re.sub(r"(-brats)?-99(\.9)?$", "", self.name)

    def fits_in_open(self, name: str) -> int:
        """How closely a name fits the models that the open division compares with the benchmark.

        Zero without a matching pattern: a longer pattern is more specific.
        """
        return max(
            (len(pattern) for pattern in self.open_names if fnmatch(name, pattern)), default=0
        )

    def result(self, scenario: Scenario, benchmark_round: str = rounds.LATEST) -> ResultKey:
        """Return the figure that counts in a scenario; raises CatalogError for an unknown round."""
        if self.token_rates and scenario in TOKEN_RESULTS:
            return TOKEN_RESULTS[scenario]
        return scenario.result_in(benchmark_round)

    def all_scenarios(self, category: str = "") -> tuple[Scenario, ...]:
        """Every scenario of a category, or of all of them; raises CatalogError if it has none."""
        if category and category not in self.scenarios:
            known = ", ".join(self.scenarios)
            raise CatalogError(
                f"{self.name} is not measured in the category {category}, only {known}"
            )
        periods = [
            period
            for name, periods in self.scenarios.items()
            for period in periods
            if category in ("", name)
        ]
        return _ordered(scenario for period in periods for scenario in period.scenarios)

    def usual_scenario(self, category: str = "") -> Scenario:
        """Offline, or the first that there is; raises CatalogError if the category has none."""
        known = self.all_scenarios(category)
        return Scenario.OFFLINE if Scenario.OFFLINE in known else known[0]

    def checked(self, scenario: str, category: str = "") -> Scenario:
        """Return the scenario with this name; raises CatalogError naming those there are."""
        known = self.all_scenarios(category)
        if scenario not in known:
            where = f" in the category {category}" if category else ""
            raise CatalogError(
                f"{self.name} has no scenario {scenario}{where}; it has: {', '.join(known)}"
            )
        return Scenario(scenario)

    def in_round(self, scenario: str, benchmark_round: str) -> bool:
        """Return whether a round has this scenario of the benchmark in any category."""
        return any(
            scenario in period.scenarios and period.covers(benchmark_round)
            for period in self._periods()
        )

    def last_round(self, scenario: str = "") -> str:
        """Return the last round that has the benchmark, or one of its scenarios."""
        last_rounds = [p.last for p in self._periods() if not scenario or scenario in p.scenarios]
        return max(last_rounds, key=rounds.position)

    def required(self, benchmark_round: str, category: str) -> tuple[Scenario, ...]:
        """The scenarios that a round requires in a category, or in several with commas between."""
        periods = self._of_category(benchmark_round, category)
        return _ordered(scenario for period in periods for scenario in period.required)

    def allowed(self, benchmark_round: str, category: str) -> tuple[Scenario, ...]:
        """Return the scenarios that a round requires or accepts in a category, or in several."""
        periods = self._of_category(benchmark_round, category)
        return _ordered(scenario for period in periods for scenario in period.scenarios)

    def tests(self, benchmark_round: str) -> tuple[str, ...]:
        """The compliance tests that a round requires; those of the last round once it is gone."""
        latest = min(benchmark_round, self.last_round(), key=rounds.position)
        return tuple(
            compliance.test
            for compliance in self.compliance
            if rounds.within(latest, compliance.first, compliance.last)
        )

    def _periods(self) -> tuple[Period, ...]:
        return (*self.edge, *self.datacenter)

    def _of_category(self, benchmark_round: str, category: str) -> Iterator[Period]:
        categories = Category.each(category)
        joint = [period for period in self.both if period.covers(benchmark_round)]
        if len(categories) > 1 and joint:
            yield from joint
            return
        for name in categories:
            yield from (p for p in self.scenarios.get(name, ()) if p.covers(benchmark_round))


def _ordered(scenarios: Iterator[Scenario]) -> tuple[Scenario, ...]:
    wanted = set(scenarios)
    return tuple(scenario for scenario in SCENARIOS if scenario in wanted)


def strict(spec: BenchmarkSpec, **changes: Any) -> BenchmarkSpec:
    """Return the "-99.9" twin of a "-99" specification: ten times closer to the reference.

    A number of tokens keeps its bounds.
    """
    return replace(
        spec,
        name=_stricter(spec.name),
        checker_name=_stricter(spec.checker_name),
        aliases=tuple(replace(alias, name=_stricter(alias.name)) for alias in spec.aliases),
        accuracy=_closer(spec.accuracy),
        accuracy_delta_percent=0.1,
        fastest="bfloat16" if spec.fastest else "",
        changes=tuple(
            replace(change, values=_closer_values(change.values)) for change in spec.changes
        ),
        **changes,
    )


def _stricter(name: str) -> str:
    return f"{name}.9" if name.endswith("-99") else name


def _closer(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    return tuple(
        replace(target, share=STRICT_SHARE) if target.share == SHARE else target
        for target in targets
    )


def _closer_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: _closer(value) if key == "accuracy" else value for key, value in values.items()}
