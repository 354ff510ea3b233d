"""Volumes as a scanner would give them, made up: a body with kidneys, tumours and other organs.

Values are in Hounsfield units. Kidneys are ellipsoids, brighter than their surroundings; a tumour
is a darker ball at the edge of one. A "liver" of about a tumour's brightness and a bright "spine"
must be distinguished from them by form and position. Noise is added to everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

KIDNEY, TUMOR = 1, 2
AIR, TISSUE, SPINE = -250.0, 35.0, 260.0
NOISE = 32.0
# Sizes of a volume in mm, and of its voxels: slices are thicker than their pixels.
EXTENTS_MM = ((52.0, 78.0), (39.0, 58.0), (39.0, 58.0))
SPACINGS_MM = ((1.2, 2.6), (0.9, 1.5))

Field = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KidneyCase:
    """``image`` int16 [d, h, w], ``labels`` uint8 of the same shape, voxel sizes in mm."""

    image: npt.NDArray[np.int16]
    labels: npt.NDArray[np.uint8]
    spacing: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class VoxelGrid:
    """The coordinates of all voxels in mm from the middle of the volume, and its half extents."""

    coordinates: tuple[Field, Field, Field]
    half: tuple[float, ...]

    def ellipsoid_distance(self, middle: Field, radii: Field) -> Field:
        """Return the distance of voxels from the middle of an ellipsoid; 1 is its surface."""
        parts = zip(self.coordinates, middle, radii, strict=True)
        distance: Field = np.sqrt(sum(((axis - at) / radius) ** 2 for axis, at, radius in parts))
        return distance


def make_case(random: np.random.Generator) -> KidneyCase:
    """One case, wholly determined by the state of ``random``."""
    across = float(random.uniform(*SPACINGS_MM[1]))
    spacing = (float(random.uniform(*SPACINGS_MM[0])), across, across)
    extents = [float(random.uniform(*limits)) for limits in EXTENTS_MM]
    shape = [max(8, round(extent / step)) for extent, step in zip(extents, spacing, strict=True)]
    space = _space(shape, spacing)
    image = np.full(shape, AIR)
    labels = np.zeros(shape, dtype=np.uint8)
    wall = np.array([10.0 * space.half[0], 0.95 * space.half[1], 0.97 * space.half[2]])
    image[space.ellipsoid_distance(np.zeros(3), wall) < 1] = TISSUE
    _organs(random, space, image)
    sides = [-1, 1]
    sick = random.choice([-1, 1])
    for side in sides:
        tumours = int(random.integers(1, 3)) if side == sick else int(random.integers(0, 2))
        _kidney(random, space, side, tumours, (image, labels))
    image += random.normal(0.0, NOISE, size=shape)
    return KidneyCase(np.clip(np.round(image), -1024, 3071).astype(np.int16), labels, spacing)


def _space(shape: list[int], spacing: tuple[float, float, float]) -> VoxelGrid:
    lines = [
        (np.arange(count) - (count - 1) / 2) * step
        for count, step in zip(shape, spacing, strict=True)
    ]
    z, y, x = np.meshgrid(*lines, indexing="ij", sparse=True)
    half = tuple(count * step / 2 for count, step in zip(shape, spacing, strict=True))
    return VoxelGrid((z, y, x), half)


def _organs(random: np.random.Generator, space: VoxelGrid, image: Field) -> None:
    """Draw what is neither kidney nor tumour: a spine, and a liver at one side."""
    spine = np.array([10.0 * space.half[0], 4.0, 4.5]) * random.uniform(0.85, 1.15)
    image[space.ellipsoid_distance(np.array([0.0, 0.55 * space.half[1], 0.0]), spine) < 1] = SPINE
    middle = np.array([random.uniform(-0.4, 0.4), -0.55, random.uniform(-0.45, 0.45)])
    radii = np.array([18.0, 7.0, 11.0]) * random.uniform(0.8, 1.2, size=3)
    image[space.ellipsoid_distance(middle * np.array(space.half), radii) < 1] = random.uniform(
        75, 105
    )


def _kidney(
    random: np.random.Generator,
    space: VoxelGrid,
    side: int,
    tumours: int,
    drawn: tuple[Field, npt.NDArray[np.uint8]],
) -> None:
    image, labels = drawn
    half = np.array(space.half)
    place = np.array([random.uniform(-0.3, 0.3), random.uniform(0.0, 0.25), 0.0])
    place[2] = side * random.uniform(0.45, 0.55)
    middle = place * half
    radii = np.array([15.0, 7.5, 7.0]) * random.uniform(0.85, 1.2, size=3)
    inside = space.ellipsoid_distance(middle, radii) < 1
    image[inside] = random.uniform(135, 185)
    labels[inside] = KIDNEY
    for _ in range(tumours):
        direction = random.normal(size=3)
        direction /= np.linalg.norm(direction)
        ball = np.full(3, random.uniform(4.0, 7.5))
        tumour = space.ellipsoid_distance(middle + 0.8 * direction * radii, ball) < 1
        image[tumour] = random.uniform(70, 110)
        labels[tumour] = TUMOR


def cases(count: int, seed: int) -> Iterator[KidneyCase]:
    """Yield ``count`` cases; every case has its own seed, so that fewer cases are the same ones."""
    for number in range(count):
        yield make_case(np.random.default_rng([seed, number]))
