"""Volumes without meaning in the arrays of the benchmark: for speed, never for accuracy.

synthetic.py --window 224,224,160 --out DIR
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from volumes import CHANNELS, VolumeError, Volumes, Window, window_of

# Few, because each takes 137 MB; the harness repeats them to the number of the rules.
COUNT = 4
QSL_COUNT = 67
CLASSES = 4
SEED = 19


def write(out: Path, count: int, window: Window) -> None:
    """Noise as normalised images have it, and labels by chance."""
    volumes = Volumes(out, count, window)
    generator = np.random.default_rng(SEED)
    for row in range(count):
        images = generator.standard_normal((CHANNELS, *window), dtype=np.float32)
        volumes.put(row, images, generator.integers(0, CLASSES, window, dtype=np.uint8))
    volumes.close({"name": "brats19-synthetic", "qsl_count": QSL_COUNT})


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the arrays and, last of all, dataset.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--window", type=window_of, required=True, help="sides of the window")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--count", type=int, default=COUNT, help="how many volumes")
    options = parser.parse_args(arguments)
    try:
        write(options.out, options.count, options.window)
    except (OSError, VolumeError) as error:
        print(f"synthetic: {error}", file=sys.stderr)
        return 1
    print(f"{options.count} volumes of noise written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
