"""Resizing by area: what it means, and that it is what OpenCV does."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import benchmark_lab as lab

area = lab.module_of(lab.PREPROCESS.parent / "area.py")
program = lab.module_of(lab.PREPROCESS)

SIDE = 224
SIZES = [(375, 500), (500, 333), (512, 640), (768, 1024), (256, 300), (200, 300), (257, 400)]
# Sums of float32 in another order round to the next whole value now and then.
OTHERWISE = 2e-4

Bytes = npt.NDArray[np.uint8]


def noise(height: int, width: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_every_new_pixel_is_a_mean(size: int, target: int, data: Any) -> None:
    begin = data.draw(st.integers(0, target - 1))
    count = data.draw(st.integers(1, target - begin))
    if size >= target:
        first, shares = area.covered(size, target, begin, count)
        assert first >= 0
        assert first + shares.shape[1] <= size
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=3e-3)
    else:
        low, high, way = area.between(size, target, begin, count)
        assert ((low >= 0) & (low <= high) & (high < size)).all()
        assert ((way >= 0) & (way <= area.STEPS)).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(8, 20), st.integers(8, 20))
def test_whole_factors_are_means_of_squares(factor: int, height: int, width: int) -> None:
    pixels = noise(factor * height, factor * width)
    found = area.resized_crop(pixels, (height, width), (1, 2), 6)
    blocks = pixels.reshape(height, factor, width, factor, 3).astype(np.float64)
    expected = blocks.mean(axis=(1, 3))[1:7, 2:8]
    np.testing.assert_allclose(found, expected, atol=0.5 + 1e-4)


def test_nothing_is_lost_at_the_edges() -> None:
    """The whole image resized has the mean of the image, whatever the factor."""
    pixels = noise(301, 301)
    found = area.resized_crop(pixels, (97, 97), (0, 0), 97)
    np.testing.assert_allclose(found.mean(axis=(0, 1)), pixels.mean(axis=(0, 1)), atol=0.1)


# What OpenCV 4.14 and 5.0 give for three columns of a row; the middle one is on a boundary.
AT_A_BOUNDARY = [
    ((216, 368), 46, [218, 218, 88]),
    ((238, 306), 27, [148, 148, 131]),
    ((315, 405), 27, [148, 148, 131]),
    ((403, 468), 252, [216, 216, 138]),
]


@pytest.mark.parametrize(("sizes", "column", "expected"), AT_A_BOUNDARY)
def test_a_new_pixel_on_a_boundary_is_taken_as_by_opencv(
    sizes: tuple[int, int], column: int, expected: list[int]
) -> None:
    old, new = sizes
    row = (np.arange(old) * 97 % 256).astype(np.uint8)
    pixels = np.broadcast_to(row[None, :, None], (old, old, 3))
    for each in (pixels, pixels.transpose(1, 0, 2)):
        found = area.resized_crop(each, (new, new), (0, 0), new)
        lines = found[0] if each is pixels else found[:, 0]
        assert lines[column - 1 : column + 2, 0].tolist() == expected


def test_a_crop_is_a_part_of_the_whole() -> None:
    for old in (300, 60):
        pixels = noise(old, old)
        whole = area.resized_crop(pixels, (97, 97), (0, 0), 97)
        part = area.resized_crop(pixels, (97, 97), (20, 31), 40)
        np.testing.assert_array_equal(part, whole[20:60, 31:71])


def reference(cv2: Any, data: bytes) -> npt.NDArray[np.float32]:
    """The published recipe for ResNet-50, written down again with OpenCV."""
    image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_COLOR)
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    height, width = image.shape[:2]
    short = int(100.0 * SIDE / 87.5)
    size = (short, short * height // width) if height > width else (short * width // height, short)
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    top, left = (size[1] - SIDE) // 2, (size[0] - SIDE) // 2
    crop = image[top : top + SIDE, left : left + SIDE].astype(np.float32)
    return (crop - np.array([123.68, 116.78, 103.94], dtype=np.float32)).transpose(2, 0, 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["RGB", "L", "turned"])
def test_a_sample_is_what_opencv_makes_of_the_file(size: tuple[int, int], kind: str) -> None:
    """To the bit, but for a few values in ten thousand that differ by one of 255."""
    cv2 = pytest.importorskip("cv2")
    small = Image.fromarray(noise(size[0] // 6, size[1] // 6))
    image = small.resize((size[1], size[0]), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    if kind == "turned":
        exif[0x0112] = 6
    file = io.BytesIO()
    image.convert("L" if kind == "L" else "RGB").save(file, "JPEG", quality=90, exif=exif)
    found = program.preprocess(Image.open(file), SIDE)
    away = np.abs(found - reference(cv2, file.getvalue()))
    assert away.max() <= 1
    assert (away > 0).mean() <= OTHERWISE
