"""The steps of torchvision's evaluation: what weights that were trained with PyTorch expect.

RGB, the short side resized with Pillow's bilinear filter, which averages where it shrinks, centre
crop, values from 0 to 1, normalized by mean and deviation of ImageNet. 256 and 224 pixels for
ImageNet. As torchvision does it, EXIF data turn nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

SHORT_SIDE, CROP = 256, 224
MEANS = (0.485, 0.456, 0.406)
DEVIATIONS = (0.229, 0.224, 0.225)
RECIPE = f"torchvision {SHORT_SIDE} {CROP} {MEANS} {DEVIATIONS}"


def resized_size(width: int, height: int, side: int) -> tuple[int, int]:
    """The size (width, height) whose short side is to ``side`` as 256 is to 224."""
    short = side * SHORT_SIDE // CROP
    if width <= height:
        return short, int(short * height / width)
    return int(short * width / height), short


def preprocess(image: Image.Image, side: int) -> npt.NDArray[np.float32]:
    """One image as [3, side, side] float32, normalized."""
    image = image.convert("RGB")
    width, height = resized_size(image.width, image.height, side)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - side) / 2), round((height - side) / 2)
    pixels = np.asarray(resized.crop((left, top, left + side, top + side)), np.float32)
    values = pixels.transpose(2, 0, 1) / np.float32(255)
    means, deviations = (np.asarray(v, np.float32)[:, None, None] for v in (MEANS, DEVIATIONS))
    centred: npt.NDArray[np.float32] = np.subtract(values, means, out=values)
    return np.divide(centred, deviations, out=centred)
