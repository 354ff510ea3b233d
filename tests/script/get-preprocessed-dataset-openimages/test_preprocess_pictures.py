"""Preprocessing of images: resized as the reference does, fed as each model is, refused else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import benchmark_forms as forms
import benchmark_lab as lab
from support import LIB

SCRIPT = forms.SCRIPT / "get-preprocessed-dataset-openimages"
makes = lab.module_of(LIB / "modelzoo/preprocessing/openimages" / "preprocess.py")
customize = lab.module_of(SCRIPT / "customize.py")


def test_resizing_is_linear_between_the_middles_of_pixels() -> None:
    ramp = np.tile(np.asarray([0.0, 10.0], dtype=np.float32)[None, :, None], (2, 1, 3))
    # Two pixels become four: their middles lie at -0.25, 0.25, 0.75 and 1.25 of the old ones.
    np.testing.assert_allclose(makes.resize(ramp, 4)[0, :, 0], [0, 2.5, 7.5, 10])
    six = np.arange(6, dtype=np.float32)[None, :, None].repeat(3, axis=2)
    # Six become two at 1 and 4, without a look at the pixels around: nothing is smoothed.
    np.testing.assert_allclose(makes.resize(six, 2)[0, :, 0], [1, 4])


@pytest.mark.parametrize("size", [(37, 91), (96, 96), (140, 100), (300, 20)])
def test_resizing_is_that_of_opencv(size: tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    random = np.random.default_rng(5)
    pixels = random.integers(0, 256, (*size, 3)).astype(np.float32)
    expected = cv2.resize(pixels, (96, 96), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_allclose(makes.resize(pixels, 96), expected, atol=0.02)


def test_each_model_is_fed_its_own_kind() -> None:
    pixels = np.full((2, 2, 3), 127.9, dtype=np.float32)
    pixels[0, 1] = [0, 255, 255]
    assert makes.shares(pixels).shape == (3, 2, 2)
    np.testing.assert_allclose(makes.shares(pixels)[:, 0, 1], [0, 1, 1])
    expected = (np.asarray([0, 1, 1]) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(makes.normalised(pixels)[:, 0, 1], expected, rtol=1e-5)
    whole = makes.whole_bytes(pixels)
    assert (whole.dtype, whole[0, 0].tolist()) == (np.uint8, [127, 127, 127])


def test_arrays_and_annotations_are_in_the_same_order() -> None:
    folder = forms.pictures("retinanet")
    told = json.loads((folder / "annotations.json").read_text())
    samples = np.load(folder / "samples.npy", mmap_mode="r")
    facts = json.loads((folder / "dataset.json").read_text())
    assert len(samples) == len(told["images"]) == facts["count"] == 500
    with Image.open(forms.shapes() / "val2017" / told["images"][3]["file_name"]) as picture:
        pixels = np.asarray(picture.convert("RGB"), dtype=np.float32)
    np.testing.assert_array_equal(samples[3], makes.shares(makes.resize(pixels, 96)))


def call(tmp_path: Path, told: dict[str, Any], *words: str) -> int:
    (tmp_path / "list.json").write_text(json.dumps(told))
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    given = [f"--annotations={tmp_path / 'list.json'}", f"--images={tmp_path}", f"--out={out}"]
    found: int = makes.main([*given, "--input=shares", "--side=8", "--name=x", *words])
    return found


def scene(tmp_path: Path, *names: str) -> dict[str, Any]:
    images = [{"id": k, "file_name": name, "width": 6, "height": 4} for k, name in enumerate(names)]
    Image.new("RGB", (6, 4)).save(tmp_path / "a.png")
    return {"images": images, "annotations": [], "categories": []}


def test_what_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(tmp_path, scene(tmp_path, "a.png", "b.png")) == 1
    assert f"1 of 2 images are not in {tmp_path}: b.png" in capsys.readouterr().err
    told = scene(tmp_path, "a.png", "b.png")
    assert call(tmp_path, told, "--count=1") == 0
    assert not list((tmp_path / "out").glob("*.part"))
    told["images"][0]["width"] = 7
    assert call(tmp_path, told, "--count=1") == 1
    assert "is 6 x 4 pixels, the annotations say 7 x 4" in capsys.readouterr().err
    assert call(tmp_path, {"images": 3}) == 1
    assert "has no annotations in COCO's format" in capsys.readouterr().err
    assert call(tmp_path, scene(tmp_path, "a.png"), "--expect=2") == 1
    assert "lists 1 images, expected 2" in capsys.readouterr().err
    (tmp_path / "b.png").write_text("no image")
    assert call(tmp_path, scene(tmp_path, "b.png")) == 1
    assert "cannot be read as an image" in capsys.readouterr().err
    monkeypatch.setattr(makes, "MARGIN", 1 << 60)
    assert call(tmp_path, scene(tmp_path, "a.png")) == 1
    assert "are free: ask for fewer" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["openimages", "coco"])
def test_calibration_takes_images_of_the_rules_list_and_repeats_none(
    name: str, tmp_path: Path
) -> None:
    module = lab.module_of(forms.SCRIPT / f"get-preprocessed-dataset-{name}" / "customize.py")
    given = {
        "CM_DATASET_TYPE": "calibration",
        "CM_CALIBRATION_LIST_FILE_WITH_PATH": "/list",
        "CM_CALIBRATION_IMAGES_PATH": "/pictures",
        "CM_DETECTION_INPUT": "bytes",
        "CM_DATASET_INPUT_SQUARE_SIDE": "300",
        "CM_DATASET": name,
        "CM_TMP_RUN_DIR": str(tmp_path),
    }
    env = dict(given)
    assert module.preprocess({"env": env})["relies_on"] == ["/list", "/pictures"]
    assert (env["CM_DETECTION_LIST"], env["CM_DETECTION_COUNT"]) == ("/list", "128")
    words = (tmp_path / "arguments").read_text().split("\0")
    assert words[-5:] == ["--list", "/list", "--images", "/pictures", ""]
    env = {**given, "CM_DATASET_FORM": "synthetic", "CM_DETECTION_QSL_COUNT": "5000"}
    module.preprocess({"env": env})
    assert (env["CM_DETECTION_QSL_COUNT"], env["CM_DETECTION_LIST"]) == ("0", "")


def test_images_of_a_list_have_sizes_and_no_boxes(tmp_path: Path) -> None:
    scene(tmp_path, "a.png")
    (tmp_path / "list.txt").write_text("a.png\na.png\n")
    out = tmp_path / "out"
    out.mkdir()
    words = ["--list", tmp_path / "list.txt", "--images", tmp_path, "--input", "shares"]
    words += ["--side", "8", "--name", "few", "--count", "1", "--out", out]
    assert makes.main([str(word) for word in words]) == 0
    told = json.loads((out / "annotations.json").read_text())
    assert told["images"] == [{"id": 1, "file_name": "a.png", "width": 6, "height": 4}]
    assert (told["annotations"], told["categories"]) == ([], [])
    assert np.load(out / "samples.npy").shape == (1, 3, 8, 8)
    (tmp_path / "list.txt").write_text("a.png none.jpg")
    assert makes.main([str(word) for word in words[:-6]] + ["--name", "x", "--out", str(out)]) == 1


def test_the_tiny_set_is_repeated_to_the_size_of_the_rules() -> None:
    import yaml

    from mlperf import catalog

    meta = yaml.safe_load((SCRIPT / "meta.yaml").read_text())
    count = meta["variations"]["tiny"]["env"]["CM_DETECTION_QSL_COUNT"]
    assert int(count) == catalog.benchmark("retinanet").dataset_size
    folder = forms.pictures("retinanet", "--qsl_count", count)
    assert json.loads((folder / "dataset.json").read_text())["qsl_count"] == 24781
