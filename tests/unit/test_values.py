"""The engine's data classes: what they share with those of ``dataclasses``."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict
from typing import Any

import pytest

from cmbench.values import field, immutable, mutable, replace

MANY = 1000
"""Objects of one class, more than are made before it gets a compiled ``__init__``."""


def point() -> Any:
    """A class of its own for each test: what it does may change with the number of its objects."""

    @immutable(frozen=True, slots=True, eq=True, repr=True)
    class Point:
        x: int
        y: int = 2
        seen: list[int] = field(default_factory=list)

    return Point


def test_fields_are_given_in_their_order_by_name_or_by_default() -> None:
    made = point()(1, seen=[3])
    assert (made.x, made.y, made.seen) == (1, 2, [3])


def test_each_object_gets_a_default_of_its_own_however_many_there_are() -> None:
    make = point()
    made = [make(number) for number in range(MANY)]
    assert [each.x for each in made] == list(range(MANY))
    assert len({id(each.seen) for each in made}) == MANY


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), ((1, 2, [], 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1})],
    ids=["none", "too many", "twice", "unknown"],
)
@pytest.mark.parametrize("before", [0, MANY], ids=["first", "after many"])
def test_wrong_arguments_are_refused(
    given: tuple[Any, ...], named: dict[str, Any], before: int
) -> None:
    make = point()
    for _ in range(before):
        make(1)
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        make(*given, **named)
    assert make(5).x == 5


def test_equal_fields_make_equal_objects() -> None:
    make = point()
    assert make(1) == make(1, 2)
    assert make(1) != make(3)
    assert repr(make(1)).endswith("Point(x=1, y=2, seen=[])")


def test_replace_and_asdict_know_the_fields() -> None:
    made = point()(1)
    assert asdict(replace(made, y=5)) == {"x": 1, "y": 5, "seen": []}
    with pytest.raises(TypeError):
        replace(made, z=1)


@pytest.mark.parametrize("before", [0, MANY], ids=["first", "after many"])
def test_a_class_may_finish_its_own_objects(before: int) -> None:
    @mutable(slots=True, eq=False, repr=False)
    class Sum:
        parts: tuple[int, ...]
        total: int = field(init=False)

        def __post_init__(self) -> None:
            self.total = sum(self.parts)

    for _ in range(before):
        Sum((1,))
    made = Sum((1, 2))
    assert made.total == 3
    made.parts = (4,)
    assert replace(made).total == 4


def test_a_field_of_dataclasses_is_refused() -> None:
    with pytest.raises(TypeError, match=r"take field from cmbench\.values"):

        @immutable(frozen=True, slots=True, eq=False, repr=False)
        class Point:
            seen: list[int] = dataclasses.field(default_factory=list)
