"""Train a tiny 3-D U-Net on made-up brains or kidneys and write it as ONNX.

    python -m modelzoo.volumes.train --dataset brats --held-out DIR --out DIR
    python -m modelzoo.volumes.train --dataset kits19 --validate

Training volumes come from seeds of their own and go through the benchmark's preprocessing. The
held-out volumes serve only for the figure that is reported, which the benchmark's own code finds.
Settings were chosen with ``--validate``, which scores volumes of a third seed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from modelzoo import files, models, program, training
from modelzoo.judging import figure_of
from modelzoo.volumes import brains, brats, kidneys, kits19, preprocess
from modelzoo.volumes.arrays import Volume, VolumeArrays, Window
from modelzoo.volumes.network import TinyUNet

Batches = Iterator[tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class UNetRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int
    cases: int
    steps: int
    batch: int
    peak_rate: float = 0.01
    weight_decay: float = 0.01


@dataclass(frozen=True, slots=True)
class UNetTask:
    """A tiny model: its benchmark, recipe, data and loss.

    ``volumes`` makes new cases, preprocessed, of a count and a seed; ``batches`` draws from them.
    ``seeds`` are those of the training and the validation cases, of which there are
    ``validation_cases``. ``options`` are those of model.json.
    """

    benchmark: str
    name: str
    file: str
    window: Window
    channels: int
    classes: int
    widths: tuple[int, int, int]
    leaky: bool
    recipe: UNetRecipe
    seeds: tuple[int, int]
    validation_cases: int
    volumes: Callable[[int, int], list[Volume]]
    batches: Callable[[list[Volume], int, np.random.Generator], Batches]
    loss_of: Callable[[Tensor, Tensor], Tensor]
    options: dict[str, Any]


BRAIN_WINDOW, KIDNEY_WINDOW = (40, 40, 28), (32, 32, 32)
# The judged regions in the model's classes; every region of a brain lies inside of the one before.
BRAIN_REGIONS = {"whole tumor": [1, 2, 3], "tumor core": [2, 3], "enhancing tumor": [3]}
KIDNEY_REGIONS = {"kidney": [1], "tumor": [2]}


def brain_volumes(count: int, seed: int) -> list[Volume]:
    """Return newly generated heads, preprocessed."""
    cases = brains.cases(count, seed)
    return [
        brats.preprocessed((case.images.astype(np.float32), case.labels), BRAIN_WINDOW)
        for case in cases
    ]


def kidney_volumes(count: int, seed: int) -> list[Volume]:
    """Return newly generated bodies, preprocessed: images float32, labels uint8, both [d, h, w]."""
    cases = kidneys.cases(count, seed)
    return [
        kits19.preprocessed(
            (case.image.astype(np.float32), case.labels, case.spacing), KIDNEY_WINDOW
        )
        for case in cases
    ]


def whole_brains(data: list[Volume], count: int, random: np.random.Generator) -> Batches:
    """Whole volumes by chance, some mirrored; heads are alike from both sides."""
    while True:
        images, labels = [], []
        for _ in range(count):
            image, marks = data[int(random.integers(len(data)))]
            if random.integers(2):
                image, marks = image[..., ::-1], marks[..., ::-1]
            images.append(image.copy())
            labels.append(np.where(marks == brats.NOT_COUNTED, 0, marks).astype(np.int64))
        yield torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(labels))


def kidney_windows(data: list[Volume], count: int, random: np.random.Generator) -> Batches:
    """Yield windows at random positions, mirrored at random; kidneys are alike from both sides.

    Images are float32 [count, 1, *KIDNEY_WINDOW], labels int64 [count, *KIDNEY_WINDOW].
    """
    while True:
        images, labels = [], []
        for _ in range(count):
            pair = data[int(random.integers(len(data)))]
            shape = zip(pair[0].shape, KIDNEY_WINDOW, strict=True)
            corner = [int(random.integers(size - side + 1)) for size, side in shape]
            sides = zip(corner, KIDNEY_WINDOW, strict=True)
            part_of = tuple(slice(begin, begin + side) for begin, side in sides)
            mirrored = tuple(axis for axis in (0, 2) if random.integers(2))
            image, marks = (np.flip(part[part_of], mirrored).copy() for part in pair)
            images.append(image[None])
            labels.append(marks.astype(np.int64))
        yield torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(labels))


def brain_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy, and what the soft Dice of the regions lacks to 1."""
    likely = torch.softmax(scores, dim=1)
    truth = functional.one_hot(labels, scores.shape[1]).movedim(-1, 1).float()
    lacking = torch.zeros(())
    for classes in BRAIN_REGIONS.values():
        mine, real = likely[:, classes].sum(1), truth[:, classes].sum(1)
        share = (2 * (mine * real).sum() + 1) / (mine.sum() + real.sum() + 1)
        lacking = lacking + (1 - share) / len(BRAIN_REGIONS)
    return functional.cross_entropy(scores, labels) + lacking


def kidney_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy, and what the soft Dice of kidney and tumour lack to 1."""
    likely = torch.softmax(scores, dim=1)
    truth = functional.one_hot(labels, scores.shape[1]).movedim(-1, 1).float()
    over = (0, 2, 3, 4)
    common = (likely * truth).sum(over)
    share = (2 * common + 1) / (likely.sum(over) + truth.sum(over) + 1)
    return functional.cross_entropy(scores, labels) + 1 - share[1:].mean()


TASKS = {
    "brats": UNetTask(
        benchmark="3d-unet-brats-99",
        name="3d_unet_brats_tiny",
        file="3dunet_brats_tiny.onnx",
        window=BRAIN_WINDOW,
        channels=4,
        classes=4,
        widths=(8, 16, 24),
        leaky=True,
        recipe=UNetRecipe(seed=1, cases=250, steps=400, batch=3),
        seeds=(2019, 2020),
        validation_cases=20,
        volumes=brain_volumes,
        batches=whole_brains,
        loss_of=brain_loss,
        options={"regions": BRAIN_REGIONS, "absent_region": "left out", "windows_per_call": 1},
    ),
    "kits19": UNetTask(
        benchmark="3d-unet-99",
        name="3d_unet_tiny",
        file="3dunet_tiny.onnx",
        window=KIDNEY_WINDOW,
        channels=1,
        classes=3,
        widths=(6, 12, 24),
        leaky=False,
        recipe=UNetRecipe(seed=1, cases=200, steps=300, batch=8),
        seeds=(1900, 1901),
        validation_cases=16,
        volumes=kidney_volumes,
        batches=kidney_windows,
        loss_of=kidney_loss,
        options={"regions": KIDNEY_REGIONS, "overlap": 0.5, "windows_per_call": 1},
    ),
}


def train(task: UNetTask, recipe: UNetRecipe) -> TinyUNet:
    """Train in one thread."""
    data = task.volumes(recipe.cases, task.seeds[0])
    drawn = task.batches(data, recipe.batch, np.random.default_rng(recipe.seed))
    training.seeded(recipe.seed)
    network = TinyUNet(task.channels, task.classes, task.widths, leaky=task.leaky)
    losses = (task.loss_of(network(images), labels) for images, labels in drawn)
    training.fit(network.parameters(), losses, recipe, recipe.steps, say_every=50)
    network.eval()
    return network


def export(task: UNetTask, network: TinyUNet, out: Path) -> dict[str, Any]:
    """Write the graph; returns what a benchmark needs to know of it."""
    example, batch = torch.zeros(2, task.channels, *task.window), {0: "N"}
    training.export(network, [example], out / task.file, {"input": batch}, {"output": batch})
    return {
        "name": task.name,
        **models.graph_facts(out / task.file),
        "precision": "fp32",
        "inputs": [models.tensor("input", task.channels, *task.window)],
        "outputs": [models.tensor("output", task.classes, *task.window)],
        "options": task.options,
    }


def validate(dataset: str, task: UNetTask, network: TinyUNet) -> str:
    """Return the score of a network on the volumes that settings are chosen with."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        arrays = VolumeArrays(folder)
        for images, labels in task.volumes(task.validation_cases, task.seeds[1]):
            arrays.add(images, labels)
        arrays.close(preprocess.dataset_facts(dataset, "validation", (), task.window))
        figure = figure_of(task.benchmark, export(task, network, folder), folder, folder)
        return f"validation: {figure.line}"


def write(task: UNetTask, network: TinyUNet, out: Path, held_out: Path, **about: Any) -> str:
    """Write the model and its facts, judged by its mean Dice; return a line about it."""
    facts = export(task, network, out)
    figure = figure_of(task.benchmark, facts, out, held_out)
    facts["accuracy"] = models.accuracy("mean DICE", "", figure.value, digits=5)
    data = files.held_out(held_out, "samples.npy", cases="count")
    stated = training.about(**about, held_out=data, held_out_line=figure.line)
    models.write_facts(out, {**facts, "training": stated})
    return f"held out: {figure.line}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__, out=False)
    parser.add_argument("--dataset", choices=TASKS, required=True, help="what to train on")
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--steps", type=int)
    options = parser.parse_args(arguments)
    task = TASKS[options.dataset]
    recipe = replace(task.recipe, steps=options.steps or task.recipe.steps)
    watch = training.Stopwatch()
    network = train(task, recipe)
    seconds = watch.seconds
    print(f"trained in {seconds} s", flush=True)
    if options.validate:
        print(validate(options.dataset, task, network))
    else:
        about = {"recipe": recipe, "seconds": seconds}
        print(write(task, network, options.out, options.held_out, **about))
    return 0


if __name__ == "__main__":
    sys.exit(main())
