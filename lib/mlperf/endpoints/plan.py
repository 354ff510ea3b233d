"""Which points a curve of MLPerf Endpoints needs, how long they take, and which are missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from common.problems import bad_value
from common.text import aligned
from mlperf.client_run import ClientRun

from . import rules
from .rules import BANDS, DEDICATED, ELECTED, EndpointsModel, Regions, SeedSet

OFFLINE = "offline"
FREE = "free"
WEDNESDAY = 2
PADDING = 1.1
"""By which a point is planned longer than it must be, as the client does."""


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """One run. ``purpose`` is the band that it stands for, ``free`` or ``offline``."""

    concurrency: int
    purpose: str
    seconds: int
    accuracy: bool
    elected: bool = False

    @property
    def offline(self) -> bool:
        """Return whether all requests are sent at once."""
        return self.purpose == OFFLINE

    @property
    def name(self) -> str:
        """Return the name of its folder, in a tree as well (8.1)."""
        return f"r{self.concurrency}"


@dataclass(frozen=True, slots=True)
class CurvePlan:
    """All runs of one submission of a model on a system, by rising concurrency."""

    model: EndpointsModel
    division: str
    regions: Regions
    points: tuple[PlannedPoint, ...]
    seeds: SeedSet
    cohort: str
    answer_s: float = 0.0
    measured: tuple[tuple[int, float], ...] = ()

    def answer_seconds(self, point: PlannedPoint) -> float:
        """Return how long one answer takes at a point; 0 where that is unknown.

        That is what runs at the nearest concurrency (by ratio) have measured, else ``answer_s``.
        """
        level = min(point.concurrency, self.regions.c_max)
        near = sorted(self.measured, key=lambda pair: abs(math.log(pair[0] / level)))
        return near[0][1] if near else self.answer_s

    def passes(self, point: PlannedPoint) -> int:
        """Return how many times the data set has to be sent, so that a point lasts long enough.

        The client stops after a number of requests, and not after a time.
        """
        one_pass = self.pass_seconds(point)
        return max(1, math.ceil(PADDING * point.seconds / one_pass)) if one_pass else 1

    def pass_seconds(self, point: PlannedPoint) -> float:
        """Return how long one pass over the data takes; 0 where that is unknown."""
        together = min(point.concurrency, self.regions.c_max)
        return self.model.samples * self.answer_seconds(point) / together

    def estimate(self, point: PlannedPoint) -> float:
        """Return the seconds of a point with its accuracy run, at least its least duration."""
        one_pass = self.pass_seconds(point)
        judged = one_pass * self.model.accuracy_samples / self.model.samples
        measuring = max(float(point.seconds), self.passes(point) * one_pass)
        return measuring + (judged if point.accuracy else 0.0)

    @property
    def hours(self) -> float:
        """Return the hours of all points together."""
        return sum(self.estimate(point) for point in self.points) / 3600


def next_cohort(today: date) -> str:
    """Return the next cohort: published on the first (C0) and third (C1) Wednesday (4.2)."""
    for ahead in range(32):
        day = today + timedelta(ahead)
        week = (day.day - 1) // 7
        if day.weekday() == WEDNESDAY and week in (0, 2):
            return f"{day.year:04d}-{day.month:02d}-C{week // 2}"
    raise AssertionError("a month has a first Wednesday")


def plan_curve(
    model: EndpointsModel,
    division: str,
    regions: Regions,
    seeds: SeedSet,
    cohort: str,
    *,
    points: int = rules.LEAST_POINTS,
    offline: str = ELECTED,
    answer_s: float = 0.0,
    runs: Sequence[ClientRun] = (),
) -> CurvePlan:
    """Return the fewest runs that make a curve, or ``points`` of them; raise Problem for none."""
    if not rules.LEAST_POINTS <= points <= rules.MOST_POINTS:
        raise bad_value(
            f"{points} points are not from {rules.LEAST_POINTS} to {rules.MOST_POINTS}",
            "change --points",
        )
    if points > regions.c_max - regions.c_min + 1:
        raise bad_value("there are fewer levels of concurrency than points", "raise --cmax")
    mandatory = mandatory_points(regions)
    levels = _spread(sorted(mandatory.values()), points)
    owners = {level: band for band, level in mandatory.items()}
    planned = [
        PlannedPoint(
            level,
            owners.get(level, FREE),
            rules.least_seconds(level, model.agentic),
            level in owners,
            offline == ELECTED and level == regions.c_max and not model.agentic,
        )
        for level in levels
    ]
    if offline == DEDICATED and not model.agentic:
        planned.append(PlannedPoint(model.samples, OFFLINE, 0, True))
    measured = tuple(
        (run.concurrency, run.answer_seconds)
        for run in runs
        if run.answer_seconds and not run.is_offline
    )
    return CurvePlan(model, division, regions, tuple(planned), seeds, cohort, answer_s, measured)


def mandatory_points(regions: Regions) -> dict[str, int]:
    """Return one concurrency for every band; raise Problem where a region has room for none.

    The lowest and the highest are C_min and C_max, the others lie in the middle of their region.
    """
    levels = {}
    for band in BANDS:
        low, high = regions.bounds(band)
        if low > high:
            raise bad_value(
                f"from {regions.c_min} to {regions.c_max} the {band} region has no whole number",
                "lower --cmin or raise --cmax",
            )
        levels[band] = round(math.sqrt(low * high))
    return levels | {BANDS[0]: regions.c_min, BANDS[-1]: regions.c_max}


def _spread(levels: list[int], count: int) -> list[int]:
    """Return ``count`` levels: these, and others where the steps are largest by ratio."""
    while len(levels) < count:
        steps = [(high / low, low, high) for low, high in pairwise(levels)]
        _, low, high = max(step for step in steps if step[2] - step[1] > 1)
        levels = sorted({*levels, max(low + 1, min(high - 1, round(math.sqrt(low * high))))})
    return levels


def covering_run(
    plan: CurvePlan, point: PlannedPoint, runs: Sequence[ClientRun]
) -> ClientRun | None:
    """Return the run that makes a point unnecessary, or None; one with answers judged if needed."""
    fitting = [run for run in runs if not any(faults_of(plan, point, run))]
    return fitting[-1] if fitting else None


def faults_of(plan: CurvePlan, point: PlannedPoint, run: ClientRun) -> Iterator[str]:
    """Yield why a run does not stand for a point."""
    if run.is_offline != point.offline or (
        not point.offline and run.concurrency != point.concurrency
    ):
        yield f"it is for {run.concurrency}"
        return
    if not run.is_complete:
        yield "the client did not come to its end"
    if run.seconds < point.seconds:
        yield f"{run.seconds:.0f} s, {point.seconds} s are needed"
    issued, completed, failed = run.samples
    if failed or completed < plan.model.samples:
        yield f"{completed} of {issued} answered, {failed} failed; {plan.model.samples} are needed"
    for name, seed in plan.seeds.seeds.items():
        if run.seed(name) != seed:
            yield f"{name} is {run.seed(name)}, not {seed}"
    if point.accuracy and not run.has_accuracy_run:
        yield "it has no accuracy run"


def missing_points(plan: CurvePlan, runs: Sequence[ClientRun]) -> tuple[PlannedPoint, ...]:
    """Return the points that no run stands for."""
    return tuple(point for point in plan.points if covering_run(plan, point, runs) is None)


def text(plan: CurvePlan, runs: Sequence[ClientRun] = ()) -> Iterator[str]:
    """Yield the plan as lines: regions, points, hours, seeds, and missing runs."""
    regions = plan.regions
    yield f"{plan.model.name}, {plan.division}, for {plan.cohort}: {_total(plan)}"
    yield f"regions for C_min {regions.c_min} and C_max {regions.c_max}: {_regions(regions)}"
    missing = missing_points(plan, runs)
    rows: list[tuple[str, ...]] = [("in flight", "stands for", "least", "about", "accuracy", "")]
    rows += [_row(plan, point, point in missing, runs) for point in plan.points]
    yield from (f"  {line}".rstrip() for line in aligned(rows))
    first, *_, last = plan.seeds.cohorts
    yield f"seeds: set {plan.seeds.id}, which cohorts {first} to {last} may use"
    yield from (f"  {name} {seed}" for name, seed in plan.seeds.seeds.items())
    for run in runs:
        reasons = [list(faults_of(plan, point, run)) for point in plan.points]
        if all(reasons):
            near = min(reasons, key=lambda faults: (faults[0].startswith("it is for"), len(faults)))
            yield f"not counted: {run.folder}: {'; '.join(near)}"
    yield f"still to be run: {len(missing)} of {len(plan.points)}"


def _total(plan: CurvePlan) -> str:
    judged = sum(point.accuracy for point in plan.points)
    least = "" if plan.answer_s or plan.measured else "at least "
    return (
        f"{len(plan.points)} runs, {least}{plan.hours:.1f} hours of measuring, "
        f"and {judged} accuracy runs besides"
    )


def _regions(regions: Regions) -> str:
    bounds = [(band, regions.bounds(band)) for band in BANDS]
    return ", ".join(f"{band} {low}-{high}" for band, (low, high) in bounds)


def _row(
    plan: CurvePlan, point: PlannedPoint, missing: bool, runs: Sequence[ClientRun]
) -> tuple[str, ...]:
    run = None if missing else covering_run(plan, point, runs)
    state = f"done: {run.folder.name}" if run else "missing" if runs else ""
    purpose = f"{point.purpose}, offline by election" if point.elected else point.purpose
    return (
        "all at once" if point.offline else str(point.concurrency),
        purpose,
        f"{point.seconds} s" if point.seconds else "one pass",
        f"{plan.estimate(point) / 60:.0f} min",
        "yes" if point.accuracy else "",
        state,
    )
