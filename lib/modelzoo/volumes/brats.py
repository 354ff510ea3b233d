"""Cases of BraTS 2019: how they are read, and what the benchmark makes of them.

They are cropped to the brain, images are normalised inside of it, and the rest of the window is
filled up with 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy import ndimage

from modelzoo.program import ProgramError
from modelzoo.volumes import nifti
from modelzoo.volumes.arrays import Array, Volume, Window

# The order of the model's input channels.
MODALITIES = ("t1", "t1ce", "t2", "flair")
SPACING_MM = 1.0
# BraTS's labels for nothing, core, swelling and enhancing tumour, and what the model calls them.
CLASSES = {0: 0, 1: 2, 2: 1, 4: 3}
# Voxels outside of the image, by which no answer is judged.
NOT_COUNTED = 255
# Keeps an image without any contrast from being divided by 0.
TINY = 1e-8

Case = tuple[Array, Array]


def read(folder: Path) -> Case:
    """Images float32 [4, d, h, w] and BraTS's labels uint8 [d, h, w] of a case.

    NIfTI has its axes from left to right, back to front and bottom to top; the model wants them the
    other way round. Raises ProgramError when a file cannot be read or the sizes differ.
    """
    with nifti.reading(folder):
        images = [_values(folder, name).astype(np.float32) for name in MODALITIES]
        labels = _values(folder, "seg")
    shapes = {image.shape for image in (*images, labels)}
    if len(shapes) > 1 or labels.ndim != 3:
        sizes = ", ".join(str(list(shape)) for shape in sorted(shapes))
        raise ProgramError(f"{folder}: the images are not all of one size: {sizes}")
    return np.stack(images), labels


def _values(folder: Path, name: str) -> Array:
    path = folder / f"{folder.name}_{name}.nii.gz"
    image, sizes = nifti.opened(path)
    if not np.allclose(sizes, SPACING_MM, rtol=1e-3):
        raise ProgramError(
            f"{path}: voxels of {' x '.join(f'{size:g}' for size in sizes)} mm; "
            f"BraTS 2019 has {SPACING_MM:g} mm"
        )
    return np.asarray(image.dataobj).T


def brain_of(images: Array) -> Array:
    """Where any of the images [4, d, h, w] is not 0, with all holes in it, as bool [d, h, w]."""
    filled: Array = ndimage.binary_fill_holes((images != 0).any(axis=0))
    return filled


def box_of(mask: Array) -> tuple[slice, slice, slice]:
    """Return the smallest box around a mask [d, h, w]; raise ProgramError for an empty one."""
    boxes = ndimage.find_objects(mask.astype(np.uint8))
    if not boxes:
        raise ProgramError("the images are empty")
    depth, height, width = boxes[0]
    return depth, height, width


def normalised(images: Array, brain: Array) -> Array:
    """Return images [4, d, h, w] with mean 0 and deviation 1 inside of the brain [d, h, w].

    Outside of it they are 0.
    """
    result = np.zeros_like(images)
    for image, target in zip(np.nan_to_num(images), result, strict=True):
        inside = image[brain]
        target[brain] = (inside - inside.mean()) / (inside.std() + TINY)
    return result


def classes(labels: Array) -> Array:
    """Classes uint8 [d, h, w] of BraTS's labels [d, h, w]; ProgramError for a foreign label."""
    foreign = np.setdiff1d(labels, list(CLASSES))
    if foreign.size:
        raise ProgramError(f"the segmentation has the label {foreign[0]:g}; BraTS has 0, 1, 2, 4")
    table = np.zeros(max(CLASSES) + 1, dtype=np.uint8)
    table[list(CLASSES)] = list(CLASSES.values())
    classes_: Array = table[labels.astype(np.intp)]
    return classes_


def preprocessed(case: Case, window: Window) -> Volume:
    """Images float32 [4, *window] and classes uint8 [*window] as a benchmark is fed them.

    Raises ProgramError when the brain is larger than the window.
    """
    images, labels = case
    brain = brain_of(images)
    box = box_of(brain)
    inside = brain[box]
    if any(size > side for size, side in zip(inside.shape, window, strict=True)):
        raise ProgramError(
            f"a brain of {list(inside.shape)} voxels does not fit into the window {list(window)}"
        )
    cropped = normalised(images[(slice(None), *box)], inside)
    return fitted(cropped, window, 0), fitted(classes(labels)[box], window, NOT_COUNTED)


def fitted(array: Array, window: Sequence[int], filling: float) -> Array:
    """The array [..., d, h, w] in the middle of one whose last three sides are the window's.

    Where the rest is odd, the greater half lies behind.
    """
    rest = [side - size for side, size in zip(window, array.shape[-3:], strict=True)]
    around = [(0, 0)] * (array.ndim - 3) + [(size // 2, size - size // 2) for size in rest]
    return np.pad(array, around, constant_values=filling)


def note(case: Case, marks: Array) -> str:
    """Return a note on voxels lost by cropping, which the rules count as missed."""
    lost = np.count_nonzero(case[1]) - np.count_nonzero((marks > 0) & (marks != NOT_COUNTED))
    return f" (not counted: {lost} voxels of tumour beside the brain)" if lost else ""


def folders(cases: Path, listed: Iterable[str]) -> list[Path]:
    """Return the folders of the listed cases, such as HGG/BraTS19_2013_13_1."""
    return [cases / case for case in listed]
