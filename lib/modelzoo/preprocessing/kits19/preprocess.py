"""Turn cases of KiTS19 into arrays that a benchmark loads at once.

    python -m modelzoo.preprocessing.kits19.preprocess --cases DIR --list FILE
        --window 128 --name NAME --out DIR

``DIR`` has a folder per case with ``imaging.nii.gz`` and ``segmentation.nii.gz``. They are
resampled to voxels of 1.6 x 1.2 x 1.2 mm, clipped, normalised and padded or cropped so that
windows with half overlap fill them. Written are ``samples.npy`` float32 and ``labels.npy`` uint8
(all volumes one after the other), ``shapes.npy`` int64 [cases, 4] and ``dataset.json``.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import numpy.typing as npt
import scipy
from scipy import ndimage

from modelzoo import files, program
from modelzoo.program import ProgramError

SPACING_MM = (1.6, 1.2, 1.2)
LEAST, GREATEST = -79.0, 304.0
MEAN, DEVIATION = 101.0, 76.9
# What a volume is filled up with, which is about what the least value becomes.
PADDING = -2.2
# The benchmark has one case twice, under a number that KiTS19 does not have.
COPIES = {"case_00400": "case_00185"}
NAMES = ("imaging.nii.gz", "segmentation.nii.gz")

Array = npt.NDArray[Any]
Volume = tuple[Array, Array]


def read(folder: Path) -> tuple[Array, Array, tuple[float, ...]]:
    """Image float32 and labels uint8 [d, h, w] of a case, and its voxels' sizes in mm.

    Raises ProgramError when a file cannot be read or the shapes differ.
    """
    try:
        image, labels = (_open(folder / name) for name in NAMES)
        values = np.asarray(image.dataobj, dtype=np.float32)
        marks = np.asarray(labels.dataobj).astype(np.uint8)
    except (nibabel.filebasedimages.ImageFileError, EOFError, OSError, zlib.error) as error:
        raise ProgramError(f"cannot read the case {folder}: {error}") from error
    if values.ndim != 3 or values.shape != marks.shape:
        raise ProgramError(
            f"{folder}: the image is {list(values.shape)}, the segmentation {list(marks.shape)}"
        )
    return values, marks, tuple(float(size) for size in image.header["pixdim"][1:4])


def _open(path: Path) -> Any:
    """nibabel names only what all its formats have in common."""
    return nibabel.load(path)


def resampled(image: Array, labels: Array, spacing: Sequence[float]) -> Volume:
    """Resample both [d, h, w] to the benchmark's voxels: values linearly, labels to the nearest.

    ``spacing`` is the size of a voxel on each axis, in mm.
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


def fitted(volume: Volume, window: int) -> Volume:
    """Pad or crop both such that windows of ``window`` with half overlap fill them.

    A side shorter than a window is continued with its edge. A rest of less than a quarter of a
    window is cropped, a greater one is filled up, half of it on either side.
    """
    image, labels = volume
    short = [_halves(max(0, window - size)) for size in image.shape]
    image, labels = np.pad(image, short, mode="edge"), np.pad(labels, short, mode="edge")
    stride = window // 2
    cut = []
    for size in image.shape:
        rest = size % stride
        low, high = _halves(rest if rest < stride // 2 else 0)
        cut.append(slice(low, size - high))
    image, labels = image[tuple(cut)], labels[tuple(cut)]
    more = [_halves(-size % stride) for size in image.shape]
    filled = np.pad(image, more, constant_values=PADDING)
    return filled, np.pad(labels, more, constant_values=0)


def _halves(amount: int) -> tuple[int, int]:
    return amount // 2, amount - amount // 2


def preprocessed(case: tuple[Array, Array, Sequence[float]], window: int) -> Volume:
    """Image float32 and labels uint8 [d, h, w] as a benchmark is fed them."""
    image, labels = resampled(*case)
    return fitted((normalised(image), labels), window)


def wanted(cases: Path, listed: Sequence[str]) -> Iterator[Path]:
    """Return the folders of the listed cases; raise ProgramError naming missing files."""
    folders = [cases / COPIES.get(name, name) for name in listed]
    missing = [
        str(folder / name)
        for folder in dict.fromkeys(folders)
        for name in NAMES
        if not (folder / name).is_file()
    ]
    if missing:
        more = f" and {len(missing) - 1} more files" if len(missing) > 1 else ""
        raise ProgramError(f"there is no {missing[0]}{more}")
    yield from folders


def write(folders: Sequence[Path], window: int, out: Path) -> None:
    """Write the three arrays; no more than one volume is in memory at a time."""
    shapes = []
    parts = (out / "samples.part", out / "labels.part")
    with parts[0].open("wb") as samples, parts[1].open("wb") as labels:
        for number, folder in enumerate(folders, 1):
            image, marks = preprocessed(read(folder), window)
            samples.write(np.ascontiguousarray(image).tobytes())
            labels.write(np.ascontiguousarray(marks).tobytes())
            shapes.append((1, *image.shape))
            print(f"{number} of {len(folders)}: {folder.name} {list(image.shape)}", flush=True)
    table = np.asarray(shapes, dtype=np.int64)
    count = int(table.prod(axis=1).sum())
    _to_npy(parts[0], np.dtype(np.float32), count, out / "samples.npy")
    _to_npy(parts[1], np.dtype(np.uint8), count, out / "labels.npy")
    np.save(out / "shapes.npy", table)


def _to_npy(raw: Path, dtype: np.dtype[Any], count: int, path: Path) -> None:
    """Put NumPy's header before what was written, piece by piece."""
    with path.open("wb") as file, raw.open("rb") as source:
        header = {"descr": dtype.str, "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(file, header)
        while piece := source.read(1 << 24):
            file.write(piece)
    raw.unlink()


def facts(name: str, listed: Sequence[str], window: int, out: Path) -> dict[str, Any]:
    """What dataset.json says."""
    return {
        "name": name,
        "count": len(listed),
        "window": window,
        "spacing_mm": SPACING_MM,
        "cases": list(listed),
        "files": files.facts_of_files(out, ("samples.npy", "labels.npy", "shapes.npy")),
        "made_with": {
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "nibabel": nibabel.__version__,
        },
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--cases", type=Path, required=True, help="folder of the cases' folders")
    parser.add_argument("--list", type=Path, help="file with a case in each line; all without it")
    parser.add_argument("--window", type=int, required=True, help="side of the model's window")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    options = parser.parse_args(arguments)

    def work() -> str:
        if options.list:
            listed = options.list.read_text(encoding="utf-8").split()
        else:
            listed = sorted(folder.name for folder in options.cases.glob("case_*"))
        write(list(wanted(options.cases, listed)), options.window, options.out)
        files.write_facts(options.out, facts(options.name, listed, options.window, options.out))
        return f"{len(listed)} volumes written"

    return program.run("preprocess", work)


if __name__ == "__main__":
    sys.exit(main())
