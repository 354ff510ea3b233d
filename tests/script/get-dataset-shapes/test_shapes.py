"""The drawn shapes: laid out as COCO, boxes that fit what is seen, parts that differ."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

import benchmark_forms as forms
import benchmark_lab as lab
from support import LIB

SCRIPT = forms.SCRIPT / "get-dataset-shapes"
makes = lab.module_of(LIB / "modelzoo/datasets/shapes" / "make_dataset.py")


def told() -> dict[str, Any]:
    path = forms.shapes() / "annotations" / "instances_val2017.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_the_layout_is_that_of_coco() -> None:
    found = told()
    facts = json.loads((forms.shapes() / "dataset.json").read_text(encoding="utf-8"))
    assert facts["count"] == len(found["images"]) == 500
    assert facts["objects"] == len(found["annotations"]) > 4 * 400
    numbers = [category["id"] for category in found["categories"]]
    assert {each["category_id"] for each in found["annotations"]} == set(numbers)
    assert numbers != list(range(1, len(numbers) + 1)), "numbers with gaps show a wrong mapping"
    image = found["images"][7]
    with Image.open(forms.shapes() / "val2017" / image["file_name"]) as picture:
        assert picture.size == (image["width"], image["height"])
    for each in found["annotations"]:
        assert each["area"] == pytest.approx(each["bbox"][2] * each["bbox"][3], abs=0.01)


@pytest.mark.parametrize("category", list(makes.CATEGORIES))
def test_a_box_goes_round_what_is_drawn(category: int) -> None:
    colour = np.asarray([250.0, 0.0, 250.0])
    thing = makes.DrawnShape(category, x=60.0, y=50.0, across=20.0, down=14.0, colour=colour)
    with_it = makes.draw(np.random.default_rng(3), 120, 100, [thing]).astype(int)
    without = makes.draw(np.random.default_rng(3), 120, 100, []).astype(int)
    rows, columns = np.nonzero(np.abs(with_it - without).sum(axis=2) > 30)
    left, top, width, height = thing.box
    assert abs(columns.min() - left) <= 2
    assert abs(columns.max() + 1 - left - width) <= 2
    assert abs(rows.min() - top) <= 2
    assert abs(rows.max() + 1 - top - height) <= 2


def test_objects_hardly_hide_each_other() -> None:
    things = makes.arrange(np.random.default_rng(1), 120, 120)
    assert 2 <= len(things) <= 6
    for number, one in enumerate(things):
        for other in things[:number]:
            assert makes.overlap(one.box, other.box) <= makes.MOST_OVERLAP
    assert makes.overlap((0, 0, 10, 10), (5, 0, 10, 10)) == pytest.approx(1 / 3)
    assert makes.overlap((0, 0, 10, 10), (20, 0, 10, 10)) == 0


def test_the_parts_come_from_different_seeds(tmp_path: Any) -> None:
    first = makes.write_part(tmp_path / "a", "val", 3, makes.PARTS["val"][1])
    again = makes.write_part(tmp_path / "b", "val", 3, makes.PARTS["val"][1])
    other = makes.write_part(tmp_path / "c", "train", 3, makes.PARTS["train"][1])
    assert first["sha256"] == again["sha256"] != other["sha256"]
