"""Draw images of coloured shapes on textured ground, laid out as COCO is.

    python -m modelzoo.datasets.shapes.make_dataset --part val --out DIR

Below ``DIR`` lies ``val2017`` (or ``train2017``) with PNG files and
``annotations/instances_val2017.json``. An image is 96 to 144 pixels wide and high and
holds 2 to 6 objects of 6 classes, which may overlap a little. The class is the form; colour, size
and proportions say nothing about it. The two parts come from different seeds.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from modelzoo import files, program

VERSION = "1.0"
# Numbers with gaps, as those of COCO are.
CATEGORIES = {1: "disc", 2: "box", 4: "ring", 7: "diamond", 8: "cross", 11: "triangle"}
PARTS = {"train": (2000, 11), "val": (500, 12)}
SIDES = (96, 144)
OBJECTS = (2, 6)
RADII = (7.0, 24.0)
MOST_OVERLAP = 0.15
TRIES = 40

Field = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class DrawnShape:
    """An object: its category, centre and half extents in pixels, and its colour (0 to 255)."""

    category: int
    x: float
    y: float
    across: float
    down: float
    colour: Field

    @property
    def box(self) -> Box:
        """Left, top, width and height in pixels, as COCO writes a box."""
        return (self.x - self.across, self.y - self.down, 2 * self.across, 2 * self.down)


def _ring(u: Field, v: Field) -> Field:
    return np.maximum(np.hypot(u, v) - 1.0, 0.55 - np.hypot(u, v))


def _cross(u: Field, v: Field) -> Field:
    across = np.maximum(np.abs(u) - 1.0, np.abs(v) - 0.3)
    return np.minimum(across, np.maximum(np.abs(v) - 1.0, np.abs(u) - 0.3))


def _triangle(u: Field, v: Field) -> Field:
    return np.maximum(v - 1.0, np.abs(u) - (v + 1.0) / 2.0)


# How far a point lies outside of a form (below zero: inside), in units of its half extents.
FORMS: dict[str, Callable[[Field, Field], Field]] = {
    "disc": lambda u, v: np.hypot(u, v) - 1.0,
    "box": lambda u, v: np.maximum(np.abs(u), np.abs(v)) - 1.0,
    "ring": _ring,
    "diamond": lambda u, v: np.abs(u) + np.abs(v) - 1.0,
    "cross": _cross,
    "triangle": _triangle,
}


def overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes, 0 to 1."""
    wide = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    high = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    if wide <= 0 or high <= 0:
        return 0.0
    return wide * high / (one[2] * one[3] + other[2] * other[3] - wide * high)


def arrange(random: np.random.Generator, width: int, height: int) -> list[DrawnShape]:
    """Return objects that lie inside of the image and hardly overlap."""
    wanted = int(random.integers(OBJECTS[0], OBJECTS[1] + 1))
    things: list[DrawnShape] = []
    for _ in range(TRIES):
        if len(things) == wanted:
            break
        radius = float(np.exp(random.uniform(*np.log(RADII))))
        stretch = float(np.exp(random.uniform(-0.25, 0.25)))
        across, down = radius * stretch, radius / stretch
        thing = DrawnShape(
            category=int(random.choice(list(CATEGORIES))),
            x=float(random.uniform(across, width - across)),
            y=float(random.uniform(down, height - down)),
            across=across,
            down=down,
            colour=random.uniform(0, 255, size=3),
        )
        if all(overlap(thing.box, other.box) <= MOST_OVERLAP for other in things):
            things.append(thing)
    return things


def ground(random: np.random.Generator, width: int, height: int) -> Field:
    """A texture [height, width, 3]: a colour with soft blotches and fine noise."""
    coarse = random.normal(0, 28, size=(height // 12 + 2, width // 12 + 2, 3))
    blotches = coarse.repeat(12, axis=0).repeat(12, axis=1)[:height, :width]
    base = random.uniform(40, 215, size=3)
    fine: Field = base + blotches + random.normal(0, 14, size=(height, width, 3))
    return fine


def draw(random: np.random.Generator, width: int, height: int, things: list[DrawnShape]) -> Pixels:
    """The image [height, width, 3] with soft edges and noise on the objects too."""
    canvas = ground(random, width, height)
    for thing in things:
        left, top = int(thing.x - thing.across), int(thing.y - thing.down)
        part = canvas[top : int(thing.y + thing.down) + 1, left : int(thing.x + thing.across) + 1]
        down, across = np.mgrid[0 : part.shape[0], 0 : part.shape[1]] + 0.5
        outside = FORMS[CATEGORIES[thing.category]](
            (across + left - thing.x) / thing.across, (down + top - thing.y) / thing.down
        )
        cover = np.clip(0.5 - outside * min(thing.across, thing.down), 0, 1)[:, :, None]
        paint = thing.colour + random.normal(0, 12, size=part.shape)
        part[:] = part * (1 - cover) + paint * cover
    pixels: Pixels = np.clip(canvas, 0, 255).astype(np.uint8)
    return pixels


def write_part(root: Path, name: str, count: int, seed: int) -> dict[str, Any]:
    """Write the images and the annotations of a part; returns its facts."""
    folder = root / f"{name}2017"
    folder.mkdir(parents=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    digest = hashlib.sha256()
    for number in range(count):
        random = np.random.default_rng([seed, number])
        width, height = (int(side) for side in random.integers(SIDES[0], SIDES[1] + 1, size=2))
        things = arrange(random, width, height)
        pixels = draw(random, width, height, things)
        file_name = f"{1000 * seed + number:012d}.png"
        Image.fromarray(pixels).save(folder / file_name, compress_level=1)
        digest.update(pixels.tobytes())
        image = 1000 * seed + number
        images.append({"id": image, "file_name": file_name, "width": width, "height": height})
        for thing in things:
            annotations.append(_annotation(len(annotations) + 1, image, thing))
    write_annotations(root / "annotations" / f"instances_{name}2017.json", images, annotations)
    digest.update(json.dumps(annotations).encode())
    return {"count": count, "objects": len(annotations), "seed": seed, "sha256": digest.hexdigest()}


def _annotation(number: int, image: int, thing: DrawnShape) -> dict[str, Any]:
    box = [round(value, 2) for value in thing.box]
    return {
        "id": number,
        "image_id": image,
        "category_id": thing.category,
        "bbox": box,
        "area": round(box[2] * box[3], 2),
        "iscrowd": 0,
    }


def write_annotations(
    path: Path, images: list[dict[str, Any]], annotations: list[dict[str, Any]]
) -> None:
    """Write the annotations of a part in COCO's format."""
    path.parent.mkdir(exist_ok=True)
    categories = [{"id": number, "name": name} for number, name in CATEGORIES.items()]
    document = {"images": images, "annotations": annotations, "categories": categories}
    path.write_text(json.dumps(document), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write a part and, last of all, dataset.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--part", choices=PARTS, required=True, help="which part to draw")
    parser.add_argument("--count", type=int, help="only so many images of it")
    options = parser.parse_args(arguments)
    root, name = options.out, options.part
    count, seed = PARTS[name]
    facts = {
        "version": VERSION,
        "source": "generated by src/make_dataset.py",
        "categories": list(CATEGORIES.values()),
        "part": name,
        **write_part(root, name, options.count or count, seed),
        "made_with": {"numpy": np.__version__, "pillow": PIL.__version__},
    }
    files.write_facts(root, facts)
    print(f"{facts['count']} images with {facts['objects']} objects written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
