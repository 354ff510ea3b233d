"""Images as weights of PyTorch want them, and a file for each below a scratch folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import benchmark_lab as lab
from support import run

SRC = lab.PREPROCESS.parent
like = lab.module_of(SRC / "like_torchvision.py")
single = lab.module_of(SRC / "single_files.py")
MEANS, DEVIATIONS = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def weights(old: int, new: int) -> Any:
    """The triangle filter that is as wide as a new pixel where it shrinks, [new, old]."""
    scale = old / new
    reach = max(1.0, scale)
    centres = (np.arange(new) + 0.5) * scale
    distance = np.abs(np.arange(old)[None, :] + 0.5 - centres[:, None]) / reach
    found = np.clip(1 - distance, 0, None)
    return found / found.sum(axis=1, keepdims=True)


def by_the_formula(image: Image.Image) -> Any:
    """Resize 256, crop 224, normalize, in double precision with bytes between the two axes."""
    pixels = np.asarray(image, np.float64)
    height, width = pixels.shape[:2]
    short = 256 / min(height, width)
    down, across = (256 if n == min(height, width) else int(n * short) for n in (height, width))
    rows = np.rint(np.einsum("xw,hwc->hxc", weights(width, across), pixels))
    resized = np.rint(np.einsum("yh,hxc->yxc", weights(height, down), rows))
    top, left = round((down - 224) / 2), round((across - 224) / 2)
    crop = resized[top : top + 224, left : left + 224] / 255
    return ((crop - MEANS) / DEVIATIONS).transpose(2, 0, 1)


@pytest.mark.parametrize("size", [(500, 375), (333, 500), (256, 256), (200, 180), (1000, 301)])
def test_values_are_those_of_the_formula(size: tuple[int, int]) -> None:
    image = noise(*size)
    found = like.preprocess(image, 224)
    assert (found.dtype, found.shape) == (np.float32, (3, 224, 224))
    # A byte may be rounded the other way on each axis.
    off = np.abs(found - by_the_formula(image)) * DEVIATIONS[:, None, None] * 255
    assert off.max() < 2.01
    assert (off > 0.01).mean() < 0.05


def test_a_grey_picture_is_normalized_to_the_bit() -> None:
    found = like.preprocess(Image.new("L", (300, 400), 128), 224)
    wanted = (np.float32(128) / np.float32(255) - MEANS.astype(np.float32)) / DEVIATIONS.astype(
        np.float32
    )
    assert (found == wanted[:, None, None]).all()


def test_torchvision_agrees_where_it_is() -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    steps = [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()]
    steps.append(transforms.Normalize(MEANS.tolist(), DEVIATIONS.tolist()))
    for size in ((500, 375), (333, 500)):
        image = noise(*size)
        wanted = transforms.Compose(steps)(image).numpy()
        np.testing.assert_allclose(like.preprocess(image, 224), wanted, atol=1e-6)


@pytest.mark.parametrize("there", ["", "Resnet50", "ResNet50"])
def test_each_image_is_a_file_in_the_folder_that_is_there(tmp_path: Path, there: str) -> None:
    scratch = tmp_path / "scratch"
    imagenet = scratch / "preprocessed_data" / "imagenet"
    if there:
        (imagenet / there).mkdir(parents=True)
    images = tmp_path / "images"
    images.mkdir()
    for number in range(3):
        noise(300 + number, 280).save(images / f"{number}.png")
    listing = images / "map.txt"
    listing.write_text("".join(f"{number}.png {number}\n" for number in range(3)))
    words = ["--map", listing, "--side", "224", "--name", "x", "--out", tmp_path / "out"]
    words += ["--torchvision", "--scratch", scratch, "--processes", "1"]
    command = [sys.executable, str(lab.PREPROCESS), *map(str, words)]
    assert "3 files in" in run(command).ok().stdout
    out = imagenet / (there or "ResNet50") / "fp32_pytorch"
    samples = np.load(tmp_path / "out" / "samples.npy")
    for number in range(3):
        np.testing.assert_array_equal(np.load(out / f"{number}.png.npy"), samples[number])
    (out / "1.png.npy").write_bytes(b"half")
    assert "1 of them new" in run(command).ok().stdout
    np.testing.assert_array_equal(np.load(out / "1.png.npy"), samples[1])
    assert sorted(each.name for each in out.iterdir()) == [f"{n}.png.npy" for n in range(3)]


def test_a_disk_without_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "MARGIN", 1 << 60)
    with pytest.raises(Exception, match="GB are needed in"):
        single.write(np.zeros((1, 3, 2, 2), np.float32), ["a"], tmp_path)
    assert not list(tmp_path.iterdir())
