"""What people write into sweep files: it means what it says, or is refused with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench_sweep import points
from cmbench_sweep.expressions import ExpressionError, evaluate
from cmbench_sweep.reading import MOST_PLACES, read_sweep
from cmbench_sweep.values import Sweep

REQUEST = "request: {tags: a}\n"


def read(folder: Path, text: str) -> Sweep:
    path = folder / "s.yaml"
    path.write_text(REQUEST + text, encoding="utf-8")
    return read_sweep(str(path))


def places(folder: Path, text: str) -> list[Any]:
    return [dict(each) for each in points._chosen(read(folder, text))]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("axes:\n  n: [1]\n  n: [2]", "line 4: n is given twice"),
        ("request: {tags: b}", "line 2: request is given twice"),
        ("axes: {true: [1]}", "YAML reads a name there as True"),
        ("axes: {'a..b': [1]}", "'a..b' is not a valid input name"),
        ('axes: {n: ["a\\0b"]}', "is not a value of an input"),
        ('axes: {n: ["a\\e[31m"]}', "is not a value of an input"),
        (f"axes: {{n: [{'x' * 100_001}]}}", "is not a value of an input"),
        (f"name: {'測' * 60}", "is not a name"),
        ("repeat: {spread: 1.2.3%}", "'1.2.3%' is not a number"),
        ("repeat: {spread: 2%}", "one run has no spread"),
        ("repeat: {least: 5}", "least is 5, most is 1"),
        ("repeat: {most: 3, least: 5}", "least is 5, most is 3"),
        ("repeat: 2.5", "2.5 is not a whole number"),
        ("record: [a]\nobjectives: {b: max}", "objectives: b is not one of the figures of record"),
        ("record: [rate]\nconstraints: [rat > 1]", "constraints: rat is not one of the figures"),
        ("labels: ['']", "'' is not a label"),
        ("labels: ['a&b']", "'a&b' is not a label"),
        ("labels: {'a b': }", "'a b' is not a label"),
        ("axes: {n: [1]}\nsearch: {method: optuna, points: 2}", "optuna needs an objective"),
        ("axes: {n: '[a for a in range(99999) for b in range(99999) if False]'}", "too expensive"),
        ("axes: {n: {from: 0, to: 1, step: 1.0e-300}}", "more than 100,000 values"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(Error) as caught:
        read(tmp_path, text)
    assert caught.value.code == "bad-sweep"
    assert told in "\n".join(caught.value.context)


@pytest.mark.parametrize(
    "text",
    ["{from: 1, to: 1.0e+308, times: 1.0e+10}", "{from: 1.0e+308, to: 1.7e+308, step: 1.0e+308}"],
)
def test_a_range_ends_where_numbers_do(tmp_path: Path, text: str) -> None:
    values = read(tmp_path, f"axes: {{n: {text}}}").axes["n"]
    assert 1 <= len(values) <= 31
    assert len(str(values[-1])) < 10


def test_an_excluded_value_may_be_in_quotes_or_not(tmp_path: Path) -> None:
    axes = "axes: {n: [8, 16, a], m: ['8', 1.5]}\n"
    left = places(tmp_path, axes + "exclude: [{n: '8'}, {n: a}, {m: [8]}]")
    assert left == [{"n": 16, "m": 1.5}]


def test_a_label_without_a_condition_is_of_all_points(tmp_path: Path) -> None:
    assert read(tmp_path, "labels: {gpu: , big: n > 1}\naxes: {n: [1]}").labels == {
        "gpu": "",
        "big": "n > 1",
    }


def test_an_alias_is_read_once_and_may_stand_twice(tmp_path: Path) -> None:
    assert len(places(tmp_path, "axes: {n: &x [1, 2], m: *x}")) == 4


MANY = "axes: {n: {from: 1, to: 9000, step: 1}, m: {from: 1, to: 9000, step: 1}}\n"


def test_points_that_are_too_many_are_not_left_out_in_silence(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"more than 100,000 points are too many"):
        places(tmp_path, MANY)
    with pytest.raises(Error, match=r"81,000,000 places, most of them excluded"):
        places(tmp_path, MANY + "exclude: [n < 9000]")
    assert len(places(tmp_path, MANY + "budget: {points: 7}")) == 7


def test_a_random_search_draws_from_any_number_of_places(tmp_path: Path) -> None:
    text = MANY + "search: {method: random, points: 5, seed: 3}\nexclude: [n > 4500]"
    found = places(tmp_path, text)
    assert len(found) == 5
    assert all(each["n"] <= 4500 for each in found)
    assert len({each["m"] for each in found}) > 1
    assert places(tmp_path, text) == found


def test_places_have_the_numbers_of_their_order(tmp_path: Path) -> None:
    text = "axes: {a: [1, 2], b: [x, y, z], c: [5, 6], d: [0, 1, 2]}\nzip: [b, d]"
    sweep = read(tmp_path, text)
    drawn = [points._place(sweep, number) for number in range(points.size(sweep))]
    assert drawn == list(points._places(sweep))
    assert points.size(sweep) < MOST_PLACES


@pytest.mark.parametrize(
    ("request_", "axes", "name"),
    [("{tags: a}", "{tags.x: [1]}", "tags"), ("{tags: a, env: {B: 1}}", "{env: [1]}", "env")],
)
def test_a_value_is_no_group(tmp_path: Path, request_: str, axes: str, name: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"request: {request_}\naxes: {axes}\n", encoding="utf-8")
    sweep = read_sweep(str(path))
    with pytest.raises(Error, match=f"{name} is a value and a group"):
        points.flags_of(sweep, points._chosen(sweep)[0])


@pytest.mark.parametrize("text", ["a is 1", "~a", "a << 2", "a if a else 1", "(lambda: 1)()"])
def test_what_expressions_cannot_say_is_told_by_its_text(text: str) -> None:
    with pytest.raises(ExpressionError, match="is not possible here"):
        evaluate(text, {"a": 1})


@pytest.mark.parametrize(
    "typed",
    ["010", "0x10", "1.10", "1.0e3", "1e3", "12:30", "08", "off", "no", "2024-01-01", "+5", "1."],
)
def test_a_value_goes_to_the_script_as_it_is_written(tmp_path: Path, typed: str) -> None:
    sweep = read(tmp_path, f"axes: {{n: [{typed}], env.A: ['{typed}']}}")
    flags = points.flags_of(sweep, points._chosen(sweep)[0])
    assert (flags["n"], flags["env"]["A"]) == (typed, typed)
    path = tmp_path / "s.yaml"
    path.write_text(f"request: {{tags: a, n: {typed}}}", encoding="utf-8")
    assert points.flags_of(read_sweep(str(path)), {})["n"] == typed


def test_a_number_can_be_computed_with_however_it_is_written(tmp_path: Path) -> None:
    axes = "axes: {n: [1e3, 0x10, 1_000_000, 1.10, 08], on: [true]}\n"
    left = places(tmp_path, axes + "exclude: [n > 999, {n: 8}, {n: '1.1'}]")
    assert left == [{"n": 16, "on": True}]
    assert len(places(tmp_path, "axes: {n: [1.1, 1.10]}")) == 2
    assert len(places(tmp_path, "axes: {n: {from: 1, to: 1e3, times: 1e1}}")) == 4


def test_what_no_number_is_stays_a_text(tmp_path: Path) -> None:
    assert places(tmp_path, "axes: {n: [!!int 0b1, !!float 1.2.3]}") == [
        {"n": "0b1"},
        {"n": "1.2.3"},
    ]


def test_conditions_are_of_names_with_hyphens_and_words_of_python(tmp_path: Path) -> None:
    axes = "axes: {adr.my-dep.version: [a, b], env.class: [1, 2]}\n"
    text = "exclude: [{adr.my-dep.version: a, env.class: 1}, axis('adr.my-dep.version') == 'b']"
    assert places(tmp_path, axes + text) == [{"adr.my-dep.version": "a", "env.class": 2}]
    with pytest.raises(Error) as caught:
        read(tmp_path, axes + "exclude: [\"axis('nosuch') == 1\"]")
    assert "nosuch is not known" in caught.value.context[0]


@pytest.mark.parametrize(
    ("file", "name"),
    [("my night (2).yaml", "my-night-2"), (".sweep.yaml", "sweep"), ("測 定.yml", "測-定")],
)
def test_a_sweep_is_called_after_any_file(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text(REQUEST, encoding="utf-8")
    assert read_sweep(str(tmp_path / file)).name == name
