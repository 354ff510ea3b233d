"""Train the tiny detector on drawn shapes and write it as ONNX in the form of a benchmark.

    python -m modelzoo.detectors.train --form NAME --training DIR --held-out DIR --out DIR
    python -m modelzoo.detectors.train --form NAME --training DIR --validate

The held-out images serve only for the figure reported at the end. Settings were chosen with
``--validate``, which trains on the first 1700 training images and scores the 300 after them.
Scores come from the benchmark's own code, the package mlperf.harness.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import Tensor

from modelzoo import files, models, training
from modelzoo.detectors.network import (
    CLASSES,
    DEVIATIONS,
    GRID,
    LEAST_SCORE,
    MAX_DETECTIONS,
    MEANS,
    SIDE,
    STRIDE,
    DetectorForm,
    TinyDetector,
    forms,
    to_onnx,
)
from modelzoo.judging import figure_of

VALIDATION_IMAGES = 300
# Where 256 steps are too coarse: layers that position boxes to a fraction of a pixel.
KEEP_FLOAT = ("head/conv", "corners/strides")

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class DetectorRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    epochs: int = 30
    batch: int = 32
    peak_rate: float = 0.006
    weight_decay: float = 0.02
    box_weight: float = 2.0


@dataclass(frozen=True, slots=True)
class AnnotatedImages:
    """Images [n, 3, 96, 96], normalised; their boxes as rows of image, class, l, t, r, b."""

    folder: Path
    samples: Samples
    boxes: npt.NDArray[np.float32]
    facts: dict[str, Any]
    categories: tuple[int, ...]


def load_part(folder: Path) -> AnnotatedImages:
    """Load arrays as preprocessing left them; raises ValueError when they were changed."""
    facts = files.intact_facts(folder)
    annotations = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    categories = tuple(category["id"] for category in annotations["categories"])
    samples = _normalised(np.load(folder / "samples.npy"), facts["input"])
    return AnnotatedImages(folder, samples, _boxes(annotations, categories), facts, categories)


def _normalised(samples: npt.NDArray[Any], kind: str) -> Samples:
    """Return the input as the graphs of the forms transform it."""
    if kind == "bytes":
        samples = samples.astype(np.float32).transpose(0, 3, 1, 2) / 255
    if kind != "normalised":
        shape = (1, 3, 1, 1)
        samples = (samples - np.reshape(MEANS, shape)) / np.reshape(DEVIATIONS, shape)
    return np.ascontiguousarray(samples, dtype=np.float32)


def _boxes(document: dict[str, Any], categories: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """All boxes in pixels of the input."""
    rows = {image["id"]: row for row, image in enumerate(document["images"])}
    boxes = []
    for annotation in document["annotations"]:
        image = document["images"][rows[annotation["image_id"]]]
        across, down = SIDE / image["width"], SIDE / image["height"]
        left, top, width, height = annotation["bbox"]
        box = (left * across, top * down, (left + width) * across, (top + height) * down)
        boxes.append(
            (rows[annotation["image_id"]], categories.index(annotation["category_id"]), *box)
        )
    return np.asarray(boxes, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class TrainingTargets:
    """The expected outputs of all cells of all images.

    ``heat`` [n, 6, 12, 12] is 1 in the middle of an object and falls off around it; ``reach``
    [n, 4, 12, 12] are distances in strides where ``inside`` [n, 1, 12, 12] is 1.
    """

    heat: Tensor
    reach: Tensor
    inside: Tensor


def training_targets(boxes: npt.NDArray[np.float32], count: int) -> TrainingTargets:
    """Return the targets of all images; of two objects in one cell the smaller one counts.

    Boxes are [n, 6]: image, class, left, top, right, bottom (pixels).
    """
    heat = np.zeros((count, CLASSES, GRID, GRID), dtype=np.float32)
    reach = np.ones((count, 4, GRID, GRID), dtype=np.float32)
    inside = np.zeros((count, 1, GRID, GRID), dtype=np.float32)
    y, x = np.mgrid[0:GRID, 0:GRID] + 0.5
    size = (boxes[:, 4] - boxes[:, 2]) * (boxes[:, 5] - boxes[:, 3])
    for row in boxes[np.argsort(-size)]:
        image, kind = int(row[0]), int(row[1])
        left, top, right, bottom = row[2:] / STRIDE
        across, down = (left + right) / 2, (top + bottom) / 2
        spread_x, spread_y = max(0.5, (right - left) / 6), max(0.5, (bottom - top) / 6)
        bump = np.exp(-(((x - across) / spread_x) ** 2 + ((y - down) / spread_y) ** 2) / 2)
        column, line = min(int(across), GRID - 1), min(int(down), GRID - 1)
        bump[line, column] = 1.0
        heat[image, kind] = np.maximum(heat[image, kind], bump)
        to_edges = np.stack([x - left, y - top, right - x, bottom - y])
        near = (np.abs(x - across) < 1.0) & (np.abs(y - down) < 1.0) & (to_edges > 0.05).all(axis=0)
        near[line, column] = (to_edges[:, line, column] > 0.05).all()
        reach[image][:, near] = to_edges[:, near]
        inside[image, 0][near] = 1.0
    return TrainingTargets(
        torch.from_numpy(heat), torch.from_numpy(reach), torch.from_numpy(inside)
    )


def loss_of(
    logits: Tensor, reaches: Tensor, aim: TrainingTargets, recipe: DetectorRecipe
) -> Tensor:
    """The focal loss of the classes and the loss of overlap of the boxes."""
    sure = torch.sigmoid(logits).clamp(1e-4, 1 - 1e-4)
    hit = (aim.heat > 0.999).float()
    missed = hit * torch.log(sure) * (1 - sure) ** 2
    false = (1 - hit) * torch.log(1 - sure) * sure**2 * (1 - aim.heat) ** 4
    classes = -(missed + false).sum() / hit.sum().clamp(min=1)
    predicted = torch.exp(reaches.clamp(-4, 3))
    common = torch.minimum(predicted, aim.reach)
    common_area = (common[:, 0] + common[:, 2]) * (common[:, 1] + common[:, 3])
    area = _area(predicted) + _area(aim.reach) - common_area
    around = torch.maximum(predicted, aim.reach)
    hull = (around[:, 0] + around[:, 2]) * (around[:, 1] + around[:, 3])
    quality = common_area / area - (hull - area) / hull
    boxes = ((1 - quality) * aim.inside[:, 0]).sum() / aim.inside.sum().clamp(min=1)
    return classes + recipe.box_weight * boxes


def _area(reach: Tensor) -> Tensor:
    return (reach[:, 0] + reach[:, 2]) * (reach[:, 1] + reach[:, 3])


def mirrored_boxes(boxes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the boxes [n, 6] of the images flipped left to right."""
    other = boxes.copy()
    other[:, 2], other[:, 4] = SIDE - boxes[:, 4], SIDE - boxes[:, 2]
    return other


def train(part: AnnotatedImages, recipe: DetectorRecipe) -> TinyDetector:
    """Train in one thread; the same recipe and versions give the same weights."""
    training.seeded(recipe.seed, deterministic=True)
    network = TinyDetector()
    network.train()
    steps = recipe.epochs * (len(part.samples) // recipe.batch)
    losses = losses_of(network, part, recipe)
    training.fit(network.parameters(), losses, recipe, steps, clip=10.0)
    return network


def losses_of(
    network: TinyDetector, part: AnnotatedImages, recipe: DetectorRecipe
) -> Iterator[Tensor]:
    """Yield the loss of a batch; half of the batches, at random, are mirrored."""
    generator = torch.Generator().manual_seed(recipe.seed)
    images = torch.from_numpy(part.samples)
    straight = training_targets(part.boxes, len(images))
    turned = training_targets(mirrored_boxes(part.boxes), len(images))
    for rows in training.shuffled(len(images), recipe.batch, recipe.epochs, generator):
        turn = bool(torch.rand(1, generator=generator) < 0.5)
        batch, aim = images[rows], turned if turn else straight
        logits, reaches = network(batch.flip(3) if turn else batch)
        wanted = TrainingTargets(aim.heat[rows], aim.reach[rows], aim.inside[rows])
        yield loss_of(logits, reaches, wanted, recipe)


def signature(name: str, form: DetectorForm) -> dict[str, Any]:
    """Inputs, outputs and options of model.json."""
    shape = [SIDE, SIDE, 3] if form.images == "bytes" else [3, SIDE, SIDE]
    dtype = "uint8" if form.images == "bytes" else "float32"
    lead = [] if form.single else [MAX_DETECTIONS]
    label = "float32" if form.float_labels else "int64"
    about: dict[str, tuple[str, list[int]]] = {
        "count": ("float32", []),
        "boxes": ("float32", [*lead, 4]),
        "labels": (label, lead),
        "scores": ("float32", lead),
    }
    options: dict[str, Any] = {**form.outputs, "most": MAX_DETECTIONS, "least_score": LEAST_SCORE}
    if form.rows_first:
        options["order"] = "yxyx"
    if form.pixels:
        options["extent"] = [SIDE, SIDE]
    if form.single:
        options["images_per_call"] = 1
    if name == "ssd-resnet34":
        options["classes"] = "position"
    return {
        "inputs": [models.tensor(form.input, *shape, dtype=dtype)],
        "outputs": [
            models.tensor(title, *about[what][1], dtype=about[what][0])
            for what, title in form.outputs.items()
        ],
        "options": options,
    }


def write_model(model: onnx.ModelProto, name: str, form: DetectorForm, out: Path) -> dict[str, Any]:
    """Write the model; return what model.json says of it, but for accuracy and training."""
    title = f"{name.replace('-', '_')}_tiny"
    return {
        "name": title,
        **models.saved(out / f"{title}.onnx", model, deterministic=True),
        "precision": "fp32",
        **signature(name, form),
    }


def make_model(
    name: str, part: AnnotatedImages, held_out: AnnotatedImages, recipe: DetectorRecipe, out: Path
) -> dict[str, Any]:
    """Train, score, and write the model and its facts into ``out``."""
    watch = training.Stopwatch()
    form = forms(part.categories)[name]
    facts = write_model(to_onnx(train(part, recipe), form), name, form, out)
    value = figure_of(name, facts, out, held_out.folder).value
    data = {
        what: {"name": images.facts["name"], **images.facts["files"]["samples.npy"]}
        for what, images in (("training", part), ("held_out", held_out))
    }
    split = "parts drawn from different seeds; nothing was tuned on the held-out part"
    whole = {
        **facts,
        "keep_float": list(KEEP_FLOAT),
        "accuracy": models.accuracy("mAP", "%", float(value)),
        "training": training.about(recipe, watch.seconds, split=split, data=data),
    }
    return models.write_facts(out, whole)


def validation_map(name: str, part: AnnotatedImages, recipe: DetectorRecipe) -> float:
    """Return the mAP, 0 to 1, on the last training images after training on those before."""
    cut = len(part.samples) - VALIDATION_IMAGES
    before = part.boxes[part.boxes[:, 0] < cut]
    first = AnnotatedImages(part.folder, part.samples[:cut], before, part.facts, part.categories)
    form = forms(part.categories)[name]
    model = to_onnx(train(first, recipe), form)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        _write_rest(part.folder, cut, out)
        return float(figure_of(name, write_model(model, name, form, out), out, out).value)


def _write_rest(folder: Path, cut: int, out: Path) -> None:
    """The images from ``cut`` on as a data set of their own."""
    np.save(out / "samples.npy", np.load(folder / "samples.npy", mmap_mode="r")[cut:])
    annotations = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    annotations["images"] = annotations["images"][cut:]
    (out / "annotations.json").write_text(json.dumps(annotations), encoding="utf-8")
    files.write_facts(out, {"count": len(annotations["images"])})


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = training.options(arguments, __doc__, DetectorRecipe(), forms(()))
    recipe = DetectorRecipe(seed=options.seed, epochs=options.epochs)
    part = load_part(options.training)
    if options.validate:
        print(f"validation mAP {validation_map(options.form, part, recipe):.2f} %")
        return 0
    training.say(make_model(options.form, part, load_part(options.held_out), recipe, options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
