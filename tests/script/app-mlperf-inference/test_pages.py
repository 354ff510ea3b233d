"""The parts that all pages are made of: charts, tables, and what is asked of a template."""

from __future__ import annotations

import html
import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest

import benchmark_lab  # noqa: F401  # finds the packages
from common.problems import Problem
from mlperf.catalog import Scenario
from mlperf.harness.measuring.gpu import GpuReading, GpuSummary
from mlperf.harness.measuring.gpu_log import GpuLog
from mlperf.harness.reporting import course, history
from mlperf.harness.reporting import page as report_page
from mlperf.pages import charts, render, scatter

HOSTILE = "<b>&\"'{{ 7 * 7 }}"


@pytest.mark.parametrize("low_high", [(0, 1), (0, 12345.6), (3, 3), (-2, 7e-5), (1e-9, 2e-9)])
def test_ticks_are_few_and_inside(low_high: tuple[float, float]) -> None:
    low, high = low_high
    found = charts.ticks(low, high)
    assert 1 <= len(found) <= 8
    assert all(low - 1e-12 <= tick <= high * 1.0001 + 1e-12 for tick in found)


@pytest.mark.parametrize("at", [(1, 2, 1000), (1, 930, 990), (500, 501, 502), (1, 30, 1000)])
def test_names_of_markers_do_not_cover_each_other(at: tuple[float, ...]) -> None:
    markers = [charts.Marker(f"p{number}", place) for number, place in enumerate(at)]
    drawn = charts.histogram([1, 10, 100, 1000], [5, 6, 7], markers, "ms")
    middles = [x for x, _, _, name in drawn.texts if name.startswith("p")]
    assert len(middles) == 3
    for one, other in itertools.combinations(middles, 2):
        assert abs(one - other) >= charts.NAME_WIDTH - 1e-9
    assert min(middles) - charts.NAME_WIDTH / 2 >= charts.LEFT
    assert max(middles) + charts.NAME_WIDTH / 2 <= charts.END


def page(folder: Path, body: str, **values: object) -> str:
    path = folder / "page.html"
    names = "anchor, badge, cell, contents, facts, figure, head, notes, table"
    path.write_text(
        f'{{% extends "layout.html" %}}{{% from "components.html" import {names} %}}'
        f"{{% block body %}}{body}{{% endblock %}}"
    )
    return render.render(path, title=HOSTILE, **values)


def test_texts_of_others_are_escaped_everywhere(tmp_path: Path) -> None:
    bars = charts.bars([charts.Bar(HOSTILE, 1, HOSTILE)], HOSTILE, charts.Marker(HOSTILE, 2))
    marked = charts.histogram([1, 2], [3], [charts.Marker(HOSTILE, 1.5)], HOSTILE)
    body = (
        "{{ badge(t, true) }}{{ contents([t]) }}{{ facts([(t, t)]) }}{{ notes([t]) }}"
        "{{ table([t], [[t]]) }}{{ figure(t, t, bars) }}{{ figure(t, t, marked) }}"
    )
    text = page(tmp_path, body, t=HOSTILE, bars=bars, marked=marked)
    assert "<b>" not in text
    assert text.count(html.escape("<b>&")) >= 15
    assert "49" not in re.sub(r"<(svg.*?</svg|style.*?</style)>", "", text, flags=re.DOTALL)


def test_every_kind_of_chart_is_drawn(tmp_path: Path) -> None:
    series = [("p50", [(0.0, 1.0), (1.0, 2.0)]), ("p99", [(0.0, 3.0), (1.0, 0.0)])]
    drawn = [
        charts.lines(series, "ms"),
        charts.lines([("", [(0.0, 0.0), (1.0, 0.0)])], "samples/s"),
        charts.history(
            [charts.Dot(1, "then", hollow=True), charts.Dot(2, "now", present=True)], ""
        ),
        charts.bars([charts.Bar("a", 0, "none")], "%"),
    ]
    text = page(
        tmp_path, "{% for each in drawn %}{{ figure('t', 'n', each) }}{% endfor %}", drawn=drawn
    )
    assert text.count("<svg") == text.count("</svg>") == 4
    assert '<span class="key s0">p50</span> <span class="key s1">p99</span>' in text
    assert text.count('class="area"') == 1, "below a line that is alone"
    assert '<circle class="dot hollow"' in text
    for x in re.findall(r' (?:x|x1|x2|cx|y|y1|y2|cy)="(.*?)"', text):
        assert 0 <= float(x) <= charts.WIDTH


def test_a_value_that_is_not_given_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(jinja2.UndefinedError):
        page(tmp_path, "{{ nobody }}")


def test_a_missing_package_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(Problem, match="Jinja2") as raised:
        page(tmp_path, "")
    assert raised.value.hint.endswith("-m pip install jinja2")


@pytest.mark.parametrize("limit", [None, charts.Marker("limit", 40.0)])
def test_shares_grow_to_all_and_the_limit_lies_in_the_picture(limit: charts.Marker | None) -> None:
    drawn = charts.cumulative([1, 2, 4, 8], [6, 3, 1], limit, "ms")
    (_, path, _), *marks = drawn.lines
    heights = [y for _, y in path]
    assert heights == sorted(heights, reverse=True)
    assert (heights[0], heights[-1]) == (charts.BASE, charts.TOP)
    assert len(marks) == len(drawn.texts) == (limit is not None)
    for x, _ in [*path, *(at for _, line, _ in marks for at in line)]:
        assert charts.LEFT - 1e-9 <= x <= charts.END + 1e-9
    assert drawn.dots[0][4] == "60 % within 2 ms"


def run(folder: Path, value: float, measured_at: str, **changes: object) -> SimpleNamespace:
    around = SimpleNamespace(measured_at=measured_at, versions={"loadgen": "2"})
    facts = {"value": value, "circumstances": around, "log_dir": str(folder / "run_1")}
    return SimpleNamespace(scenario="Server", **{**facts, **changes})


def test_a_run_stands_beside_earlier_ones_of_its_configuration(tmp_path: Path) -> None:
    results = SimpleNamespace(
        benchmark="b", form="", model={"sha256": "0" * 64}, device="cpu", backend="x", style="test"
    )
    name = history.configuration(results, "Server", "float32")
    told = ({"loadgen": "1"}, {"loadgen": "2"})
    entries = [
        history.HistoryEntry(
            name, f"2026-01-0{day}T00:00", 100.0 * day, "samples/s", "VALID", seen, ""
        )
        for day, seen in enumerate(told, 1)
    ]
    other = replace(entries[0], configuration="another")
    mine = run(tmp_path, 150.0, "2026-01-03T00:00")
    rows = list(report_page._compared(results, mine, [*entries, other], "float32"))
    assert [row[3:] for row in rows] == [("-25.0 %", "none"), ("+50.0 %", "loadgen 1")]


def test_what_the_machine_did_is_drawn_as_far_as_it_is_known(tmp_path: Path) -> None:
    mine = run(tmp_path, 1.0, "")
    assert list(report_page._machine_charts(mine)) == []
    rows = [[at, 0.9, 0.3, 0, 2**31] for at in range(4)]
    (tmp_path / "machine.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    drawn = {title: (unit, chart) for title, unit, chart in report_page._machine_charts(mine)}
    assert set(drawn) == {"CPU over time", "Memory in use over time"}
    assert drawn["CPU over time"][1].series == ["all", "others"]


def test_gpus_are_drawn_over_time_as_far_as_they_are_read(tmp_path: Path) -> None:
    log = GpuLog()
    for key in ("0", "1"):
        log.know(key, GpuSummary(f"GPU-{key}", "NVIDIA H200"))
        for at in range(40):
            clock = 1980 - 12 * (at > 10) * (at % 5)
            busy = None if key == "1" else 0.97
            log.add(key, GpuReading(100.0 + at, clock, 50 + at / 4, 640, 1 << 30, busy))
    rows = [[2 * at, 0.2, 0.0, 0, 0] for at in range(20)]
    course = {"rows": rows, "gpus": log.course(100.0, 20)}
    (tmp_path / "machine.json").write_text(json.dumps(course), encoding="utf-8")
    drawn = {
        title: (note, chart)
        for title, note, chart in report_page._machine_charts(run(tmp_path, 1.0, ""))
    }
    kinds = ("clock", "power", "temperature", "busy")
    assert [*drawn] == [*(f"GPU {kind} over time" for kind in kinds), "CPU over time"]
    assert drawn["GPU clock over time"][1].series == ["GPU 0", "GPU 1"]
    assert drawn["GPU busy over time"][1].series == ["GPU 0"]
    assert drawn["GPU power over time"][0] == "W, NVIDIA H200"
    assert len(course["gpus"][0]["rows"]) == 20
    assert course["gpus"][0]["rows"][1] == [2.0, 1980, 640, 50.5, 0.97]


def plane(log: bool = False) -> charts.Chart:
    x = scatter.Axis("power", "W", 10.0, 1000.0, log, down=True)
    y = scatter.Axis("rate", "samples/s", 1.0, 100.0, log)
    points = [(10.0, 1.0), (100.0, 50.0), (1000.0, 100.0)]
    marks = [scatter.Mark(*at, 0, HOSTILE, "/a?b=1&c=<", best=True) for at in points]
    return scatter.plane(x, y, [HOSTILE], marks, [(0, points)])


@pytest.mark.parametrize("log", [False, True])
def test_points_and_their_frontier_lie_inside_the_drawing(log: bool) -> None:
    drawn = plane(log)
    ((_, path, _),) = drawn.lines
    for x, y in [*path, *((each[0], each[1]) for each in drawn.links)]:
        assert drawn.frame.left <= x <= drawn.frame.end
        assert drawn.frame.top <= y <= drawn.frame.base
    assert all(drawn.frame.left <= x <= drawn.frame.end for x, _ in drawn.columns)
    assert len(drawn.columns) >= 3


@pytest.mark.parametrize(("down", "corner"), [(True, (3, 1)), (False, (2, 5))])
def test_between_two_of_the_best_holds_the_one_that_is_no_worse(
    down: bool, corner: tuple[float, float]
) -> None:
    assert scatter.steps([(2, 1), (3, 5)], down) == [(2, 1), corner, (3, 5)]


def test_a_single_point_and_equal_figures_can_be_drawn() -> None:
    for value in (0.0, 5.0, -3.0):
        axis = scatter.Axis("a", "", value, value)
        assert scatter.plane(axis, axis, ["s"], [scatter.Mark(value, value, 0, "")]).dots
    log = scatter.Axis("a", "", 5.0, 5.0, log=True)
    assert scatter.plane(log, log, ["s"], [scatter.Mark(5.0, 5.0, 0, "")]).dots
    assert scatter.ranking([], "W").strips == []
    assert scatter.ranking([scatter.Rank("a", 0.0, "0")], "W").strips


def test_more_series_than_colours_share_one() -> None:
    ranks = [scatter.Rank(str(n), 1.0, "", n) for n in range(12)]
    drawn = scatter.ranking(ranks, "W", [str(n) for n in range(12)])
    assert drawn.series == [*map(str, range(8)), "4 others"]
    assert [each[4] for each in drawn.strips][7:9] == ["strip s7", "strip rest"]


def test_links_in_a_drawing_are_escaped_and_the_best_are_reached_by_key(tmp_path: Path) -> None:
    ranks = scatter.ranking([scatter.Rank(HOSTILE, 2.0, HOSTILE, 0, "/b?<")], HOSTILE, [HOSTILE])
    lines = scatter.courses([HOSTILE], [(HOSTILE, [(0, 1.0, HOSTILE, "/c?<")])], axis_of_one())
    text = page(
        tmp_path,
        "{{ figure('', '', a) }}{{ figure('', '', b) }}{{ figure('', '', c) }}",
        a=plane(),
        b=ranks,
        c=lines,
    )
    assert "<b>" not in text
    assert 'href="/a?b=1&amp;c=&lt;"' in text
    assert text.count('role="group"') == 3
    assert "tabindex" not in text


def axis_of_one() -> scatter.Axis:
    return scatter.Axis("rate", "samples/s", 0.0, 1.0)


@pytest.mark.parametrize(("more", "last"), [(0, "s7"), (1, "1 other"), (3, "3 others")])
def test_a_legend_counts_the_series_without_a_colour_of_their_own(more: int, last: str) -> None:
    names = [f"s{number}" for number in range(scatter.COLOURS + more)]
    assert scatter.legend(names)[-1] == last


def test_latencies_are_set_beside_their_limit_and_say_of_which_queries(tmp_path: Path) -> None:
    series = {"edges_ms": [1, 2, 4, 8], "counts": [60, 39, 1], "recorded": 100}
    (tmp_path / "series.json").write_text(json.dumps(series), encoding="utf-8")
    percentiles = {"50.00": 1.5, "99.00": 3.5}
    limit = charts.Marker("limit", 4.0)
    (title, note, drawn), *_ = course.of_folder(tmp_path, percentiles, limit, queries=200)
    assert title == "Latency"
    assert note == (
        "99 % within the limit of 4 ms; measured p50 1.5, p99 3.5 ms; 100 of 200 queries"
    )
    assert [text for *_, text in drawn.texts] == ["p50", "p99", "limit"]


@pytest.mark.parametrize(
    ("scenario", "meaning", "value", "expected"),
    [
        ("SingleStream", "p90 latency", 2.2, "Measured in this run: p90 2.1 ms."),
        ("MultiStream", "p99 latency of 8", 3.5, ""),
        ("Server", "p99 within limit", 100.0, ""),
    ],
)
def test_an_estimate_of_loadgen_is_named_beside_what_was_measured(
    scenario: str, meaning: str, value: float, expected: str
) -> None:
    latencies = {"90.00": 2.1, "99.00": 3.5}
    run = SimpleNamespace(
        scenario=Scenario(scenario), meaning=meaning, value=value, latencies_ms=latencies
    )
    sentence = report_page._estimate(run)  # type: ignore[arg-type]
    assert sentence.endswith(expected)
    assert bool(sentence) is bool(expected)
