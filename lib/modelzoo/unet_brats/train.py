"""Train the tiny 3-D U-Net on made-up brains and write it as ONNX.

    python -m modelzoo.unet_brats.train --held-out DIR --out DIR
    python -m modelzoo.unet_brats.train --validate

Training volumes come from a seed of their own and go through the benchmark's preprocessing. The
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

from modelzoo import models, training, unet
from modelzoo.datasets.brats import brains
from modelzoo.preprocessing.brats import preprocess
from modelzoo.preprocessing.brats.volumes import Volumes
from modelzoo.unet_brats.network import CHANNELS, CLASSES, WINDOW, BratsUNet

TRAINING_SEED, VALIDATION_SEED = 2019, 2020
VALIDATION_CASES = 20
# The judged regions in the model's classes; every region lies inside of the one before.
REGIONS = {"whole tumor": [1, 2, 3], "tumor core": [2, 3], "enhancing tumor": [3]}
OPTIONS: dict[str, Any] = {"regions": REGIONS, "absent_region": "left out", "windows_per_call": 1}
NOT_COUNTED = 255
FILE = "3dunet_brats_tiny.onnx"

Array = npt.NDArray[Any]
Volume = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class BratsRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    cases: int = 250
    steps: int = 400
    batch: int = 3
    peak_rate: float = 0.01
    weight_decay: float = 0.01


def volumes(count: int, seed: int) -> list[Volume]:
    """Return newly generated cases, preprocessed."""
    cases = []
    for case in brains.cases(count, seed):
        images = case.images.astype(np.float32)
        cases.append(preprocess.preprocessed((images, case.labels), WINDOW))
    return cases


def batches(
    data: list[Volume], count: int, random: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Whole volumes by chance, some mirrored; heads are alike from both sides."""
    while True:
        images, labels = [], []
        for _ in range(count):
            image, marks = data[int(random.integers(len(data)))]
            if random.integers(2):
                image, marks = image[..., ::-1], marks[..., ::-1]
            images.append(image.copy())
            labels.append(np.where(marks == NOT_COUNTED, 0, marks).astype(np.int64))
        yield torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(labels))


def loss_of(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy, and what the soft Dice of the regions lacks to 1."""
    likely = torch.softmax(scores, dim=1)
    truth = functional.one_hot(labels, CLASSES).movedim(-1, 1).float()
    lacking = torch.zeros(())
    for classes in REGIONS.values():
        mine, real = likely[:, classes].sum(1), truth[:, classes].sum(1)
        share = (2 * (mine * real).sum() + 1) / (mine.sum() + real.sum() + 1)
        lacking = lacking + (1 - share) / len(REGIONS)
    return functional.cross_entropy(scores, labels) + lacking


def train(recipe: BratsRecipe) -> BratsUNet:
    """Train in one thread."""
    data = volumes(recipe.cases, TRAINING_SEED)
    drawn = batches(data, recipe.batch, np.random.default_rng(recipe.seed))
    network: BratsUNet = unet.trained(recipe, BratsUNet, drawn, loss_of)
    return network


def export(network: BratsUNet, out: Path) -> dict[str, Any]:
    """Write the graph; returns what a benchmark needs to know of it."""
    example, batch = torch.zeros(2, CHANNELS, *WINDOW), {0: "N"}
    training.export(network, [example], out / FILE, {"input": batch}, {"output": batch})
    return {
        "name": "3d_unet_brats_tiny",
        **models.graph_facts(out / FILE),
        "precision": "fp32",
        "inputs": [models.tensor("input", CHANNELS, *WINDOW)],
        "outputs": [models.tensor("output", CLASSES, *WINDOW)],
        "options": OPTIONS,
    }


def validation(folder: Path) -> None:
    """Write the volumes that settings are chosen with."""
    made = volumes(VALIDATION_CASES, VALIDATION_SEED)
    written = Volumes(folder, len(made), WINDOW)
    for row, (images, labels) in enumerate(made):
        written.put(row, images, labels)
    written.close({"name": "validation"})


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    tiny = unet.TinyUNet("3d-unet-brats-99", BratsRecipe, train, export, validation)
    return unet.mean_dice(arguments, __doc__, tiny)


if __name__ == "__main__":
    sys.exit(main())
