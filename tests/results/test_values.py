"""A result keeps what it says through its file, and foreign data cannot break it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmbench_results import values
from cmbench_results.values import (
    BenchmarkResult,
    BenchmarkWorkload,
    MalformedError,
    ResultMetric,
    SoftwareStack,
    SystemDescription,
)

WORDS = st.text(max_size=30).map(values.text)
FIGURES = st.floats(allow_nan=False, allow_infinity=False)
RESULTS = st.builds(
    BenchmarkResult,
    key=WORDS,
    workload=st.builds(BenchmarkWorkload, benchmark=WORDS, scenario=WORDS, model=WORDS),
    system=st.builds(SystemDescription, name=WORDS, cores=st.integers(0, 999), memory_gb=FIGURES),
    software=st.builds(SoftwareStack, versions=st.dictionaries(WORDS, WORDS, max_size=3)),
    value=st.none() | FIGURES,
    reasons=st.lists(WORDS, max_size=3).map(tuple),
    metrics=st.lists(
        st.builds(ResultMetric, name=WORDS, value=FIGURES, unit=WORDS, direction=WORDS), max_size=3
    ).map(tuple),
    inferred=st.booleans(),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@given(RESULTS)
def test_a_result_survives_its_file(result: BenchmarkResult) -> None:
    line = values.to_json(result)
    assert "\n" not in line
    assert values.from_json(line) == result


@given(JSON)
def test_other_json_is_refused_in_one_way(data: Any) -> None:
    try:
        values.from_json(json.dumps(data))
    except MalformedError:
        return
    assert isinstance(data, dict)


@given(JSON)
def test_foreign_data_becomes_plain_values(data: Any) -> None:
    text, number = values.text(data), values.number(data)
    assert text.isprintable()
    assert len(text) <= values.LONGEST
    assert number is None or math.isfinite(number)
    assert values.count(data) >= 0


@pytest.mark.parametrize("line", ["", "{", "[]", "[" * 100_000, '{"key": 1}', '{"key": NaN}'])
def test_what_is_no_result_is_told(line: str) -> None:
    with pytest.raises(MalformedError):
        values.from_json(line)


def _result(
    value: float, source: str, tier: str = values.LOCAL, folder: str = ""
) -> BenchmarkResult:
    work = BenchmarkWorkload("bert-99", "Offline")
    return BenchmarkResult(
        "k",
        work,
        SystemDescription("s"),
        value=value,
        figures_from=source,
        tier=tier,
        folder=folder,
    )


def test_logs_that_confirm_a_published_figure_take_its_place_and_stay_official() -> None:
    published = _result(1000.0, values.SUMMARY, values.OFFICIAL)
    logs = _result(1000.9, values.LOGS, folder="/t")
    for both in (values.combined(published, logs), values.combined(logs, published)):
        assert (both.value, both.tier, both.figures_from) == (1000.9, values.OFFICIAL, values.LOGS)


def test_logs_that_say_something_else_do_not_replace_what_was_published() -> None:
    published = _result(1000.0, values.SUMMARY, values.OFFICIAL)
    logs = _result(1100.0, values.LOGS, folder="/t")
    for both in (values.combined(published, logs), values.combined(logs, published)):
        assert (both.value, both.tier) == (1000.0, values.OFFICIAL)
        assert "1100" in both.notes


def test_of_two_local_ones_the_better_source_counts() -> None:
    record, logs = _result(1.0, values.OWN_RECORD), _result(2.0, values.LOGS)
    assert values.combined(record, logs) is logs
    assert values.combined(logs, record) is logs
