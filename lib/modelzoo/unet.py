"""The 3-D U-Net of MLPerf's medical benchmarks: its graph with random weights, its tiny training.

Facts: both networks are nnU-Net's (Isensee et al., 2020) as MLPerf took them: six levels with 32,
64, 128, 256, 320 and 320 features; in each two blocks of convolution, instance normalisation and a
rectifier; a strided convolution goes down, a transposed one up, concatenated with the output of
the level on the way down.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modelzoo import program
from modelzoo.graph import OnnxGraph

WIDTHS = (32, 64, 128, 256, 320, 320)
OPSET = 11


class UNetGraph(OnnxGraph):
    """The network in the making.

    ``slope`` is that of the leaky rectifier, 0 for a plain one. Biases are in the convolutions of
    the leaky network, and in the transposed ones and the scores of the plain one.
    """

    def __init__(self, seed: int, classes: int, slope: float = 0.0) -> None:
        super().__init__(seed)
        self._classes, self._slope = classes, slope

    def block(self, x: str, into: int, out: int, stride: int = 1) -> str:
        """A convolution that keeps values about as large as they are, with what follows it."""
        weights = [self.noise(out, into, 3, 3, 3, scale=(2.0 / (27 * into)) ** 0.5)]
        weights += [self.noise(out, scale=0.01)] if self._slope else []
        strides, pads = [stride] * 3, [1] * 6
        x = self.op("Conv", x, *weights, kernel_shape=[3] * 3, strides=strides, pads=pads)
        scale, shift = self.const(np.ones(out)), self.noise(out, scale=0.1)
        x = self.op("InstanceNormalization", x, scale, shift, epsilon=1e-5)
        return self.op("LeakyRelu", x, alpha=self._slope) if self._slope else self.op("Relu", x)

    def up(self, x: str, into: int, out: int) -> str:
        """Double the number of voxels along every side."""
        weights = self._plain((into, out, 2, 2, 2), into, out)
        return self.op("ConvTranspose", x, *weights, kernel_shape=[2] * 3, strides=[2] * 3)

    def scores(self, x: str, into: int) -> str:
        """Return the scores of all classes per voxel."""
        weights = self._plain((self._classes, into, 1, 1, 1), into, self._classes)
        return self.op("Conv", x, *weights, kernel_shape=[1] * 3)

    def _plain(self, shape: tuple[int, ...], into: int, out: int) -> list[str]:
        """Weights of a layer that no rectifier follows."""
        weights = [self.noise(*shape, scale=(1.0 / into) ** 0.5)]
        return weights if self._slope else [*weights, self.noise(out, scale=0.01)]

    def layers(self, x: str, channels: int, widths: Sequence[int]) -> list[str]:
        """The whole network; the scores that come out of it, the finest last.

        The leaky network has scores in every level on the way up.
        """
        into, skips = channels, []
        for level, width in enumerate(widths):
            x = self.block(x, into, width, stride=2 if level else 1)
            x = self.block(x, width, width)
            skips.append(x)
            into = width
        outputs = []
        for width, beside in zip(reversed(widths[:-1]), reversed(skips[:-1]), strict=True):
            x = self.op("Concat", self.up(x, into, width), beside, axis=1)
            x = self.block(x, 2 * width, width)
            x = self.block(x, width, width)
            into = width
            if self._slope or beside == skips[0]:
                outputs.append(self.scores(x, into))
        return outputs


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
