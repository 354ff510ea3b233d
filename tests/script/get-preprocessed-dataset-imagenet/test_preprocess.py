"""Preprocessing: the reference's geometry and values, at any size."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import benchmark_lab as lab

program = lab.module_of(lab.PREPROCESS)
customize = lab.module_of(lab.SCRIPT / "get-preprocessed-dataset-imagenet" / "customize.py")


def picture(width: int, height: int) -> Image.Image:
    """Red grows to the right, green downwards."""
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    pixels = np.stack([across, down, np.full_like(across, 7)], axis=-1)
    return Image.fromarray(pixels.astype(np.uint8), "RGB")


@given(st.integers(28, 900), st.integers(28, 900), st.sampled_from([28, 224]))
def test_the_crop_is_87_and_a_half_percent_of_the_short_side(
    width: int, height: int, side: int
) -> None:
    size = program.resized_size(width, height, side)
    assert min(size) == {28: 32, 224: 256}[side]
    assert max(size) == pytest.approx(min(size) * max(width, height) / min(width, height), abs=1)


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (256, 256), (100, 90), (32, 32)])
def test_a_sample_has_the_model_s_shape_and_centre(size: tuple[int, int]) -> None:
    sample = program.preprocess(picture(*size), 28)
    assert (sample.shape, sample.dtype) == ((3, 28, 28), np.float32)
    means = np.asarray(program.MEANS)[:, None, None]
    middle = (sample + means)[:2, 13:15, 13:15].mean(axis=(1, 2))
    np.testing.assert_allclose(middle, [127.5, 127.5], atol=6)
    assert (sample + means)[2].mean() == pytest.approx(7, abs=0.01)


def test_pixels_that_need_no_resizing_are_untouched() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    sample = program.preprocess(Image.fromarray(pixels, "RGB"), 28)
    expected = pixels[2:30, 2:30].astype(np.float32) - np.asarray(program.MEANS, np.float32)
    np.testing.assert_array_equal(sample, expected.transpose(2, 0, 1))


def test_grey_and_transparent_images_become_rgb() -> None:
    for mode in ("L", "RGBA", "P"):
        assert program.preprocess(picture(40, 40).convert(mode), 28).shape == (3, 28, 28)


def test_the_arrays_of_the_digits_are_as_their_facts_say() -> None:
    folder = lab.arrays()
    facts = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    samples, labels = np.load(folder / "samples.npy"), np.load(folder / "labels.npy")
    assert samples.shape == (facts["count"], *facts["sample_shape"]) == (540, 3, 28, 28)
    assert (samples.dtype, labels.dtype) == (np.float32, np.int64)
    assert set(labels) == set(range(10))
    for name, about in facts["files"].items():
        data = (folder / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (about["bytes"], about["sha256"])


def test_the_training_part_shares_no_image_with_the_held_out_part() -> None:
    parts = [np.load(lab.arrays(part) / "samples.npy") for part in ("train", "val")]
    train, held_out = ({sample.tobytes() for sample in part} for part in parts)
    assert not train & held_out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png 1\nb.png\n", 'map.txt:2: expected "file label", found "b.png"'),
        ("a.png one\n", 'map.txt:1: expected "file label"'),
        ("\n\n", "map.txt lists no images"),
        ("a.png 1\n", "a.png cannot be read as an image"),
    ],
)
def test_unusable_lists_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (tmp_path / "map.txt").write_text(text, encoding="utf-8")
    (tmp_path / "a.png").write_bytes(b"no picture")
    words = ["--map", str(tmp_path / "map.txt"), "--side", "28", "--name", "x"]
    assert program.main([*words, "--out", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "dataset.json").exists()


@pytest.mark.parametrize(
    ("part", "listed", "key"),
    [
        ("validation", "/val/val_map.txt", "CM_DATASET_PREPROCESSED_PATH"),
        ("training", "/train/train_map.txt", "CM_DATASET_PREPROCESSED_TRAINING_PATH"),
    ],
)
def test_customize_chooses_the_part(
    monkeypatch: pytest.MonkeyPatch, part: str, listed: str, key: str
) -> None:
    env: dict[str, Any] = {
        "CM_DATASET_FORM": "tiny",
        "CM_DATASET_TYPE": part,
        "CM_DATASET_PATH": "/val",
        "CM_DATASET_TRAIN_PATH": "/train",
    }
    assert customize.preprocess({"env": env})["relies_on"] == [listed]
    assert env["CM_DATASET_IMAGES_MAP"] == listed
    monkeypatch.chdir(lab.arrays())
    customize.postprocess({"env": env})
    assert env[key] == str(lab.arrays().resolve())


def test_the_full_data_set_is_not_promised() -> None:
    with pytest.raises(customize.Error, match="only its tiny and"):
        customize.preprocess({"env": {}})
