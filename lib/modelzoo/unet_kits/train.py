"""Train the tiny 3-D U-Net on made-up kidneys and write it as ONNX.

    python -m modelzoo.unet_kits.train --held-out DIR --out DIR
    python -m modelzoo.unet_kits.train --validate

Training volumes come from seeds of their own and go through the benchmark's preprocessing. The
held-out volumes serve only for the figure that is reported, which the benchmark's own code finds.
Settings were chosen with ``--validate``, which scores volumes of a third seed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from modelzoo import files, models, training, unet
from modelzoo.datasets.kits19 import kidneys
from modelzoo.preprocessing.kits19 import preprocess
from modelzoo.unet_kits.network import CLASSES, SIDE, KitsUNet

TRAINING_SEED, VALIDATION_SEED = 1900, 1901
VALIDATION_CASES = 16
REGIONS = {"kidney": [1], "tumor": [2]}
FILE = "3dunet_tiny.onnx"

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class KitsRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    cases: int = 200
    steps: int = 300
    batch: int = 8
    peak_rate: float = 0.01
    weight_decay: float = 0.01


def volumes(count: int, seed: int) -> list[tuple[Array, Array]]:
    """Return newly generated cases, preprocessed: images float32, labels uint8, both [d, h, w]."""
    cases = []
    for case in kidneys.cases(count, seed):
        image = case.image.astype(np.float32)
        cases.append(preprocess.preprocessed((image, case.labels, case.spacing), SIDE))
    return cases


def windows(
    data: list[tuple[Array, Array]], count: int, random: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield windows at random positions, mirrored at random; kidneys are alike from both sides.

    Images are float32 [count, 1, SIDE, SIDE, SIDE], labels int64 [count, SIDE, SIDE, SIDE].
    """
    while True:
        images, labels = [], []
        for _ in range(count):
            pair = data[int(random.integers(len(data)))]
            corner = [int(random.integers(size - SIDE + 1)) for size in pair[0].shape]
            place = tuple(slice(begin, begin + SIDE) for begin in corner)
            mirrored = tuple(axis for axis in (0, 2) if random.integers(2))
            image, marks = (np.flip(part[place], mirrored).copy() for part in pair)
            images.append(image[None])
            labels.append(marks.astype(np.int64))
        yield torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(labels))


def loss_of(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy, and what the soft Dice of kidney and tumour lack to 1."""
    likely = torch.softmax(scores, dim=1)
    truth = functional.one_hot(labels, CLASSES).movedim(-1, 1).float()
    over = (0, 2, 3, 4)
    common = (likely * truth).sum(over)
    share = (2 * common + 1) / (likely.sum(over) + truth.sum(over) + 1)
    return functional.cross_entropy(scores, labels) + 1 - share[1:].mean()


def train(recipe: KitsRecipe) -> KitsUNet:
    """Train in one thread."""
    data = volumes(recipe.cases, TRAINING_SEED)
    drawn = windows(data, recipe.batch, np.random.default_rng(recipe.seed))
    network: KitsUNet = unet.trained(recipe, KitsUNet, drawn, loss_of)
    return network


def export(network: KitsUNet, out: Path) -> dict[str, Any]:
    """Write the graph; returns what a benchmark needs to know of it."""
    example, batch = torch.zeros(2, 1, SIDE, SIDE, SIDE), {0: "N"}
    training.export(network, [example], out / FILE, {"input": batch}, {"output": batch})
    return {
        "name": "3d_unet_tiny",
        **models.graph_facts(out / FILE),
        "precision": "fp32",
        "inputs": [models.tensor("input", 1, SIDE, SIDE, SIDE)],
        "outputs": [models.tensor("output", CLASSES, SIDE, SIDE, SIDE)],
        "options": {"regions": REGIONS, "overlap": 0.5, "windows_per_call": 1},
    }


def validation(folder: Path) -> None:
    """Write the volumes that settings are chosen with."""
    made = volumes(VALIDATION_CASES, VALIDATION_SEED)
    np.save(folder / "samples.npy", np.concatenate([image.ravel() for image, _ in made]))
    np.save(folder / "labels.npy", np.concatenate([labels.ravel() for _, labels in made]))
    np.save(folder / "shapes.npy", np.asarray([(1, *image.shape) for image, _ in made]))
    names = [f"case_{number:05d}" for number in range(len(made))]
    files.write_facts(folder, preprocess.facts("validation", names, SIDE, folder))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    tiny = unet.TinyUNet("3d-unet-99", KitsRecipe, train, export, validation)
    return unet.mean_dice(arguments, __doc__, tiny)


if __name__ == "__main__":
    sys.exit(main())
