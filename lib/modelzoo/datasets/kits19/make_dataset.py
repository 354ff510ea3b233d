"""Write made-up cases laid out as KiTS19 is.

    python -m modelzoo.datasets.kits19.make_dataset --out DIR [--part calibration]

Below ``DIR/data`` every case has a folder ``case_00000`` and so on, in it ``imaging.nii.gz`` and
``segmentation.nii.gz``. The cases for calibration are others than those of the test.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modelzoo import cases
from modelzoo.datasets.kits19 import kidneys

# A seed and how many cases. The tiny model was trained on cases of the seeds 1900 and 1901.
PARTS = {"validation": (19, 43), "calibration": (1902, 20)}


def make(root: Path, seed: int, count: int) -> dict[str, Any]:
    """Write the cases; returns the facts."""

    def written() -> Iterator[bytes]:
        for number, case in enumerate(kidneys.cases(count, seed)):
            images = {"imaging": case.image, "segmentation": case.labels}
            affine = np.diag([*case.spacing, 1.0])
            cases.save(root / "data" / f"case_{number:05d}", images, affine)
            yield case.image.tobytes() + case.labels.tobytes()

    return cases.facts("kidneys.py", seed, written())


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    return cases.main(arguments, __doc__, PARTS, make)


if __name__ == "__main__":
    sys.exit(main())
