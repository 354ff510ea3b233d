"""The rules of MLPerf Endpoints v1.0 as data.

Source: endpoints_rules.md and endpoints_submission_rules.md of mlcommons/endpoints_policies, whose
sections are named; what they leave open is as endpoints-submission-cli 1.5.3.0 reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from common.problems import Problem, bad_value

ULTRA_LOW_END = 32
"""The highest concurrency of the first mandatory point and of its short duration (5.4, 6.2)."""
LEAST_POINTS, MOST_POINTS = 7, 32
"""Points of a curve; a dedicated Offline point is one more (5.3)."""
FREE_POINTS = 3
MARGIN = 1.10
"""Points up to this share of C_max are accepted, but cover no region (5.4)."""
SHORT_S, LONG_S, AGENTIC_LONG_S = 600, 1200, 2400
OFFLINE_SHARE = 0.98
"""Of the throughput at C_max, what a dedicated Offline run must reach (5.7.2)."""

ULTRA_LOW, LOW, MEDIUM, HIGH = "ultra-low", "low", "medium", "high"
BANDS = (ULTRA_LOW, LOW, MEDIUM, HIGH)
"""The bands that need a point and an accuracy run (4.3, 5.3), by rising concurrency."""
DEDICATED, ELECTED = "dedicated", "elected"
CONCURRENCY, AGENTIC = "concurrency", "agentic_inference"


@dataclass(frozen=True, slots=True)
class AccuracyGate:
    """Bounds of one metric; ``most`` is None where there is none above."""

    metric: str
    least: float
    most: float | None = None


@dataclass(frozen=True, slots=True)
class EndpointsModel:
    """A model that v1.0 accepts (3.2), spelt as ``point.yaml`` and the folder must spell it.

    ``samples`` are those of the performance data set, ``accuracy_samples`` those of all accuracy
    data sets with their repeats. Agentic gates are in percent; ``output_range`` are tokens a turn.
    """

    name: str
    dataset: str
    samples: int
    accuracy_samples: int = 0
    gates: tuple[AccuracyGate, ...] = ()
    agentic: bool = False
    inline_gate: float = 0.0
    swe_bench_gate: float = 0.0
    output_range: tuple[float, float] | None = None


def _rouge(**values: float) -> tuple[AccuracyGate, ...]:
    return tuple(AccuracyGate(name, 0.99 * value) for name, value in values.items())


MODELS = {
    model.name: model
    for model in (
        EndpointsModel(
            "llama3_1-8b",
            "cnn_dailymail",
            13368,
            13368,
            (
                *_rouge(rouge1=38.7792, rouge2=15.9075, rougel=24.4957, rougelsum=35.793),
                AccuracyGate("gen_len", 0.9 * 8167644, 1.1 * 8167644),
            ),
        ),
        EndpointsModel(
            "gpt-oss-120b",
            "mlperf_gpt_oss_performance",
            6396,
            4395,
            (AccuracyGate("exact_match", 0.99 * 83.13),),
        ),
        EndpointsModel(
            "deepseek-r1",
            "mlperf_deepseek_r1",
            4388,
            4388,
            (AccuracyGate("exact_match", 0.99 * 81.3582),),
        ),
        # Trajectories, and thresholds from the client's example of agentic inference.
        EndpointsModel("kimi-k3", "agentic_combined", 613, agentic=True, inline_gate=58.32,
                       swe_bench_gate=93.5, output_range=(425, 520)),
        EndpointsModel("qwen3_6-35b-a3b", "agentic_combined", 613, agentic=True, inline_gate=55.86,
                       swe_bench_gate=69, output_range=(344, 422)),
        EndpointsModel("deepseek-v4_1-flash", "agentic_combined", 613, agentic=True,
                       inline_gate=52.36, swe_bench_gate=96.4, output_range=(793, 970)),
    )
}  # fmt: skip


def model_of(name: str) -> EndpointsModel:
    """Return the rules of a model; raise Problem for one that v1.0 does not accept."""
    if name in MODELS:
        return MODELS[name]
    raise bad_value(f'"{name}" is no model of MLPerf Endpoints v1.0', f"use one of {_names()}")


def _names() -> str:
    return ", ".join(MODELS)


DIVISIONS = {"standardized": "Standardized", "rdi": "RDI", "serviced": "Serviced"}


def division_of(name: str) -> str:
    """Return a division as files spell it; raise Problem for another one."""
    if name.lower() in DIVISIONS:
        return DIVISIONS[name.lower()]
    raise bad_value(f'"{name}" is no division', f"use one of {', '.join(DIVISIONS)}")


@dataclass(frozen=True, slots=True)
class Regions:
    """Where the three regions of a curve end (5.5), in requests in flight, inclusive."""

    c_min: int
    c_max: int
    low_end: int
    medium_end: int
    ultra_low_end: int = ULTRA_LOW_END

    @property
    def margin_end(self) -> int:
        """The highest concurrency that is accepted."""
        return math.ceil(MARGIN * self.c_max)

    def bounds(self, band: str) -> tuple[int, int]:
        """Return the first and last concurrency of a band; no range where the first is higher."""
        return {
            ULTRA_LOW: (1, self.ultra_low_end),
            LOW: (self.c_min + 1, self.low_end),
            MEDIUM: (self.low_end + 1, self.medium_end),
            HIGH: (self.medium_end + 1, self.c_max),
        }[band]

    def bands(self, concurrency: int) -> tuple[str, ...]:
        """Return the bands that a point covers: none in the margin, or two at 32 and below."""
        bounds = {band: self.bounds(band) for band in BANDS}
        return tuple(band for band, (low, high) in bounds.items() if low <= concurrency <= high)

    def label(self, concurrency: int) -> str:
        """Return the region as ``point.yaml`` spells it (8.3); empty above the margin."""
        ends = (
            (self.c_min, "low_latency"),
            (self.low_end, "low_concurrency"),
            (self.medium_end, "med_concurrency"),
            (self.c_max, "high_concurrency"),
            (self.margin_end, "margin"),
        )
        return next((name for end, name in ends if concurrency <= end), "")


def regions_of(c_max: int, c_min: int, *, overridden: bool = False) -> Regions:
    """Return the regions of a curve (5.5); raise Problem where it can have none.

    Boundaries are rounded half to even, as the reference does. ``overridden`` where the system's
    description sets C_min, which then ends the lowest band too (5.4).
    """
    if not 1 <= c_min <= ULTRA_LOW_END:
        raise bad_value(f"C_min {c_min} is not from 1 to {ULTRA_LOW_END}", "change --cmin")
    if c_max <= ULTRA_LOW_END:
        hint = "an endpoint that serves more at a time; no smaller one can be submitted"
        raise bad_value(f"C_max {c_max} is not above {ULTRA_LOW_END}", hint)
    third = math.log2(c_max - c_min) / 3
    low_end, medium_end = round(c_min + 2**third), round(c_min + 2 ** (2 * third))
    return Regions(c_min, c_max, low_end, medium_end, c_min if overridden else ULTRA_LOW_END)


def least_seconds(concurrency: int, agentic: bool) -> int:
    """Return how long a point must be measured (6.2)."""
    if concurrency <= ULTRA_LOW_END:
        return SHORT_S
    return AGENTIC_LONG_S if agentic else LONG_S


def assign_bands(points: Sequence[int], regions: Regions) -> dict[str, int]:
    """Return the concurrency that represents each band, by the band.

    No point represents two; as many bands as possible have one.
    """
    owners: dict[str, int] = {}

    def place(point: int, tried: set[str]) -> bool:
        for band in regions.bands(point):
            if band in tried:
                continue
            tried.add(band)
            if band not in owners or place(owners[band], tried):
                owners[band] = point
                return True
        return False

    for point in points:
        place(point, set())
    return owners


@dataclass(frozen=True, slots=True)
class SeedSet:
    """Published seeds and the cohorts whose submissions may use them (4.6)."""

    id: str
    scheduler: int
    sample_index: int
    model: int
    cohorts: tuple[str, ...] = field(default=())

    @property
    def seeds(self) -> dict[str, int]:
        """Return the seeds as ``point.yaml`` names them."""
        return {
            "scheduler_rng_seed": self.scheduler,
            "sample_index_rng_seed": self.sample_index,
            "model_seed": self.model,
        }


def cohorts_from(first: str, count: int = 4) -> tuple[str, ...]:
    """Return a cohort and those after it; raise Problem for a name that is none."""
    year, month, index = _parse_cohort(first)
    names = []
    for _ in range(count):
        names.append(f"{year:04d}-{month:02d}-C{index}")
        index += 1
        if index == 2:
            index, month = 0, month + 1
        if month == 13:
            month, year = 1, year + 1
    return tuple(names)


def _parse_cohort(name: str) -> tuple[int, int, int]:
    parts = name.split("-")
    try:
        year, month = int(parts[0]), int(parts[1])
        index = ("C0", "C1").index(parts[2])
    except (ValueError, IndexError):
        month = 0
    if not 1 <= month <= 12 or len(parts) != 3:
        raise bad_value(f'"{name}" is no cohort', "write one as 2026-12-C0 or 2026-12-C1")
    return year, month, index


PUBLISHED = (
    SeedSet(
        "A",
        10487924139932647040,
        586478644936801402,
        9315206023656308754,
        cohorts_from("2026-10-C1"),
    ),
)
"""Source: seedset.yaml of mlcommons/endpoints_policies."""


def seed_sets(text: str) -> tuple[SeedSet, ...]:
    """Return the seeds of a later seedset.yaml; raise Problem where it is none."""
    import yaml

    try:
        cohort = yaml.safe_load(text)["cohort"]
        window = cohorts_from(str(cohort["cohort-id"]))
        return tuple(_seed_set(entry, window) for entry in cohort["seed_sets"])
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        hint = "take seedset.yaml of github.com/mlcommons/endpoints_policies"
        raise Problem("bad-value", f"no seed sets: {error}", hint=hint) from error


def _seed_set(entry: Mapping[str, object], window: tuple[str, ...]) -> SeedSet:
    names = ("scheduler_rng_seed", "sample_index_rng_seed", "model_seed")
    scheduler, index, model = (int(str(entry[name])) for name in names)
    return SeedSet(str(entry["id"]), scheduler, index, model, window)


def seeds_for(cohort: str, published: Sequence[SeedSet] = PUBLISHED) -> SeedSet:
    """Return the seeds that a submission to a cohort may use; raise Problem where none may be."""
    cohorts_from(cohort, 1)
    for seed_set in published:
        if cohort in seed_set.cohorts:
            return seed_set
    window = published[-1].cohorts
    raise Problem(
        "bad-value",
        f"no known seeds may be used for {cohort}: those of set {published[-1].id} are for "
        f"{window[0]} to {window[-1]}",
        hint="take a later seedset.yaml of mlcommons/endpoints_policies: --seed_sets=FILE",
    )
