"""The digits: the layout of ImageNet, an honest split, and nothing that is not verified."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import benchmark_lab as lab
from support import run

make_dataset = lab.module_of(lab.DIGITS)


def entries(part: str) -> list[list[str]]:
    path = lab.digits() / part / f"{part}_map.txt"
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("part", "count"), [("train", 1257), ("val", 540)])
def test_every_listed_image_is_rgb_of_32_pixels(part: str, count: int) -> None:
    listed = entries(part)
    assert len(listed) == count
    files = {path.name for path in (lab.digits() / part).glob("*.png")}
    assert files == {name for name, _ in listed}
    with Image.open(lab.digits() / part / listed[0][0]) as image:
        assert (image.mode, image.size) == ("RGB", (32, 32))


def test_the_images_are_the_source_exactly() -> None:
    images, labels = make_dataset.load_source()
    for offset, part in ((0, "train"), (1257, "val")):
        for number in (0, 100, 539):
            name, label = entries(part)[number]
            with Image.open(lab.digits() / part / name) as image:
                pixels = np.asarray(image)
            assert int(label) == labels[offset + number]
            levels = np.rint(pixels[::4, ::4, 0] * (16 / 255))
            np.testing.assert_array_equal(levels, images[offset + number])
            assert (pixels == pixels[:, :, :1]).all()


def test_the_held_out_part_is_one_block_after_the_training_part() -> None:
    _, labels = make_dataset.load_source()
    split = make_dataset.split(np.zeros((len(labels), 32, 32), np.uint8), labels)
    assert [part.name for part in split] == ["train", "val"]
    np.testing.assert_array_equal(np.concatenate([part.labels for part in split]), labels)


def test_facts_name_source_licence_and_counts() -> None:
    facts = json.loads((lab.digits() / "dataset.json").read_text(encoding="utf-8"))
    assert facts["licence"] == "CC BY 4.0"
    assert facts["parts"]["val"]["count"] == 540
    assert sum(facts["parts"]["val"]["images_per_class"]) == 540


def test_a_changed_image_is_noticed(tmp_path: Path) -> None:
    parts = make_dataset.split(*sources())
    make_dataset.write_part(parts[1], tmp_path)
    make_dataset.verify_part(parts[1], tmp_path)
    victim = tmp_path / "val" / entries("val")[3][0]
    with Image.open(victim) as image:
        changed = image.copy()
    changed.putpixel((5, 5), (1, 2, 3))
    changed.save(victim)
    with pytest.raises(make_dataset.ProgramError, match="reads back as 540 images"):
        make_dataset.verify_part(parts[1], tmp_path)


def sources() -> tuple[np.ndarray, np.ndarray]:
    images, labels = make_dataset.load_source()
    return make_dataset.enlarge(images), labels


def test_a_source_that_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make_dataset, "SOURCE_LABELS_SHA256", "0" * 64)
    assert make_dataset.main(["--out", str(tmp_path)]) == 1
    assert "the digit labels of scikit-learn" in capsys.readouterr().err
    assert not (tmp_path / "dataset.json").exists()


def test_it_is_the_same_every_time(tmp_path: Path) -> None:
    run([sys.executable, str(lab.DIGITS), "--out", str(tmp_path)]).ok()
    for name in ("dataset.json", "val/val_map.txt", "val/digits_val_00000001.png"):
        assert (tmp_path / name).read_bytes() == (lab.digits() / name).read_bytes()


def test_customize_hands_out_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    customize = lab.module_of(lab.SCRIPT / "get-dataset-digits" / "customize.py")
    monkeypatch.chdir(lab.digits())
    env: dict[str, str] = {}
    assert customize.postprocess({"env": env})["version"] == "1.0"
    assert env["CM_DATASET_SIZE"] == "540"
    assert (Path(env["CM_DATASET_PATH"]) / "val_map.txt").is_file()
    assert (Path(env["CM_DATASET_TRAIN_PATH"]) / "train_map.txt").is_file()
