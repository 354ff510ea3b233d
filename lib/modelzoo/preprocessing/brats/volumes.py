"""The arrays that the benchmark loads: all volumes one after the other, all of one size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelzoo import files

CHANNELS = 4
# Voxels outside of the image, by which no answer is judged.
NOT_COUNTED = 255
FILES = ("samples.npy", "labels.npy", "shapes.npy")

Array = npt.NDArray[Any]
Window = tuple[int, int, int]


def window_of(text: str) -> Window:
    """Three sides in the order depth, height, width out of a text such as 224,224,160.

    In voxels; raises ValueError for another text.
    """
    sides = [int(word) for word in text.split(",")]
    if len(sides) != 3 or min(sides) < 1:
        raise ValueError(f"{text!r} is not three sizes")
    return sides[0], sides[1], sides[2]


class Volumes:
    """Arrays in the making in ``folder``, on disk from the start: the full ones take 9 GB."""

    def __init__(self, folder: Path, count: int, window: Window) -> None:
        self._folder = folder
        self._count = count
        self.window = window
        voxels = int(np.prod(window))
        message = "the arrays take {needed:.1f} GB, and {free:.1f} GB are free at " + str(folder)
        files.check_disk(folder, count * voxels * (CHANNELS * 4 + 1), message)
        self._samples = files.array(folder / "samples.npy", np.float32, count * CHANNELS * voxels)
        self._labels = files.array(folder / "labels.npy", np.uint8, count * voxels)
        shapes = np.tile(np.array([CHANNELS, *window], dtype=np.int64), (count, 1))
        np.save(folder / "shapes.npy", shapes)

    def put(self, row: int, images: Array, labels: Array) -> None:
        """Write the volume ``row``: images [4, d, h, w] of the window's size, labels [d, h, w]."""
        self._samples[row * images.size : (row + 1) * images.size] = images.ravel()
        self._labels[row * labels.size : (row + 1) * labels.size] = labels.ravel()

    def close(self, facts: Mapping[str, Any]) -> None:
        """Write dataset.json, last of all: ``facts`` and those of the files."""
        del self._samples, self._labels
        more = {"count": self._count, "window": list(self.window)}
        file_facts = files.facts_of_files(self._folder, FILES)
        files.write_facts(self._folder, {**facts, **more, "files": file_facts})


def fitted(array: Array, window: Sequence[int], filling: float) -> Array:
    """The array [..., d, h, w] in the middle of one whose last three sides are the window's.

    Where the rest is odd, the greater half lies behind.
    """
    rest = [side - size for side, size in zip(window, array.shape[-3:], strict=True)]
    around = [(0, 0)] * (array.ndim - 3) + [(size // 2, size - size // 2) for size in rest]
    return np.pad(array, around, constant_values=filling)
