"""The parts that all pages are made of: charts, tables, and what is asked of a template."""

from __future__ import annotations

import html
import itertools
import re
import sys
from pathlib import Path

import jinja2
import pytest
from mlperf_pages import charts, render

import benchmark_lab  # noqa: F401  # finds the packages

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
    with pytest.raises(render.MissingPackageError, match="Jinja2") as raised:
        page(tmp_path, "")
    assert raised.value.hint.endswith("-m pip install jinja2")
