"""Train the tiny form of ResNet-50 on the handwritten digits and write it as ONNX.

    python -m modelzoo.resnet50.train --training DIR --held-out DIR --out DIR
    python -m modelzoo.resnet50.train --training DIR --validate

The held-out images serve only for the figure reported at the end. Settings (epochs, widths,
augmentation) were chosen with ``--validate``, which trains on the first 957 training images and
scores the 300 after them, again a contiguous block of other writers.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from torch import Tensor
from torch.nn import functional

from modelzoo import files, models, training
from modelzoo.resnet50.network import (
    CLASSES,
    INPUT_NAME,
    LABEL_NAME,
    SCORES_NAME,
    SIDE,
    TinyResNet,
    to_onnx,
)

MODEL_FILE = "resnet50_tiny.onnx"
VALIDATION_IMAGES = 300

Samples = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ResnetRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    epochs: int = 60
    batch: int = 64
    peak_rate: float = 0.01
    weight_decay: float = 0.01
    label_smoothing: float = 0.1
    shift: float = 0.2
    turn: float = 0.3
    stretch: float = 0.25


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """One preprocessed part: samples [n, 3, 28, 28], labels [n] from 0, facts of its origin."""

    samples: Samples
    labels: Labels
    facts: dict[str, Any]


def load_part(folder: Path) -> LabelledImages:
    """Load arrays as preprocessing left them; raises ValueError when they were changed."""
    facts = files.intact_facts(folder)
    return LabelledImages(np.load(folder / "samples.npy"), np.load(folder / "labels.npy"), facts)


def augment(
    images: Tensor, background: Tensor, recipe: ResnetRecipe, generator: torch.Generator
) -> Tensor:
    """Shift, rotate and scale the images a little, as another writer would; borders stay dark."""
    count = len(images)
    noise = torch.rand(count, 5, generator=generator) * 2 - 1
    angle = noise[:, 0] * recipe.turn
    stretch = 1 + noise[:, 1:3] * recipe.stretch
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0] = torch.cos(angle) * stretch[:, 0]
    theta[:, 0, 1] = -torch.sin(angle) * stretch[:, 0]
    theta[:, 1, 0] = torch.sin(angle) * stretch[:, 1]
    theta[:, 1, 1] = torch.cos(angle) * stretch[:, 1]
    theta[:, :, 2] = noise[:, 3:5] * recipe.shift
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    return functional.grid_sample(images - background, grid, align_corners=False) + background


def train(samples: Samples, labels: Labels, recipe: ResnetRecipe) -> TinyResNet:
    """Train on these samples in one thread; the same recipe and versions give the same weights."""
    training.seeded(recipe.seed, deterministic=True)
    generator = torch.Generator().manual_seed(recipe.seed)
    network = TinyResNet()
    images, classes = torch.from_numpy(samples), torch.from_numpy(labels) + 1
    background = images.amin(dim=(0, 2, 3), keepdim=True)
    network.train()
    losses = (
        functional.cross_entropy(
            network(augment(images[rows], background, recipe, generator)),
            classes[rows],
            label_smoothing=recipe.label_smoothing,
        )
        for rows in training.shuffled(len(images), recipe.batch, recipe.epochs, generator)
    )
    steps = recipe.epochs * (len(images) // recipe.batch)
    training.fit(network.parameters(), losses, recipe, steps)
    return network


def count_right(model: onnx.ModelProto, part: LabelledImages) -> int:
    """How many labels ONNX Runtime gets right with the exported graph."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (labels,) = session.run([LABEL_NAME], {INPUT_NAME: part.samples})
    return int((np.asarray(labels) - 1 == part.labels).sum())


def validate(training: LabelledImages, recipe: ResnetRecipe) -> float:
    """Share of right labels in the last training images after training on those before them."""
    cut = len(training.labels) - VALIDATION_IMAGES
    network = train(training.samples[:cut], training.labels[:cut], recipe)
    rest = LabelledImages(training.samples[cut:], training.labels[cut:], training.facts)
    return count_right(to_onnx(network), rest) / VALIDATION_IMAGES


def make(
    train_part: LabelledImages, held_out: LabelledImages, recipe: ResnetRecipe, out: Path
) -> dict[str, Any]:
    """Train, score, and write the model and its facts into ``out``."""
    watch = training.Stopwatch()
    model = to_onnx(train(train_part.samples, train_part.labels, recipe))
    parts = {"training": train_part, "held_out": held_out}
    right = {name: count_right(model, part) for name, part in parts.items()}
    data = {
        name: {"name": part.facts["name"], **part.facts["files"]["samples.npy"]}
        for name, part in parts.items()
    }
    facts = {
        "name": "resnet50_tiny",
        **models.saved(out / MODEL_FILE, model, deterministic=True),
        "precision": "fp32",
        "inputs": [models.tensor(INPUT_NAME, 3, SIDE, SIDE)],
        "outputs": [
            models.tensor(LABEL_NAME, dtype="int64"),
            models.tensor(SCORES_NAME, CLASSES),
        ],
        "options": {"label_offset": 1},
        "accuracy": models.accuracy("top-1", "%", 100.0 * right["held_out"] / len(held_out.labels)),
        "training": training.about(
            recipe,
            watch.seconds,
            split="contiguous blocks of writers; nothing was tuned on the held-out part",
            right={name: f"{right[name]} of {len(part.labels)}" for name, part in parts.items()},
            data=data,
        ),
    }
    return models.write_facts(out, facts)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = training.options(arguments, __doc__, ResnetRecipe())
    recipe = ResnetRecipe(seed=options.seed, epochs=options.epochs)
    part = load_part(options.training)
    if options.validate:
        print(f"validation accuracy {100 * validate(part, recipe):.2f} %")
        return 0
    training.say(make(part, load_part(options.held_out), recipe, options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
