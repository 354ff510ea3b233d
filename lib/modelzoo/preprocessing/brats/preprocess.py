"""Turn cases of BraTS 2019 into arrays that a benchmark loads at once.

    python -m modelzoo.preprocessing.brats.preprocess --cases DIR --list FILE
        --window 224,224,160 --name NAME --out DIR

Every line of ``FILE`` names a folder below ``DIR``, such as HGG/BraTS19_2013_13_1, with the four
images and the segmentation. They are cropped to the brain, images are normalised inside of it,
and the rest of the window is filled up with 0. Written are ``samples.npy`` float32 and
``labels.npy`` uint8 (all volumes one after the other; 255 where nothing is judged), ``shapes.npy``
int64 [cases, 4] and ``dataset.json``.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import numpy.typing as npt
import scipy
from scipy import ndimage

from modelzoo import program
from modelzoo.preprocessing.brats.volumes import NOT_COUNTED, Volumes, Window, fitted, window_of
from modelzoo.program import ProgramError

# The order of the model's input channels.
MODALITIES = ("t1", "t1ce", "t2", "flair")
SPACING_MM = 1.0
# BraTS's labels for nothing, core, swelling and enhancing tumour, and what the model calls them.
CLASSES = {0: 0, 1: 2, 2: 1, 4: 3}
# Keeps an image without any contrast from being divided by 0.
TINY = 1e-8

Array = npt.NDArray[Any]
Case = tuple[Array, Array]


def read(folder: Path) -> Case:
    """Images float32 [4, d, h, w] and BraTS's labels uint8 [d, h, w] of a case.

    NIfTI has its axes from left to right, back to front and bottom to top; the model wants them the
    other way round. Raises ProgramError when a file cannot be read or the sizes differ.
    """
    try:
        images = [_values(folder, name).astype(np.float32) for name in MODALITIES]
        labels = _values(folder, "seg")
    except (nibabel.filebasedimages.ImageFileError, EOFError, OSError, zlib.error) as error:
        raise ProgramError(f"cannot read the case {folder}: {error}") from error
    shapes = {image.shape for image in (*images, labels)}
    if len(shapes) > 1 or labels.ndim != 3:
        sizes = ", ".join(str(list(shape)) for shape in sorted(shapes))
        raise ProgramError(f"{folder}: the images are not all of one size: {sizes}")
    return np.stack(images), labels


def _values(folder: Path, name: str) -> Array:
    path = folder / f"{folder.name}_{name}.nii.gz"
    # nibabel names only what all its formats have in common.
    image: Any = nibabel.load(path)
    sizes = [float(size) for size in image.header["pixdim"][1:4]]
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


def preprocessed(case: Case, window: Window) -> Case:
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


def _note(case: Case, marks: Array) -> str:
    """Return a note on voxels lost by cropping, which the rules count as missed."""
    lost = np.count_nonzero(case[1]) - np.count_nonzero((marks > 0) & (marks != NOT_COUNTED))
    return f" (not counted: {lost} voxels of tumour beside the brain)" if lost else ""


def write(folders: Sequence[Path], window: Window, out: Path, facts: dict[str, Any]) -> None:
    """Write the arrays; no more than one volume is in memory at a time."""
    volumes = Volumes(out, len(folders), window)
    for number, folder in enumerate(folders):
        case = read(folder)
        try:
            images, labels = preprocessed(case, window)
        except ProgramError as error:
            raise ProgramError(f"{folder}: {error}") from error
        volumes.put(number, images, labels)
        progress = f"{number + 1} of {len(folders)}: {folder.name}"
        print(progress + _note(case, labels), flush=True)
    volumes.close(facts)


def facts_of(name: str, listed: Sequence[str]) -> dict[str, Any]:
    """Return the contents of dataset.json without the facts of the arrays."""
    made_with = {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "nibabel": nibabel.__version__,
    }
    return {"name": name, "cases": list(listed), "made_with": made_with}


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--cases", type=Path, required=True, help="folder with HGG and LGG")
    parser.add_argument("--list", type=Path, required=True, help="file with a case in each line")
    parser.add_argument("--window", type=window_of, required=True, help="sides of the window")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    options = parser.parse_args(arguments)

    def work() -> str:
        listed = options.list.read_text(encoding="utf-8").split()
        facts = facts_of(options.name, listed)
        write([options.cases / case for case in listed], options.window, options.out, facts)
        return f"{len(listed)} volumes written"

    return program.run("preprocess", work)


if __name__ == "__main__":
    sys.exit(main())
