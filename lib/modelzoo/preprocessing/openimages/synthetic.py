"""Random images in the arrays of the detection benchmarks: for speed, not accuracy.

    python -m modelzoo.preprocessing.openimages.synthetic --input KIND --side N
        --name NAME --count N --qsl_count N --out DIR

They are clouds: noise that is stronger the coarser it is, as photographs are, so that a detector is
not equally sure of the same thing everywhere. Their boxes are random, too.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from modelzoo import program
from modelzoo.preprocessing.openimages.preprocess import (
    KINDS,
    Pixels,
    finish,
    parser_of,
    reserved,
    resize,
)

SEED = 7
# Number of different samples, repeated until there are as many as in the real set.
COUNT = 16
# Cells of a side of the coarsest noise: coarser ones would make some images unlike the others.
COARSEST = 8
# The middle and the spread of a photograph's values.
MIDDLE, SPREAD = 118.0, 60.0
# Classes of OpenImages; those of COCO for the detectors that are trained on it.
CLASSES, COCO_CLASSES = 264, 80
BOXES = 7


def clouds(generator: np.random.Generator, side: int) -> Pixels:
    """Return a random image [side, side, 3] of values from 0 to 255."""
    pixels = np.zeros((side, side, 3), dtype=np.float32)
    grid, strength = COARSEST, 1.0
    while grid < side:
        small = generator.standard_normal((grid, grid, 3), dtype=np.float32)
        pixels += np.float32(strength) * resize(small, side)
        grid, strength = grid * 2, strength * 0.6
    pixels *= np.float32(SPREAD) / pixels.std()
    pixels += np.float32(MIDDLE)
    return np.clip(np.rint(pixels), 0, 255, out=pixels)


def drawn(generator: np.random.Generator, kind: str, side: int, count: int) -> dict[str, Any]:
    """Return boxes in COCO's format, some per image."""
    classes = COCO_CLASSES if kind.startswith("ssd") else CLASSES
    boxes = []
    for number in range(count * BOXES):
        left, top = generator.integers(0, side // 2, 2).tolist()
        width, height = generator.integers(8, side // 2, 2).tolist()
        boxes.append(
            {
                "id": number + 1,
                "image_id": number // BOXES + 1,
                "category_id": int(generator.integers(1, classes + 1)),
                "bbox": [left, top, width, height],
                "area": width * height,
                "iscrowd": 0,
            }
        )
    return {
        "images": [
            {"id": k + 1, "file_name": f"{k + 1:06d}.jpg", "width": side, "height": side}
            for k in range(count)
        ],
        "annotations": boxes,
        "categories": [{"id": k + 1, "name": f"class {k + 1}"} for k in range(classes)],
    }


def make(options: argparse.Namespace) -> str:
    """Write the arrays, the annotations and, last of all, dataset.json; returns a line about it."""
    side, count = options.side, options.count or COUNT
    generator = np.random.default_rng(SEED)
    samples = reserved(options.out, options.input, side, count)
    for row in range(count):
        samples[row] = KINDS[options.input](clouds(generator, side))
    samples.flush()
    finish(options, drawn(generator, options.input, side, count), samples)
    return f"{count} images of clouds written"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--count", type=int, default=0, help=f"how many images ({COUNT})")
    options = parser.parse_args(arguments)
    return program.run("synthetic", lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())
