"""Training of the tiny 3-D U-Nets of MLPerf's medical benchmarks."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelzoo import program


@dataclass(frozen=True, slots=True)
class TinyUNet:
    """A tiny network: its ``recipe``, training, export and benchmark.

    ``train`` trains a network by a recipe, ``export`` writes it and returns its facts, and
    ``validation`` writes a data set of other volumes, by which settings are chosen.
    """

    benchmark: str
    recipe: Callable[..., Any]
    train: Callable[[Any], Any]
    export: Callable[[Any, Path], dict[str, Any]]
    validation: Callable[[Path], None]


def trained(
    recipe: Any, make: Callable[[], Any], batches: Iterable[Any], loss_of: Callable[..., Any]
) -> Any:
    """The network that ``make`` makes, trained on pairs of images and labels in one thread."""
    from modelzoo import training

    training.seeded(recipe.seed)
    network = make()
    losses = (loss_of(network(images), labels) for images, labels in batches)
    training.fit(network.parameters(), losses, recipe, recipe.steps, say_every=50)
    network.eval()
    return network


def mean_dice(arguments: list[str] | None, doc: str | None, tiny: TinyUNet) -> int:
    """Run the command line: train a tiny network, judge it by its mean Dice, write its facts."""
    from modelzoo import files, models, training
    from modelzoo.judging import figure_of

    options = _options(arguments, doc, tiny.recipe().steps)
    recipe, watch = tiny.recipe(steps=options.steps), training.Stopwatch()
    network = tiny.train(recipe)
    seconds = watch.seconds
    print(f"trained in {seconds} s", flush=True)
    if options.validate:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            tiny.validation(folder)
            score = figure_of(tiny.benchmark, tiny.export(network, folder), folder, folder)
        print(f"validation: {score.line}")
        return 0
    facts = tiny.export(network, options.out)
    figure = figure_of(tiny.benchmark, facts, options.out, options.held_out)
    facts["accuracy"] = models.accuracy("mean DICE", "", figure.value, digits=5)
    data = files.held_out(options.held_out, "samples.npy", cases="count")
    more = {"held_out": data, "held_out_line": figure.line}
    models.write_facts(options.out, {**facts, "training": training.about(recipe, seconds, **more)})
    print(f"held out: {figure.line}")
    return 0


def _options(arguments: list[str] | None, doc: str | None, steps: int) -> Namespace:
    parser = program.parser(doc, out=False)
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--steps", type=int, default=steps)
    return parser.parse_args(arguments)
