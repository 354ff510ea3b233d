"""Training of the tiny models: the loop, the export, and its entry in model.json."""

from __future__ import annotations

import argparse
import importlib.metadata
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from modelzoo import program

OPSET = 17
# Whose versions decide what a training gives.
PACKAGES = ("torch", "onnx", "onnxruntime", "numpy")


class TrainingRecipe(Protocol):
    """The common fields of all recipes; a model adds its own."""

    @property
    def peak_rate(self) -> float:
        """The learning rate at its height, a factor without a unit."""

    @property
    def weight_decay(self) -> float:
        """The weight decay per unit of learning rate (AdamW)."""


def seeded(seed: int, *, deterministic: bool = False) -> None:
    """One thread and a seed: the same recipe and versions give the same weights."""
    torch.set_num_threads(1)
    if deterministic:
        torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)


def fit(
    weights: Iterable[Any],
    losses: Iterable[Tensor],
    recipe: TrainingRecipe,
    steps: int,
    *,
    clip: float = 0.0,
    say_every: int = 0,
    optimizer: Mapping[str, Any] | None = None,
    **schedule: Any,
) -> None:
    """Train ``weights`` with AdamW and a one-cycle rate for ``steps`` steps.

    ``losses`` yields the losses of successive batches. Gradients are clipped to the
    norm ``clip`` unless that is 0. ``optimizer`` and ``schedule`` are further settings of both.
    """
    trained = list(weights)
    adam = torch.optim.AdamW(trained, weight_decay=recipe.weight_decay, **(optimizer or {}))
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, recipe.peak_rate, steps, **schedule)
    for step, loss in zip(range(1, steps + 1), losses, strict=False):
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        if clip:
            torch.nn.utils.clip_grad_norm_(trained, clip)
        adam.step()
        rate.step()
        if say_every and step % say_every == 0:
            print(f"step {step} of {steps}: loss {loss.item():.4f}", flush=True)


def fit_decoder(
    network: Any, losses: Iterable[Tensor], recipe: TrainingRecipe, steps: int, say_every: int
) -> None:
    """Train a small decoder of text, and leave it ready to answer."""
    fit(
        network.parameters(),
        losses,
        recipe,
        steps,
        clip=1.0,
        say_every=say_every,
        optimizer={"betas": (0.9, 0.98)},
        pct_start=0.1,
    )
    network.eval()


def shuffled(count: int, batch: int, epochs: int, generator: Any) -> Iterable[Tensor]:
    """Yield the rows of every whole batch, shuffled anew in every epoch."""
    for _ in range(epochs):
        for rows in torch.randperm(count, generator=generator).split(batch):
            if len(rows) == batch:
                yield rows


def export(
    network: Any,
    examples: Sequence[Tensor],
    path: Path,
    inputs: Mapping[str, Mapping[int, str]],
    outputs: Mapping[str, Mapping[int, str]],
) -> None:
    """Write a network as ONNX; ``inputs`` and ``outputs`` name their axes of variable size."""
    torch.onnx.export(
        network,
        tuple(examples),
        str(path),
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_axes={name: dict(axes) for name, axes in {**inputs, **outputs}.items()},
        opset_version=OPSET,
        dynamo=False,
    )


def options(
    arguments: Sequence[str] | None, doc: str | None, recipe: Any, forms: Iterable[str] = ()
) -> argparse.Namespace:
    """The command line of a training on arrays: the parts, seed and epochs, whether to validate.

    With ``forms`` one of them has to be chosen.
    """
    parser = program.parser(doc, out=False)
    if forms:
        parser.add_argument("--form", choices=list(forms), required=True, help="benchmark")
    parser.add_argument("--training", type=Path, required=True, help="arrays to train on")
    parser.add_argument("--held-out", type=Path, help="arrays to score at the end")
    parser.add_argument("--seed", type=int, default=recipe.seed)
    parser.add_argument("--epochs", type=int, default=recipe.epochs)
    parser.add_argument("--validate", action="store_true", help="only report the validation score")
    parsed = parser.parse_args(arguments)
    if not parsed.validate and (parsed.out is None or parsed.held_out is None):
        parser.error("--held-out and --out are required unless --validate is given")
    return parsed


def say(facts: Mapping[str, Any]) -> None:
    """Print the results of a training."""
    accuracy = facts["accuracy"]
    print(
        f"held-out {accuracy['metric']} {accuracy['reference']:.4f} {accuracy['unit']}, "
        f"{facts['bytes']} bytes, {facts['training']['seconds']} s"
    )


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """To one digit behind the point."""
        return round(time.monotonic() - self._began, 1)


SPLIT = "made with other seeds; nothing was tuned on the held-out part"


def about(recipe: Any, seconds: float, *, split: str = SPLIT, **more: Any) -> dict[str, Any]:
    """Return the entry of a training in model.json; ``more`` is about its data."""
    installed = {
        entry.metadata["Name"]: entry.version for entry in importlib.metadata.distributions()
    }
    versions = {name: installed[name] for name in PACKAGES if name in installed}
    return {
        "split": split,
        **more,
        "recipe": asdict(recipe),
        "seconds": seconds,
        "made_with": versions,
    }
