"""Random volumes in the arrays of the benchmark: for speed, never for accuracy.

synthetic.py --window 224,224,160 --out DIR [--part training]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modelzoo import program
from modelzoo.preprocessing.brats.volumes import CHANNELS, Volumes, Window, window_of

# Seed and number of volumes: few, because one takes 137 MB. The harness repeats those of a run to
# the number of the rules; those for calibration are never repeated, and one is enough.
PARTS = {"validation": (19, 4), "training": (21, 1)}
QSL_COUNT = 67
CLASSES = 4


def write(out: Path, part: str, window: Window) -> int:
    """Noise as normalised images have it, and labels by chance; returns how many volumes."""
    seed, count = PARTS[part]
    volumes = Volumes(out, count, window)
    generator = np.random.default_rng(seed)
    for row in range(count):
        images = generator.standard_normal((CHANNELS, *window), dtype=np.float32)
        volumes.put(row, images, generator.integers(0, CLASSES, window, dtype=np.uint8))
    repeated = {"qsl_count": QSL_COUNT} if part == "validation" else {}
    volumes.close({"name": "brats19-synthetic", **repeated})
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--window", type=window_of, required=True, help="sides of the window")
    parser.add_argument("--part", choices=PARTS, default="validation", help="what they are for")
    options = parser.parse_args(arguments)
    return program.run(
        "synthetic",
        lambda: f"{write(options.out, options.part, options.window)} volumes of noise written",
    )


if __name__ == "__main__":
    sys.exit(main())
