"""Random images in the arrays of the benchmark: for speed, never for accuracy."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from modelzoo import files, program
from modelzoo.preprocessing.imagenet.preprocess import MEANS

COUNT = 1024
SIDE = 224
CLASSES = 1000
SEED = 7


def main(arguments: Sequence[str] | None = None) -> int:
    """Write samples.npy and labels.npy and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="how many images")
    options = parser.parse_args(arguments)
    out, count = options.out, options.count
    generator = np.random.default_rng(SEED)
    samples = files.array(out / "samples.npy", np.float32, count, 3, SIDE, SIDE)
    means = np.asarray(MEANS, dtype=np.float32)[:, None, None]
    for row in range(count):
        samples[row] = generator.integers(0, 256, (3, SIDE, SIDE), dtype=np.uint8) - means
    samples.flush()
    np.save(out / "labels.npy", generator.integers(0, CLASSES, count))
    facts = {
        "name": "imagenet-synthetic",
        "count": count,
        "classes": CLASSES,
        "sample_shape": [3, SIDE, SIDE],
        "sample_dtype": "float32",
        "layout": "NCHW",
        "files": files.facts_of_files(out, ("samples.npy", "labels.npy")),
    }
    files.write_facts(out, facts)
    print(f"{count} images of noise written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
