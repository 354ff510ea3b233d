"""What is told of points that are measured, whatever else was asked for."""

from __future__ import annotations

from dataclasses import replace

from cmbench_sweep.render import shown
from cmbench_sweep.report import best, report
from cmbench_sweep.values import MEASURED, PointOutcome, Sweep, SweepPoint, SweepRun

SWEEP = Sweep(name="s", request={"tags": "a"}, axes={"n": (1, 2)})
POINTS = tuple(SweepPoint(n, str(n), {"n": n}, {"tags": "a", "n": str(n)}) for n in (1, 2))
KNOWN = {
    "1": PointOutcome("1", MEASURED, (SweepRun({"rate": 3.0}, 1.0),)),
    "2": PointOutcome("2", MEASURED, (SweepRun({"rate": 2.0, "accuracy": 0.9}, 1.0),)),
}


def test_a_figure_that_no_point_has_takes_the_table_away_from_nobody() -> None:
    for sweep in (
        replace(SWEEP, objectives={"rat": "max"}),
        replace(SWEEP, constraints=("power < 3",)),
    ):
        told = shown(report(sweep, POINTS, KNOWN), POINTS, KNOWN)
        assert "2 measured" in told
        assert "n=1" in told
        assert "no best point: " in told
    assert "there is no power" in told


def test_a_point_without_a_figure_does_not_fulfil_what_is_asked_of_it() -> None:
    found = report(replace(SWEEP, constraints=("accuracy > 0.5",)), POINTS, KNOWN)
    top = best(found)
    assert top is not None
    assert top.point.values == {"n": 2}
