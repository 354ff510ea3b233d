"""Write made-up cases laid out as the training data of BraTS 2019 are.

    python -m modelzoo.datasets.brats.make_dataset --out DIR [--part calibration]

Below ``DIR/data`` are the folders ``HGG`` and ``LGG``, in them one per case with the four
images and the segmentation, ``NAME_t1.nii.gz`` and so on; ``DIR/cases.txt`` lists the cases. Those
for calibration are others than those of the test.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modelzoo import cases
from modelzoo.datasets.brats import brains

# A seed and how many cases. The tiny model was trained on cases of the seeds 2019 and 2020.
PARTS = {"validation": (19, 67), "calibration": (2021, 40)}


def write_case(folder: Path, case: brains.BrainCase) -> None:
    """Write the five files of a case, with the axes in the order that NIfTI has them."""
    affine = np.diag([-1.0, -1.0, 1.0, 1.0])
    affine[1, 3] = case.labels.shape[1] - 1
    images = zip((*brains.MODALITIES, "seg"), (*case.images, case.labels), strict=True)
    cases.save(folder, {f"{folder.name}_{name}": array.T for name, array in images}, affine)


def make(root: Path, seed: int, count: int) -> dict[str, Any]:
    """Write the cases; returns the facts."""
    names: list[str] = []

    def written() -> Iterator[bytes]:
        for number, case in enumerate(brains.cases(count, seed)):
            names.append(f"{case.grade}/BraTS19_Made_{number:03d}_1")
            write_case(root / "data" / names[-1], case)
            yield case.images.tobytes() + case.labels.tobytes()

    facts = cases.facts("brains.py", seed, written())
    (root / "cases.txt").write_text("".join(f"{name}\n" for name in sorted(names)))
    return facts


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    return cases.main(arguments, __doc__, PARTS, make)


if __name__ == "__main__":
    sys.exit(main())
