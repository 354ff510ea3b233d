"""Cases of KiTS19: how they are read, and what the benchmark makes of them.

They are resampled to voxels of 1.6 x 1.2 x 1.2 mm, clipped, normalised and padded or cropped so
that windows with half overlap fill them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import ndimage

from modelzoo.program import ProgramError
from modelzoo.volumes import nifti
from modelzoo.volumes.arrays import Array, Volume, Window

SPACING_MM = (1.6, 1.2, 1.2)
LEAST, GREATEST = -79.0, 304.0
MEAN, DEVIATION = 101.0, 76.9
# What a volume is filled up with, which is about what the least value becomes.
PADDING = -2.2
# The benchmark has one case twice, under a number that KiTS19 does not have.
COPIES = {"case_00400": "case_00185"}
NAMES = ("imaging.nii.gz", "segmentation.nii.gz")

Case = tuple[Array, Array, Sequence[float]]


def read(folder: Path) -> Case:
    """Image float32 and labels uint8 [d, h, w] of a case, and its voxels' sizes in mm.

    Raises ProgramError when a file cannot be read or the shapes differ.
    """
    with nifti.reading(folder):
        (image, sizes), (labels, _) = (nifti.opened(folder / name) for name in NAMES)
        values = np.asarray(image.dataobj, dtype=np.float32)
        marks = np.asarray(labels.dataobj).astype(np.uint8)
    if values.ndim != 3 or values.shape != marks.shape:
        raise ProgramError(
            f"{folder}: the image is {list(values.shape)}, the segmentation {list(marks.shape)}"
        )
    return values, marks, sizes


def resampled(image: Array, labels: Array, spacing: Sequence[float]) -> Volume:
    """Resample both [d, h, w] to the benchmark's voxels: values linearly, labels to the nearest.

    ``spacing`` is the size of a voxel along the axes, in mm.
    """
    factors = np.asarray(spacing) / np.asarray(SPACING_MM)
    if np.allclose(factors, 1.0, rtol=1e-6):
        return image, labels
    shared = {"zoom": factors, "mode": "constant", "grid_mode": False}
    wide = ndimage.zoom(image, order=1, cval=image.min(), **shared)
    return wide, ndimage.zoom(labels, order=0, cval=labels.min(), **shared)


def normalised(image: Array) -> Array:
    """Return values [d, h, w] clipped to the range of interest and centred, float32."""
    values: Array = ((np.clip(image, LEAST, GREATEST) - MEAN) / DEVIATION).astype(np.float32)
    return values


def fitted(volume: Volume, window: Window) -> Volume:
    """Pad or crop both such that windows of ``window`` with half overlap fill them.

    A side shorter than a window is continued with its edge. A rest of less than a quarter of a
    window is cropped, a greater one is filled up, half of it on either side.
    """
    image, labels = volume
    short = [_halves(max(0, s - size)) for s, size in zip(window, image.shape, strict=True)]
    image, labels = np.pad(image, short, mode="edge"), np.pad(labels, short, mode="edge")
    strides = [side // 2 for side in window]
    cut = []
    for size, stride in zip(image.shape, strides, strict=True):
        rest = size % stride
        low, high = _halves(rest if rest < stride // 2 else 0)
        cut.append(slice(low, size - high))
    image, labels = image[tuple(cut)], labels[tuple(cut)]
    more = [_halves(-size % stride) for size, stride in zip(image.shape, strides, strict=True)]
    filled = np.pad(image, more, constant_values=PADDING)
    return filled, np.pad(labels, more, constant_values=0)


def _halves(amount: int) -> tuple[int, int]:
    return amount // 2, amount - amount // 2


def preprocessed(case: Case, window: Window) -> Volume:
    """Image float32 and labels uint8 [d, h, w] as a benchmark is fed them."""
    image, labels = resampled(*case)
    return fitted((normalised(image), labels), window)


def note(_: Case, marks: Array) -> str:
    """Return the size of the volume as it has become."""
    return f" {list(marks.shape)}"


def folders(cases: Path, listed: Sequence[str]) -> list[Path]:
    """Return the folders of the listed cases; raise ProgramError naming missing files."""
    originals = [cases / COPIES.get(name, name) for name in listed]
    missing = [
        str(folder / name)
        for folder in dict.fromkeys(originals)
        for name in NAMES
        if not (folder / name).is_file()
    ]
    if missing:
        more = f" and {len(missing) - 1} more files" if len(missing) > 1 else ""
        raise ProgramError(f"there is no {missing[0]}{more}")
    return originals
