"""Random volumes in the arrays of the benchmark: for speed, never for accuracy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelzoo import files, program

# Preprocessed scans have such sizes: 9 to 75 windows of 128 voxels a side that overlap by half.
# They are repeated until there are as many as the rules have cases.
SHAPES = ((128, 256, 256), (192, 256, 256), (192, 320, 320), (256, 320, 320), (256, 384, 384))
WINDOW = 128
QSL_COUNT = 43
# What preprocessing leaves of the values of a scan.
LEAST, GREATEST = -2.34, 2.64
# Seed and number of volumes. Those for calibration are never repeated, and one is enough.
PARTS = {"validation": (29, len(SHAPES)), "training": (31, 1)}


def write(out: Path, seed: int, shapes: npt.NDArray[np.int64]) -> None:
    """Write samples.npy, labels.npy and shapes.npy, plane by plane."""
    generator = np.random.default_rng(seed)
    count = int(shapes.prod(axis=1).sum())
    samples = files.array(out / "samples.npy", np.float32, count)
    labels = files.array(out / "labels.npy", np.uint8, count)
    piece = 1 << 22
    for begin in range(0, count, piece):
        size = min(piece, count - begin)
        values = generator.random(size, dtype=np.float32)
        samples[begin : begin + size] = values * np.float32(GREATEST - LEAST) + np.float32(LEAST)
        labels[begin : begin + size] = generator.integers(0, 3, size, dtype=np.uint8)
    samples.flush()
    labels.flush()
    np.save(out / "shapes.npy", shapes)


def facts(name: str, part: str, count: int) -> dict[str, Any]:
    """Return the contents of dataset.json."""
    common = {"name": name, "count": count, "window": WINDOW}
    return {**common, "qsl_count": QSL_COUNT} if part == "validation" else common


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    parser.add_argument("--part", choices=PARTS, default="validation", help="what they are for")
    parser.add_argument("--count", type=int, help="only the first so many")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    options = parse(arguments)
    seed, usual = PARTS[options.part]
    count = usual if options.count is None else options.count
    if not 1 <= count <= len(SHAPES):
        print(f"synthetic: --count: a number from 1 to {len(SHAPES)} is needed", file=sys.stderr)
        return 1
    shapes = [(1, *shape) for shape in SHAPES[:count]]
    write(options.out, seed, np.asarray(shapes, dtype=np.int64))
    files.write_facts(options.out, facts(options.name, options.part, count))
    print(f"{count} volumes of noise written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
