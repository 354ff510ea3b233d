"""Versions as tools print them: one total order, and ranges in words and for pip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmbench.lib.versions import (
    compare,
    describe_range,
    in_series,
    is_standard,
    misfit,
    parse,
    pip_version_string,
    satisfies,
)

NUMBERS = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(
    lambda parts: ".".join(map(str, parts))
)
SUFFIXES = st.sampled_from(
    ["", "rc1", ".post2", ".dev3", "a1", "+cu118", "-ubuntu22", "-1+cuda12.2", "-beta.2", "_x"]
)
REAL = st.builds(lambda p, n, s: p + n + s, st.sampled_from(["", "v", "r"]), NUMBERS, SUFFIXES)
ANY = st.one_of(REAL, st.text(max_size=12), st.sampled_from(["main", "", "latest", "2023a"]))


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.2rc1", "1.2"),
        ("1.9", "1.10"),
        ("2.0.dev3", "2.0a1"),
        ("11.8.0", "11.8.0-ubuntu22"),
        ("8.9.7.29-1+cuda11.8", "8.9.7.29-1+cuda12.2"),
        ("r5.1", "r6.0"),
        ("v4.0", "r4.1"),
        ("main", "0.0.1"),
        ("1.2.3-beta_foo2", "1.2.3-beta_foo10"),
        ("2022b", "2023a"),
        ("3.12", "3.12.1"),
    ],
)
def test_order(older: str, newer: str) -> None:
    assert compare(older, newer) == -1
    assert compare(newer, older) == 1


@pytest.mark.parametrize(("one", "other"), [("1.0", "1"), ("v2.1", "2.1"), (" 3.10 ", "3.10.0")])
def test_the_same_version_written_twice(one: str, other: str) -> None:
    assert compare(one, other) == 0
    assert hash(parse(one)) == hash(parse(other))


@given(ANY, ANY, ANY)
def test_order_is_total(one: str, two: str, three: str) -> None:
    assert compare(one, one) == 0
    assert compare(one, two) == -compare(two, one)
    low, middle, high = sorted([one, two, three], key=parse)
    assert compare(low, middle) <= 0
    assert compare(middle, high) <= 0
    assert compare(low, high) <= 0
    if compare(one, two) == 0:
        assert hash(parse(one)) == hash(parse(two))
        assert compare(one, three) == compare(two, three)


@given(st.text(max_size=60))
def test_every_text_is_a_version(text: str) -> None:
    assert str(parse(text)) == text.strip()


def test_absurdly_long_numbers_are_versions_too() -> None:
    assert compare("9" * 6000, "1") == -compare("1", "9" * 6000)
    assert compare("1." + "9" * 6000 + "-x", "2") in (-1, 1)


@given(REAL, REAL, REAL)
def test_ranges_follow_the_order(version: str, low: str, high: str) -> None:
    expected = compare(version, low) >= 0 and compare(version, high) <= 0
    assert satisfies(version, minimum=low, maximum=high) == expected
    assert satisfies(version)
    assert satisfies(version, exact=version)


def test_a_misfit_says_why() -> None:
    assert misfit("3.8.1", minimum="3.10") == "3.8.1 is below the minimum 3.10"
    assert misfit("3.14", maximum="3.13") == "3.14 is above the maximum 3.13"
    assert misfit("3.11.2", exact="3.10") == "3.11.2 is not 3.10"
    assert misfit("3.11", minimum="3.10", maximum="3.12") == ""


@pytest.mark.parametrize(
    ("version", "series", "belongs"),
    [
        ("3.10.13", "3.10", True),
        ("3.10.13", "3", True),
        ("3.10.13", "3.10.13", True),
        ("3.10.13", "3.1", False),
        ("3.1", "3.10", False),
        ("3.10.0rc1", "3.10", True),
        ("2.1.0+cu118", "2.1.0", True),
        ("main", "main", True),
        ("main", "3", False),
    ],
)
def test_series(version: str, series: str, belongs: bool) -> None:
    assert in_series(version, series) is belongs


@pytest.mark.parametrize(
    ("bounds", "text", "words"),
    [
        ({}, "", "any version"),
        ({"version": "1.2"}, "==1.2", "1.2"),
        ({"version": "1.2", "minimum": "1"}, "==1.2", "1.2"),
        ({"minimum": "1", "maximum": "2"}, ">=1,<=2", "at least 1, at most 2"),
        ({"minimum": "1"}, ">=1", "at least 1"),
        ({"maximum": "2"}, "<=2", "at most 2"),
    ],
)
def test_ranges_for_pip_and_for_people(bounds: dict[str, str], text: str, words: str) -> None:
    assert pip_version_string(**bounds) == text
    renamed = {("exact" if key == "version" else key): value for key, value in bounds.items()}
    assert describe_range(**renamed) == words


@given(NUMBERS, NUMBERS, NUMBERS)
def test_pip_reads_a_range_as_we_do(version: str, low: str, high: str) -> None:
    from packaging.specifiers import SpecifierSet

    wanted = SpecifierSet(pip_version_string("", low, high))
    assert (version in wanted) == satisfies(version, low, high)


def test_what_pip_can_read() -> None:
    for text in ("2.11.0+cu130", "2.3.0a0+6ddf5cf85e.nv24.4", "1.0rc1"):
        assert is_standard(text)
    for text in ("11.8.0-ubuntu22", "main", ""):
        assert not is_standard(text)
