"""Resizing by area, as the reference of image classification has it from OpenCV (INTER_AREA).

Shrinking, a new pixel is the mean of the area that it covers, parts of pixels by their share.
Growing, it lies between two old ones of each axis. Values are whole ones, rounded as OpenCV rounds
bytes. Pixels outside of the crop are never computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[np.float32]
Whole = npt.NDArray[np.signedinteger[Any]]

# OpenCV leaves out a part that is thinner than this share of a pixel.
THINNEST = 1e-3
# Growing, OpenCV counts in whole 2048ths, and drops these binary digits on the way.
STEPS = 2048
DROPPED = (4, 16, 2)


def resized_crop(pixels: Bytes, size: tuple[int, int], corner: tuple[int, int], side: int) -> Array:
    """``side`` x ``side`` x 3 whole values at ``corner`` of ``pixels`` [h, w, 3] made ``size``.

    ``size`` and ``corner`` are (height, width) and (top, left).
    """
    if pixels.shape[0] >= size[0] and pixels.shape[1] >= size[1]:
        return _shrunk(pixels, size, corner, side)
    return _grown(pixels, size, corner, side)


def _shrunk(pixels: Bytes, size: tuple[int, int], corner: tuple[int, int], side: int) -> Array:
    top, down = covered(pixels.shape[0], size[0], corner[0], side)
    left, across = covered(pixels.shape[1], size[1], corner[1], side)
    height, width = down.shape[1], across.shape[1]
    part = pixels[top : top + height, left : left + width].astype(np.float32)
    lines = down @ part.reshape(height, -1)
    columns = lines.reshape(side, width, 3).transpose(1, 0, 2).reshape(width, -1)
    pixels_: Array = (across @ columns).reshape(side, side, 3).transpose(1, 0, 2)
    if pixels.shape[:2] == (2 * size[0], 2 * size[1]):
        # Four bytes have a sum in whole numbers, of which OpenCV rounds halves up.
        pixels_ += np.float32(0.5)
        return np.floor(pixels_, out=pixels_)
    return np.rint(pixels_, out=pixels_)


def covered(size: int, target: int, begin: int, count: int) -> tuple[int, Array]:
    """Return the first old pixel that is needed, and the shares of old pixels in new ones [count].

    The new ones are ``begin`` to ``begin + count`` of ``target``, made of ``size`` old ones.
    """
    scale = 1.0 / (target / size)
    low = (begin + np.arange(count)) * scale
    width = np.minimum(scale, size - low)
    first, last = int(low[0]), min(size, int(np.ceil(low[-1] + scale)))
    old = np.arange(first, last)
    ends = np.minimum((low + scale)[:, None], old[None, :] + 1)
    shares = np.clip(ends - np.maximum(low[:, None], old[None, :]), 0, 1)
    shares[shares < THINNEST] = 0
    return first, (shares / width[:, None]).astype(np.float32)


def _grown(pixels: Bytes, size: tuple[int, int], corner: tuple[int, int], side: int) -> Array:
    above, below, down = between(pixels.shape[0], size[0], corner[0], side)
    before, behind, right = between(pixels.shape[1], size[1], corner[1], side)
    right = right[None, :, None]
    old = pixels.astype(np.int64)
    lines = old[:, before] * (STEPS - right) + old[:, behind] * right
    first, second, last = DROPPED
    lines >>= first
    down = down[:, None, None]
    sums = ((STEPS - down) * lines[above] >> second) + (down * lines[below] >> second)
    rounded: Array = (sums + (1 << last - 1) >> last).astype(np.float32)
    return rounded


def between(size: int, target: int, begin: int, count: int) -> tuple[Whole, Whole, Whole]:
    """Return the two old pixels around the new ones, and the distance to the first in 2048ths.

    The new ones are ``begin`` to ``begin + count`` of ``target``, made of ``size`` old ones.
    """
    new = begin + np.arange(count)
    scale = target / size
    # Where both are whole numbers, OpenCV's product of rounded factors may fall below theirs.
    low = np.floor(new * (1.0 / scale)).astype(np.int64)
    # In single precision, in which nearly the whole distance is the whole, and so none.
    way = ((new + 1) - (low + 1) * scale).astype(np.float32)
    way = np.where(way <= 0, 0, way - np.floor(way))
    way[low >= size - 1] = 0
    low = np.minimum(low, size - 1)
    return low, np.minimum(low + 1, size - 1), np.rint(way * STEPS).astype(np.int64)
