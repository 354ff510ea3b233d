"""Train the tiny 3-D U-Net on made-up brains and write it as ONNX.

    train.py --brains DIR --preprocessing DIR --harness DIR --held-out DIR --out DIR
    train.py --brains DIR --preprocessing DIR --harness DIR --validate

``--brains`` and ``--preprocessing`` are the folders of brains.py and preprocess.py: training
volumes come from a seed of their own and go through the benchmark's preprocessing. The held-out
volumes serve only for the figure that is reported, which the benchmark's own code finds.
Settings were chosen with ``--validate``, which scores volumes of a third seed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from network import CHANNELS, CLASSES, WINDOW, UNet
from torch import Tensor
from torch.nn import functional

TRAINING_SEED, VALIDATION_SEED = 2019, 2020
VALIDATION_CASES = 20
TARGET_SHARE = 0.99
OPSET = 17
# What each judged region consists of, in the model's classes; each lies inside of the one before.
REGIONS = {"whole tumor": [1, 2, 3], "tumor core": [2, 3], "enhancing tumor": [3]}
OPTIONS: dict[str, Any] = {"regions": REGIONS, "absent_region": "left out", "windows_per_call": 1}
NOT_COUNTED = 255
FILE = "3dunet_brats_tiny.onnx"

Array = npt.NDArray[Any]
Volume = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    cases: int = 250
    steps: int = 400
    batch: int = 3
    peak_rate: float = 0.01
    weight_decay: float = 0.01


def volumes(count: int, seed: int) -> list[Volume]:
    """Freshly made cases, preprocessed."""
    import brains
    import preprocess

    found = []
    for case in brains.cases(count, seed):
        images = case.images.astype(np.float32)
        found.append(preprocess.preprocessed((images, case.labels), WINDOW))
    return found


def batches(data: list[Volume], count: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Whole volumes by chance, some mirrored; heads are alike from both sides."""
    images, labels = [], []
    for _ in range(count):
        image, marks = data[int(random.integers(len(data)))]
        if random.integers(2):
            image, marks = image[..., ::-1], marks[..., ::-1]
        images.append(image.copy())
        labels.append(np.where(marks == NOT_COUNTED, 0, marks).astype(np.int64))
    return torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(labels))


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


def train(recipe: Recipe) -> UNet:
    """Train in one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    random = np.random.default_rng(recipe.seed)
    data = volumes(recipe.cases, TRAINING_SEED)
    network = UNet()
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.peak_rate, recipe.steps)
    for number in range(recipe.steps):
        images, labels = batches(data, recipe.batch, random)
        loss = loss_of(network(images), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimizer.step()
        schedule.step()
        if number % 50 == 49:
            print(f"step {number + 1}: loss {loss.item():.4f}", flush=True)
    network.eval()
    return network


def export(network: UNet, out: Path) -> dict[str, Any]:
    """Write the graph; returns what a benchmark needs to know of it."""
    path = out / FILE
    torch.onnx.export(
        network,
        (torch.zeros(2, CHANNELS, *WINDOW),),
        str(path),
        input_names=["input"],
        output_names=["output"],
        dynamic_axes={"input": {0: "N"}, "output": {0: "N"}},
        opset_version=OPSET,
        dynamo=False,
    )
    data = path.read_bytes()
    return {
        "name": "3d_unet_brats_tiny",
        "file": FILE,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "precision": "fp32",
        "inputs": [{"name": "input", "dtype": "float32", "shape": [CHANNELS, *WINDOW]}],
        "outputs": [{"name": "output", "dtype": "float32", "shape": [CLASSES, *WINDOW]}],
        "options": OPTIONS,
    }


def score(facts: dict[str, Any], folder: Path, held_out: Path) -> tuple[float, str]:
    """The mean Dice and its line, found by the benchmark itself with ONNX Runtime."""
    from mlperf_harness import records
    from mlperf_harness.backends import create as create_backend
    from mlperf_harness.benchmarks import segmentation
    from mlperf_harness.benchmarks.base import rules_of
    from mlperf_harness.pipeline.inference import solvers
    from mlperf_harness.settings import ModelSpec, Shape

    accuracy = {"metric": "mean DICE", "unit": "", "reference": 0, "target": 0}
    keys = ("name", "sha256", "precision", "inputs", "outputs", "options")
    plain = {**{key: facts[key] for key in keys}, "path": str(folder / facts["file"])}
    model = records.decode(ModelSpec, {**plain, "accuracy": accuracy})
    benchmark = segmentation.Segmentation(held_out, model, rules_of("3d-unet-brats-99"))
    backend = create_backend("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, model, benchmark, Shape(1, 1, 1))
    everything = np.arange(benchmark.sample_count)
    benchmark.load(everything.tolist())
    answers: list[bytes] = []
    results, sizes = benchmark.result.rows(1), np.zeros(1, np.int64)
    for number in everything.tolist():
        solver.solve([number], results, sizes)
        answers.append(results[0].tobytes()[: sizes[0]])
    figure = benchmark.accuracy(answers, everything)
    return figure.value, figure.line


def validate(network: UNet) -> str:
    """The line of the volumes that settings are chosen with."""
    import preprocess

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = volumes(VALIDATION_CASES, VALIDATION_SEED)
        written = preprocess.Volumes(folder, len(made), WINDOW)
        for row, (images, labels) in enumerate(made):
            written.put(row, images, labels)
        written.close({"name": "validation"})
        return score(export(network, folder), folder, folder)[1]


def finish(network: UNet, out: Path, held_out: Path, told: dict[str, Any]) -> None:
    """Write the model and its facts; ``told`` is what is known of its making."""
    facts = export(network, out)
    value, line = score(facts, out, held_out)
    data = json.loads((held_out / "dataset.json").read_text(encoding="utf-8"))
    facts["accuracy"] = {
        "metric": "mean DICE",
        "unit": "",
        "reference": round(value, 5),
        "target": round(value * TARGET_SHARE, 5),
    }
    facts["training"] = {
        "split": "made with other seeds; nothing was tuned on the held-out part",
        "held_out": {"name": data["name"], "cases": data["count"], **data["files"]["samples.npy"]},
        "held_out_line": line,
        **told,
        "made_with": {
            "torch": torch.__version__,
            "onnx": onnx.__version__,
            "onnxruntime": onnxruntime.__version__,
            "numpy": np.__version__,
        },
    }
    text = json.dumps(facts, indent=2) + "\n"
    (out / "model.json").write_text(text, encoding="utf-8")
    print(f"held out: {line}")


def main(arguments: list[str] | None = None) -> int:
    """Train as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("--brains", "--preprocessing", "--harness"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    options = parser.parse_args(arguments)
    sys.path[:0] = [str(options.brains), str(options.preprocessing), str(options.harness)]
    recipe = Recipe(steps=options.steps)
    started = time.monotonic()
    network = train(recipe)
    seconds = round(time.monotonic() - started, 1)
    print(f"trained in {seconds} s", flush=True)
    if options.validate:
        print(f"validation: {validate(network)}")
    else:
        told = {"recipe": asdict(recipe), "seconds": seconds}
        finish(network, options.out, options.held_out, told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
