"""Pictures without meaning in the arrays of the detection benchmarks: for speed, not accuracy.

    synthetic.py --input KIND --side N --name NAME --count N --qsl_count N --out DIR

They are clouds: noise that is stronger the coarser it is, as photographs are, so that a detector is
not equally sure of the same thing everywhere. Their boxes are as meaningless.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from preprocess import KINDS, Pixels, PreprocessError, facts, resize, room

SEED = 7
# So many samples differ; each is asked again and again until there are as many as in the real set.
COUNT = 16
# Cells of a side of the coarsest noise: coarser ones would make some pictures unlike the others.
COARSEST = 8
# The middle and the spread of a photograph's values.
MIDDLE, SPREAD = 118.0, 60.0
CLASSES = {"retinanet": 264, "ssd-mobilenet": 80, "ssd-resnet34": 80}
BOXES = 7


def clouds(generator: np.random.Generator, side: int) -> Pixels:
    """A picture [side, side, 3] of values from 0 to 255."""
    found = np.zeros((side, side, 3), dtype=np.float32)
    grid, strength = COARSEST, 1.0
    while grid < side:
        small = generator.standard_normal((grid, grid, 3), dtype=np.float32)
        found += np.float32(strength) * resize(small, side)
        grid, strength = grid * 2, strength * 0.6
    found *= np.float32(SPREAD) / found.std()
    found += np.float32(MIDDLE)
    return np.clip(np.rint(found), 0, 255, out=found)


def drawn(generator: np.random.Generator, kind: str, side: int, count: int) -> dict[str, Any]:
    """Boxes in COCO's format, some for each picture."""
    boxes = []
    for number in range(count * BOXES):
        left, top = generator.integers(0, side // 2, 2).tolist()
        width, height = generator.integers(8, side // 2, 2).tolist()
        boxes.append(
            {
                "id": number + 1,
                "image_id": number // BOXES + 1,
                "category_id": int(generator.integers(1, CLASSES[kind] + 1)),
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
        "categories": [{"id": k + 1, "name": f"class {k + 1}"} for k in range(CLASSES[kind])],
    }


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--input", choices=KINDS, required=True, help="what the model is fed")
    parser.add_argument("--side", type=int, required=True, help="pixels of a side of the input")
    parser.add_argument("--name", required=True, help="name of the data set, for its facts")
    parser.add_argument("--count", type=int, default=0, help=f"how many pictures ({COUNT})")
    parser.add_argument("--qsl_count", type=int, default=0, help="samples that runs are to have")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Write the arrays, the annotations and, last of all, dataset.json."""
    options = parse(arguments)
    out, side, count = options.out, options.side, options.count or COUNT
    generator = np.random.default_rng(SEED)
    convert = KINDS[options.input]
    blank = convert(np.zeros((side, side, 3), dtype=np.float32))
    try:
        room(out, count * blank.nbytes, count)
    except PreprocessError as error:
        print(f"synthetic: {error}", file=sys.stderr)
        return 1
    samples = np.lib.format.open_memmap(
        out / "samples.npy", mode="w+", dtype=blank.dtype, shape=(count, *blank.shape)
    )
    for row in range(count):
        samples[row] = convert(clouds(generator, side))
    samples.flush()
    told = drawn(generator, options.input, side, count)
    (out / "annotations.json").write_text(json.dumps(told) + "\n", encoding="utf-8")
    unfinished = out / "dataset.json.part"
    text = json.dumps(facts(options, told, blank), indent=1) + "\n"
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, out / "dataset.json")
    print(f"{count} pictures of clouds written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
