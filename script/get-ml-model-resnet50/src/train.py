"""Train the tiny form of ResNet-50 on the handwritten digits and write it as ONNX.

    train.py --training DIR --held-out DIR --out DIR     the shipped model
    train.py --training DIR --validate                   settings are chosen with this one

The held-out images serve only for the figure reported at the end. Settings (epochs, widths,
augmentation) were chosen with ``--validate``, which trains on the first 957 training images and
scores the 300 after them, again a contiguous block of other writers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from network import CLASSES, INPUT_NAME, LABEL_NAME, SCORES_NAME, SIDE, TinyResNet, to_onnx
from torch import Tensor
from torch.nn import functional

MODEL_FILE = "resnet50_tiny.onnx"
VALIDATION_IMAGES = 300
TARGET_SHARE = 0.99

Samples = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recipe:
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
class Part:
    """One preprocessed part: samples [n, 3, 28, 28], labels [n] from 0, facts of its origin."""

    samples: Samples
    labels: Labels
    facts: dict[str, Any]


def load_part(folder: Path) -> Part:
    """Load arrays as preprocessing left them; raises ValueError when they were changed."""
    facts = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    for name, file in facts["files"].items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != file["sha256"]:
            raise ValueError(f"{folder / name} does not have the sha256 noted in dataset.json")
    return Part(np.load(folder / "samples.npy"), np.load(folder / "labels.npy"), facts)


def augment(
    images: Tensor, background: Tensor, recipe: Recipe, generator: torch.Generator
) -> Tensor:
    """Shift, turn and stretch each image a little, as another hand would; borders stay dark."""
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


def train(samples: Samples, labels: Labels, recipe: Recipe) -> TinyResNet:
    """Train on these samples in one thread; the same recipe and versions give the same weights."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(recipe.seed)
    generator = torch.Generator().manual_seed(recipe.seed)
    network = TinyResNet()
    images, classes = torch.from_numpy(samples), torch.from_numpy(labels) + 1
    background = images.amin(dim=(0, 2, 3), keepdim=True)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=recipe.weight_decay)
    steps = recipe.epochs * (len(images) // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.peak_rate, steps)
    network.train()
    for _ in range(recipe.epochs):
        order = torch.randperm(len(images), generator=generator)
        for rows in order.split(recipe.batch):
            if len(rows) < recipe.batch:
                continue
            batch = augment(images[rows], background, recipe, generator)
            loss = functional.cross_entropy(
                network(batch), classes[rows], label_smoothing=recipe.label_smoothing
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network


def count_right(model: onnx.ModelProto, part: Part) -> int:
    """How many labels ONNX Runtime gets right with the exported graph."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run([LABEL_NAME], {INPUT_NAME: part.samples})
    return int((np.asarray(found) - 1 == part.labels).sum())


def describe(
    model: bytes, right: dict[str, int], parts: dict[str, Part], recipe: Recipe, seconds: float
) -> dict[str, Any]:
    """What model.json says: first what a benchmark needs, then how the model came about."""
    held_out = len(parts["held_out"].labels)
    accuracy = 100.0 * right["held_out"] / held_out
    return {
        "name": "resnet50_tiny",
        "file": MODEL_FILE,
        "sha256": hashlib.sha256(model).hexdigest(),
        "bytes": len(model),
        "precision": "fp32",
        "inputs": [{"name": INPUT_NAME, "dtype": "float32", "shape": [3, SIDE, SIDE]}],
        "outputs": [
            {"name": LABEL_NAME, "dtype": "int64", "shape": []},
            {"name": SCORES_NAME, "dtype": "float32", "shape": [CLASSES]},
        ],
        "options": {"label_offset": 1},
        "accuracy": {
            "metric": "top-1",
            "unit": "%",
            "reference": round(accuracy, 4),
            "target": round(accuracy * TARGET_SHARE, 4),
        },
        "training": {
            "split": "contiguous blocks of writers; nothing was tuned on the held-out part",
            "right": {name: f"{right[name]} of {len(part.labels)}" for name, part in parts.items()},
            "data": {
                name: {"name": part.facts["name"], **part.facts["files"]["samples.npy"]}
                for name, part in parts.items()
            },
            "recipe": asdict(recipe),
            "seconds": round(seconds, 1),
            "made_with": {
                "torch": torch.__version__,
                "onnx": onnx.__version__,
                "onnxruntime": onnxruntime.__version__,
                "numpy": np.__version__,
            },
        },
    }


def validate(training: Part, recipe: Recipe) -> float:
    """Share of right labels in the last training images after training on those before them."""
    cut = len(training.labels) - VALIDATION_IMAGES
    network = train(training.samples[:cut], training.labels[:cut], recipe)
    rest = Part(training.samples[cut:], training.labels[cut:], training.facts)
    return count_right(to_onnx(network), rest) / VALIDATION_IMAGES


def make(training: Part, held_out: Part, recipe: Recipe, out: Path) -> dict[str, Any]:
    """Train, score, and write the model and its facts into ``out``."""
    started = time.monotonic()
    model = to_onnx(train(training.samples, training.labels, recipe))
    parts = {"training": training, "held_out": held_out}
    right = {name: count_right(model, part) for name, part in parts.items()}
    packed = model.SerializeToString(deterministic=True)
    facts = describe(packed, right, parts, recipe, time.monotonic() - started)
    (out / MODEL_FILE).write_bytes(packed)
    (out / "model.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return facts


def main(arguments: list[str] | None = None) -> int:
    """Train as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training", type=Path, required=True, help="arrays to train on")
    parser.add_argument("--held-out", type=Path, help="arrays to score at the end")
    parser.add_argument("--out", type=Path, help="folder to write into")
    parser.add_argument("--seed", type=int, default=Recipe().seed)
    parser.add_argument("--epochs", type=int, default=Recipe().epochs)
    parser.add_argument("--validate", action="store_true", help="only report validation accuracy")
    options = parser.parse_args(arguments)
    recipe = Recipe(seed=options.seed, epochs=options.epochs)
    training = load_part(options.training)
    if options.validate:
        print(f"validation accuracy {100 * validate(training, recipe):.2f} %")
        return 0
    if options.out is None or options.held_out is None:
        parser.error("--held-out and --out are required unless --validate is given")
    facts = make(training, load_part(options.held_out), recipe, options.out)
    accuracy = facts["accuracy"]
    print(
        f"held-out accuracy {accuracy['reference']:.2f} %, {facts['bytes']} bytes, "
        f"{facts['training']['seconds']} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
