"""Heads as a magnetic resonance scanner would give them, made up: a brain, often with a tumour.

Four images of the same head, as BraTS has them: T1, T1 with contrast agent, T2 and FLAIR. Around
the brain everything is 0. A tumour is a swelling (bright in T2 and FLAIR) around a core; in most
high-grade ones the core has a rim that takes up contrast agent (bright in T1ce) around dead tissue.
Ventricles (bright in T2, dark in FLAIR) and vessels (bright in T1ce) must be distinguished.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# The order is that of the model's input channels.
MODALITIES = ("t1", "t1ce", "t2", "flair")
# BraTS counts so; there is no 3.
CORE, SWELLING, ENHANCING = 1, 2, 4
SHAPE = (40, 48, 48)
RADII = ((11.5, 14.0), (15.0, 18.0), (10.5, 13.0))
NOISE = 0.09
# Every fifth case is of low grade, about as in BraTS 2019 (76 of 335).
LOW_GRADE_EVERY = 5
NO_RIM_SHARE = 0.6

# Intensity of the tissues in the four images, as a share of white matter in T1.
LOOKS = {
    "white": (1.0, 1.0, 0.55, 0.60),
    "grey": (0.75, 0.78, 0.70, 0.72),
    "fluid": (0.25, 0.25, 1.50, 0.15),
    "vessel": (0.85, 1.75, 0.45, 0.50),
    SWELLING: (0.65, 0.66, 1.10, 1.25),
    CORE: (0.45, 0.48, 1.15, 0.95),
    ENHANCING: (0.70, 1.65, 0.95, 1.05),
}

Field = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BrainCase:
    """``images`` int16 [4, d, h, w] in the order of MODALITIES, ``labels`` uint8 [d, h, w]."""

    images: npt.NDArray[np.int16]
    labels: npt.NDArray[np.uint8]
    grade: str


class HeadShape:
    """A head while it is drawn: the coordinates of its voxels and its images."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        lines = [np.arange(size) - (size - 1) / 2 for size in SHAPE]
        z, y, x = np.meshgrid(*lines, indexing="ij", sparse=True)
        self._places = (z, y, x)
        self.radii = np.array([random.uniform(*limits) for limits in RADII])
        self.middle = random.uniform(-2.5, 2.5, size=3)
        self.looks = np.zeros((len(MODALITIES), *SHAPE))
        self.labels = np.zeros(SHAPE, dtype=np.uint8)
        self.brain = self.ellipsoid_distance(self.middle, self.radii) < 1

    def ellipsoid_distance(self, middle: Field, radii: Field | float) -> Field:
        """Return the distance of voxels from the middle of an ellipsoid; 1 is its surface."""
        sides = np.broadcast_to(np.asarray(radii, dtype=float), 3)
        parts = zip(self._places, middle, sides, strict=True)
        distance: Field = np.sqrt(sum(((axis - at) / side) ** 2 for axis, at, side in parts))
        return distance

    def waves(self, strength: float) -> Field:
        """Something smooth and irregular around 0, to bend surfaces and to shade images."""
        total = np.zeros(SHAPE)
        for _ in range(4):
            steps = self.random.uniform(-0.35, 0.35, size=3)
            phase = self.random.uniform(0, 2 * np.pi)
            across = sum(step * axis for step, axis in zip(steps, self._places, strict=True))
            total += np.sin(across + phase)
        return strength * total / 2

    def paint(self, where: Mask, tissue: str | int) -> None:
        """Give the voxels of the brain at ``where`` the looks of a tissue."""
        inside = where & self.brain
        self.looks[:, inside] = np.array(LOOKS[tissue])[:, None]
        if isinstance(tissue, int):
            self.labels[inside] = tissue


def make(random: np.random.Generator, grade: str) -> BrainCase:
    """One case, wholly determined by the state of ``random`` and the grade."""
    head = HeadShape(random)
    depth = head.ellipsoid_distance(head.middle, head.radii) + head.waves(0.05)
    head.paint(head.brain, "grey")
    head.paint(depth < 0.8, "white")
    _ventricles(head)
    _vessels(head)
    _tumour(head, grade)
    return BrainCase(_images(head), head.labels, grade)


def _ventricles(head: HeadShape) -> None:
    for side in (-1, 1):
        at = head.middle + np.array([1.0, 0.5, side * 3.0]) + head.random.uniform(-0.7, 0.7, 3)
        radii = np.array([2.2, 5.5, 1.7]) * head.random.uniform(0.8, 1.2, 3)
        head.paint(head.ellipsoid_distance(at, radii) < 1, "fluid")


def _vessels(head: HeadShape) -> None:
    for _ in range(int(head.random.integers(2, 5))):
        at = head.middle + head.random.uniform(-0.75, 0.75, 3) * head.radii
        radii = head.random.permutation([1.1, 1.1, head.random.uniform(3.0, 6.0)])
        head.paint(head.ellipsoid_distance(at, radii) < 1, "vessel")


def _tumour(head: HeadShape, grade: str) -> None:
    random = head.random
    at = head.middle + random.uniform(-0.5, 0.5, 3) * head.radii
    whole = random.uniform(6.0, 9.0)
    stretch = random.uniform(0.85, 1.2, size=3)
    distance = head.ellipsoid_distance(at, whole * stretch) + head.waves(0.09)
    core = random.uniform(0.6, 0.8)
    head.paint(distance < 1, SWELLING)
    head.paint(distance < core, CORE)
    if grade == "HGG":
        rim = core - random.uniform(1.6, 2.4) / whole
        head.paint((distance < core) & (distance >= rim), ENHANCING)
    elif random.random() > NO_RIM_SHARE:
        spot = at + random.uniform(-0.3, 0.3, 3) * core * whole
        near = head.ellipsoid_distance(spot, random.uniform(1.8, 2.6)) < 1
        head.paint(near & (distance < core), ENHANCING)


def _images(head: HeadShape) -> npt.NDArray[np.int16]:
    """Return the images with random scale, shading and noise; 0 outside of the brain."""
    images = np.zeros(head.looks.shape, dtype=np.int16)
    for number, looks in enumerate(head.looks):
        scale = head.random.uniform(200, 900)
        seen = looks * (1 + head.waves(0.06)) + head.random.normal(0.0, NOISE, SHAPE)
        values = np.clip(np.round(seen * scale), 1, 32000)
        images[number][head.brain] = values[head.brain].astype(np.int16)
    return images


def cases(count: int, seed: int) -> Iterator[BrainCase]:
    """Yield ``count`` cases; every case has its own seed, so that fewer cases are the same ones."""
    for number in range(count):
        low = number % LOW_GRADE_EVERY == LOW_GRADE_EVERY - 1
        yield make(np.random.default_rng([seed, number]), "LGG" if low else "HGG")
