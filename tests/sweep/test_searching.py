"""Points chosen by Optuna, beside the grid in its order and points at random."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench_sweep.reading import read_sweep
from cmbench_sweep.searching import search
from cmbench_sweep.values import MEASURED, PointOutcome, SearchSettings, Sweep, SweepPoint, SweepRun
from support import Finished

AXES = {"batch": (1, 2, 4, 8, 16, 32, 64), "threads": tuple(range(1, 9)), "mode": ("a", "b", "c")}
TRIES = 60


def rate(values: dict[str, Any]) -> float:
    """A throughput that grows with the batch until memory is short, and with threads up to six."""
    batch, threads = values["batch"], values["threads"]
    scaled = min(threads, 6) ** 0.8 - 0.15 * max(0, threads - 6)
    memory = 1.0 if batch <= 16 else 0.55
    return float(
        100
        * batch
        / (batch + 4)
        * scaled
        * memory
        * {"a": 0.7, "b": 1.0, "c": 0.85}[values["mode"]]
    )


def space(**changes: Any) -> tuple[Sweep, list[SweepPoint]]:
    sweep = Sweep("s", {"tags": "x"}, AXES, objectives={"rate": "max"}, **changes)
    places = [
        {"batch": b, "threads": t, "mode": m}
        for b in AXES["batch"]
        for t in AXES["threads"]
        for m in AXES["mode"]
    ]
    return sweep, [SweepPoint(n, f"k{n}", values, {}) for n, values in enumerate(places)]


def outcome(point: SweepPoint) -> PointOutcome:
    return PointOutcome(point.key, MEASURED, (SweepRun({"rate": rate(dict(point.values))}, 1.0),))


def needed(order: Sequence[SweepPoint], best: float) -> int:
    """How many points in this order until one has 95 % of the best."""
    return next(n for n, each in enumerate(order, 1) if rate(dict(each.values)) >= 0.95 * best)


def asked(seed: int) -> list[SweepPoint]:
    sweep, points = space(search=SearchSettings("optuna", TRIES, seed))
    order: list[SweepPoint] = []

    def measure(point: SweepPoint) -> PointOutcome:
        order.append(point)
        return outcome(point)

    assert search(sweep, points, {}, measure) == [p for p in points if p in order]
    assert len(order) == len({point.key for point in order}) <= TRIES
    return order


def test_optuna_needs_fewer_points_than_the_grid() -> None:
    _, points = space()
    best = max(rate(dict(point.values)) for point in points)
    by_optuna = statistics.median(needed(asked(seed), best) for seed in range(5))
    shuffled = [random.Random(seed).sample(points, len(points)) for seed in range(99)]
    at_random = statistics.median(needed(order, best) for order in shuffled)
    in_order = needed(points, best)
    told = f"{by_optuna:.0f} by Optuna, {at_random:.0f} at random, {in_order} in the grid's order"
    print(f"points until one has 95 % of the best of {len(points)}: {told}")
    assert by_optuna < at_random < in_order
    assert by_optuna <= TRIES


def test_what_is_known_costs_nothing_and_constraints_count() -> None:
    sweep, points = space(search=SearchSettings("optuna", 12, 1), constraints=("threads <= 4",))
    known = {point.key: outcome(point) for point in points[:8]}
    measured: list[SweepPoint] = []

    def measure(point: SweepPoint) -> PointOutcome:
        measured.append(point)
        return outcome(point)

    assert len(search(sweep, points, known, measure)) == 12
    assert len(measured) == 4
    assert not {point.key for point in measured} & known.keys()
    tried = search(sweep, points, known, lambda point: PointOutcome(point.key))
    assert len(tried) == 8, "a point that is not done ends the search"
    with pytest.raises(Error, match="objective"):
        search(Sweep("s", {}, AXES, search=SearchSettings("optuna", 2)), points, {}, measure)


def test_values_that_are_equal_but_written_differently_are_both_tried(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("request: {tags: x}\naxes: {n: [1.1, 1.10]}", encoding="utf-8")
    sweep = replace(
        read_sweep(str(path)), objectives={"rate": "max"}, search=SearchSettings("optuna", 2, 1)
    )
    points = [SweepPoint(n, f"k{n}", {"n": value}, {}) for n, value in enumerate(sweep.axes["n"])]

    def measure(point: SweepPoint) -> PointOutcome:
        return PointOutcome(point.key, MEASURED, (SweepRun({"rate": 1.0}, 1.0),))

    assert search(sweep, points, {}, measure) == points


def test_a_search_from_a_file(
    cm: Callable[..., Finished], world: Path, counted: Callable[[], list[str]]
) -> None:
    path = world / "sweep.yaml"
    text = path.read_text(encoding="utf-8").replace("[1, 2, 4]", "{from: 1, to: 9, step: 1}")
    path.write_text(text + "search: {method: optuna, points: 3, seed: 1}\n", encoding="utf-8")
    told = json.loads(cm("run", "experiment", "--sweep=sweep.yaml", "--out=json").ok().stdout)
    assert [point["status"] for point in told["points"]] == ["measured"] * 3
    assert len(counted()) == 4
    cm("run", "experiment", "--sweep=sweep.yaml").ok()
    assert len(counted()) == 4
    path.write_text(text + "search: {method: random, points: 5, seed: 1}\n", encoding="utf-8")
    assert "sweep: 5 points" in cm("plan", "experiment", "--sweep=sweep.yaml").ok().stdout
