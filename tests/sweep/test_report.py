"""What is told of points that are measured, whatever else was asked for."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

from cmbench_sweep.picture import picture_of
from cmbench_sweep.render import shown
from cmbench_sweep.report import Report, best, report
from cmbench_sweep.report_files import write_report
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


def test_the_batch_that_tuning_chose_stands_beside_the_requested_one(tmp_path: Path) -> None:
    sweep = replace(SWEEP, axes={"batch_size": (1, 8)})
    points = [SweepPoint(n, str(n), {"batch_size": n}, {"tags": "a"}) for n in (1, 8)]

    def runs(*batches: float) -> tuple[SweepRun, ...]:
        return tuple(SweepRun({"rate": 10 * n, "used_batch": n}, 1.0) for n in batches)

    known = {
        "1": PointOutcome("1", MEASURED, runs(1.0, 1.0)),
        "8": PointOutcome("8", MEASURED, runs(8.0, 4.0)),
    }
    found = report(sweep, points, known)
    assert found.figures == ("rate",), "no figure to compare points by: its median would mislead"
    text = shown(found, points, known)
    assert "batch_size=8 (batch used: 4, 8)" in text
    assert "batch_size=1\n" in text
    page = write_report(found, tmp_path)
    assert page is not None
    assert "<td>4, 8</td>" in re.sub(r"<td[^>]*>", "<td>", page.read_text("utf-8"))


def _traded(**changes: object) -> Report:
    """Six points: larger batches have more throughput, and a latency that grows faster."""
    sweep = Sweep(
        name="night",
        request={"tags": "a"},
        axes={"batch": (1, 8, 64), "threads": (1, 2), "fixed": (5,)},
        objectives={"throughput": "max", "latency_p99": "min"},
        constraints=("latency_p99 <= 100",),
    )
    points, outcomes = [], {}
    for number, (batch, threads) in enumerate(product((1, 8, 64), (1, 2)), 1):
        values = {"batch": batch, "threads": threads, "fixed": 5}
        points.append(SweepPoint(number, str(number), values, {"tags": "a"}))
        figures = {"throughput": 100.0 * batch**0.5 * threads, "latency_p99": 2.0 * batch}
        runs = (SweepRun(figures, 1.0),)
        outcomes[str(number)] = PointOutcome(str(number), MEASURED, runs)
    return report(replace(sweep, **changes), tuple(points), outcomes)  # type: ignore[arg-type]


def test_a_picture_has_the_frontier_the_limit_and_the_best_point_under_it() -> None:
    picture = picture_of(_traded())
    assert picture.best == (
        "best throughput with latency_p99 <= 100: 565.685 (batch=8 threads=2 fixed=5)"
    )
    main, *axes = picture.panels
    assert main.title == "throughput over latency_p99, with the Pareto frontier"
    best_of_batches = [dot for dot in main.chart.dots if "best" in dot[3]]
    assert len(best_of_batches) == 2, "two threads of the batches within the limit"
    assert [dot[4] for dot in main.chart.dots if dot[3] == "ring"] == [
        "best: batch=8 threads=2 fixed=5"
    ]
    assert ("mark", "limit: 100") in [(kind, label) for kind, _, label in main.chart.lines]
    assert [panel.title.split(":")[0] for panel in axes] == [
        "throughput by batch",
        "throughput by threads",
    ], "an axis of one value shows nothing"
    assert [text for _, text in axes[0].chart.columns] == ["1", "8", "64"]


def test_ranks_of_a_picture_are_whole_numbers() -> None:
    found = picture_of(_traded(objectives={"throughput": "max"}, constraints=()))
    assert found is not None
    columns = found.panels[0].chart.columns
    assert [words for _, words in columns] == ["1", "2", "3", "4", "5", "6"]


def test_a_picture_of_one_figure_ranks_the_points() -> None:
    picture = picture_of(_traded(objectives={"throughput": "max"}, constraints=()))
    assert picture.panels[0].title == "throughput of all points, best first"
    assert picture.best == "best throughput: 1,600 (batch=64 threads=2 fixed=5)"


def test_a_report_is_a_page_with_its_picture_as_svg_and_png(tmp_path: Path) -> None:
    page = write_report(_traded(name="<night>"), tmp_path / "reports")
    assert page is not None
    text = page.read_text(encoding="utf-8")
    assert "&lt;night&gt;: 6 points measured" in text
    assert not re.search(r'(src|href)="(?!sweep\.)', text), "it needs nothing but the pictures"
    ElementTree.parse(page.with_name("sweep.svg"))
    assert page.with_name("sweep.png").read_bytes().startswith(b"\x89PNG")
    assert write_report(report(SWEEP, (), {}), tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
