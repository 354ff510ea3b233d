"""Random volumes in the arrays of a benchmark: for speed, never for accuracy.

    python -m modelzoo.volumes.noise --dataset brats --window 224,224,160 --name NAME --out DIR

``--part training`` are other ones, for calibration, and never repeated: one is enough.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modelzoo import program
from modelzoo.program import ProgramError
from modelzoo.volumes.arrays import Array, VolumeArrays, Window, check_room, window_fact, window_of

# What preprocessing leaves of the values of a scan of KiTS19.
LEAST, GREATEST = np.float32(-2.34), np.float32(2.64)


def bell(random: np.random.Generator, shape: Sequence[int]) -> Array:
    """Values as normalised images of BraTS have them."""
    return random.standard_normal(shape, dtype=np.float32)


def scan(random: np.random.Generator, shape: Sequence[int]) -> Array:
    """Values as preprocessed scans of KiTS19 have them."""
    values: Array = random.random(shape, dtype=np.float32)
    values *= GREATEST - LEAST
    values += LEAST
    return values


@dataclass(frozen=True, slots=True)
class NoiseDataset:
    """How volumes of noise come about.

    ``seeds`` are those of the parts, ``sides`` those of the volumes (those of the window, if None)
    and ``count`` how many are made: few, because one takes 100 MB. The harness repeats them to the
    ``qsl_count`` that the rules have.
    """

    seeds: Mapping[str, int]
    values: Callable[[np.random.Generator, Sequence[int]], Array]
    channels: int
    classes: int
    count: int
    qsl_count: int
    sides: tuple[Window, ...] | None = None


DATASETS = {
    "brats": NoiseDataset({"validation": 19, "training": 21}, bell, 4, 4, 4, 67),
    # Preprocessed scans have such sizes: 9 to 75 windows of 128 voxels a side that overlap by half.
    "kits19": NoiseDataset(
        {"validation": 29, "training": 31},
        scan,
        channels=1,
        classes=3,
        count=5,
        qsl_count=43,
        sides=(
            (128, 256, 256),
            (192, 256, 256),
            (192, 320, 320),
            (256, 320, 320),
            (256, 384, 384),
        ),
    ),
}


def write(
    out: Path, dataset: NoiseDataset, part: str, window: Window, name: str, count: int | None
) -> str:
    """Write the arrays and, last of all, dataset.json; returns a line about them.

    Raises ProgramError for another ``count`` than there are volumes.
    """
    if count is None:
        count = dataset.count if part == "validation" else 1
    if not 1 <= count <= dataset.count:
        raise ProgramError(f"--count: a number from 1 to {dataset.count} is needed")
    sides = (dataset.sides or (window,) * count)[:count]
    check_room(out, [(dataset.channels, *side) for side in sides])
    arrays = VolumeArrays(out)
    random = np.random.default_rng(dataset.seeds[part])
    for side in sides:
        values = dataset.values(random, (dataset.channels, *side))
        arrays.add(values, random.integers(0, dataset.classes, side, dtype=np.uint8))
    repeated = {"qsl_count": dataset.qsl_count} if part == "validation" else {}
    arrays.close({"name": name, **repeated, "window": window_fact(window)})
    return f"{count} volumes of noise written"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--dataset", choices=DATASETS, required=True, help="like which")
    parser.add_argument("--window", type=window_of, required=True, help="sides of the window")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    parts = DATASETS["brats"].seeds
    parser.add_argument("--part", choices=parts, default="validation", help="what they are for")
    parser.add_argument("--count", type=int, help="only the first so many")
    options = parser.parse_args(arguments)
    dataset = DATASETS[options.dataset]
    size = (options.window, options.name, options.count)
    return program.run("noise", lambda: write(options.out, dataset, options.part, *size))


if __name__ == "__main__":
    sys.exit(main())
