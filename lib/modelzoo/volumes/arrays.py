"""The arrays that a benchmark of volumes loads: all of them one after the other."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from modelzoo import files

Array = npt.NDArray[Any]
Volume = tuple[Array, Array]
Window = tuple[int, int, int]

DTYPES: dict[str, np.dtype[Any]] = {
    "samples.npy": np.dtype(np.float32),
    "labels.npy": np.dtype(np.uint8),
}
SHAPES = "shapes.npy"


def window_of(text: str) -> Window:
    """Three sides in voxels, depth, height, width: 224,224,160, or 128 for all three.

    Raises ValueError for another text.
    """
    sides = [int(word) for word in text.split(",")]
    sides = sides * 3 if len(sides) == 1 else sides
    if len(sides) != 3 or min(sides) < 1:
        raise ValueError(f"{text!r} is not three sizes")
    return sides[0], sides[1], sides[2]


def window_fact(window: Window) -> int | list[int]:
    """A window as dataset.json has it: its side, if all three are the same."""
    return window[0] if len(set(window)) == 1 else list(window)


def check_room(folder: Path, shapes: Iterable[Sequence[int]]) -> None:
    """Raise ProgramError unless arrays of volumes [c, d, h, w] and their labels fit on the disk."""
    needed = sum((4 * shape[0] + 1) * int(np.prod(shape[1:])) for shape in shapes)
    message = "the arrays take {needed:.1f} GB, and {free:.1f} GB are free at " + str(folder)
    files.check_disk(folder, needed, message)


class VolumeArrays:
    """The arrays in the making in ``folder``: no more than one volume is in memory at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shapes: list[tuple[int, ...]] = []
        self._files = {name: (folder / name).open("wb") for name in DTYPES}
        self._write_headers((0, 0))

    def add(self, images: Array, labels: Array) -> None:
        """Write the next volume: images [c, d, h, w] or [d, h, w], labels [d, h, w]."""
        self._shapes.append((*(1,) * (4 - images.ndim), *images.shape))
        for (name, file), array in zip(self._files.items(), (images, labels), strict=True):
            file.write(np.ascontiguousarray(array, DTYPES[name]).data)

    def close(self, facts: Mapping[str, Any]) -> None:
        """Write dataset.json, last of all: ``facts`` and those of the arrays."""
        shapes = np.asarray(self._shapes, dtype=np.int64)
        self._write_headers((int(shapes.prod(1).sum()), int(shapes[:, 1:].prod(1).sum())))
        for file in self._files.values():
            file.close()
        np.save(self._folder / SHAPES, shapes)
        file_facts = files.facts_of_files(self._folder, (*DTYPES, SHAPES))
        files.write_facts(self._folder, {**facts, "count": len(self._shapes), "files": file_facts})

    def _write_headers(self, counts: tuple[int, int]) -> None:
        """Write NumPy's headers, which have room for any count, to the begin of the files."""
        for (name, file), count in zip(self._files.items(), counts, strict=True):
            file.seek(0)
            _write_header(file, DTYPES[name], count)


def _write_header(file: BinaryIO, dtype: np.dtype[Any], count: int) -> None:
    header = io.BytesIO()
    about = {"descr": dtype.str, "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(header, about)
    file.write(header.getvalue())
