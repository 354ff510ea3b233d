"""Data classes whose methods are written when the first instance is made."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import benchmark_lab as lab
from common.values import dataclass
from support import python_env


@dataclass(frozen=True, slots=True)
class Point:
    """Fields with and without defaults, a check and a property."""

    x: int
    y: int = 2
    more: dict[str, int] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.x)

    @property
    def sum(self) -> int:
        return self.x + self.y


def test_an_instance_is_as_one_of_dataclasses() -> None:
    one = Point(1)
    assert (one.x, one.y, one.more, one.sum) == (1, 2, {}, 3)
    assert one == Point(1, more={"a": 1}) != Point(1, 3)
    assert hash(one) == hash(Point(1))
    assert repr(one) == "Point(x=1, y=2, more={})"
    assert dataclasses.replace(one, y=4) == Point(1, 4)
    assert dataclasses.asdict(one) == {"x": 1, "y": 2, "more": {}}
    assert not hasattr(one, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="-1"):
        Point(-1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Point()  # type: ignore[call-arg]


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    one = Point(1, more={"a": 1})
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (other, other.more) == (one, one.more)


def test_the_fields_are_known_before_the_first_instance() -> None:
    @dataclass(frozen=True, slots=True)
    class Empty:
        a: int
        b: str = "b"

    assert dataclasses.is_dataclass(Empty)
    assert [each.name for each in dataclasses.fields(Empty)] == ["a", "b"]


def test_a_class_may_extend_another() -> None:
    @dataclass(frozen=True, slots=True)
    class Further(Point):
        z: int = 3

    assert Further(1, z=5) == Further(1, 2, {}, 5) != Point(1)
    assert (Further(1).z, Further(1).sum, Point(1).sum) == (3, 3, 3)


def test_threads_that_make_the_first_instances_together() -> None:
    for _ in range(50):

        @dataclass(frozen=True, slots=True)
        class Fresh:
            a: int
            b: list[int] = dataclasses.field(default_factory=list)

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(Fresh, range(4))) == [Fresh(n) for n in range(4)]


def test_other_kinds_of_classes_are_refused() -> None:
    with pytest.raises(TypeError, match="not frozen"):
        dataclass(frozen=False, slots=True)


def test_the_import_of_the_catalogue_compiles_no_methods() -> None:
    program = (
        "import dataclasses; made = []; write = dataclasses._process_class\n"
        "dataclasses._process_class = lambda cls, *a: made.append(cls) or write(cls, *a)\n"
        "import mlperf.catalog; known = [each.__name__ for each in made]\n"
        "assert set(known) <= {'ResultKey', 'Metric'}, known\n"
        "mlperf.catalog.benchmark('resnet50')\n"
        "specs = 'mlperf.catalog.benchmark_specs.'\n"
        "import sys; found = [name for name in sys.modules if name.startswith(specs)]\n"
        "assert found == [specs + 'resnet50'], found\n"
    )
    words = [sys.executable, "-c", program]
    subprocess.run(words, check=True, env=python_env(lab.LIB))
