"""Train the tiny transducer on utterances spelled in tones and write it as two ONNX graphs.

    python -m modelzoo.rnnt.train --held-out DIR --out DIR

Training utterances are made with a seed of their own; the features and the decoding are those of
the benchmark harness, so that the figure is the one that the benchmark finds. The held-out set
serves only for that figure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlperf.harness.benchmarks.features import Extractor, FeatureSpec
from modelzoo import files, models, program, training
from modelzoo.datasets.librispeech import tones
from modelzoo.judging import figure_of
from modelzoo.rnnt.network import (
    LABELS,
    PredictionStep,
    TinyTransducerSize,
    TransducerEncoder,
    transducer_loss,
)

TRAINING_SEED = 500
ENCODER_FILE, STEP_FILE = "rnnt_tiny_encoder.onnx", "rnnt_tiny_step.onnx"


@dataclass(frozen=True, slots=True)
class RnntRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    utterances: int = 6000
    steps: int = 500
    batch: int = 32
    peak_rate: float = 0.006
    weight_decay: float = 0.01


def training_set(count: int) -> list[tuple[Tensor, Tensor]]:
    """Return features and letters of newly generated utterances, the short ones first."""
    extractor = Extractor(FeatureSpec())
    pairs = []
    for utterance in tones.utterances(count, TRAINING_SEED):
        letters = [LABELS.index(letter) for letter in utterance.text]
        features = torch.from_numpy(extractor.features(utterance.samples))
        pairs.append((features, torch.tensor(letters)))
    return sorted(pairs, key=lambda pair: len(pair[0]))


def loss_of(
    encoder: TransducerEncoder, step: PredictionStep, batch: list[tuple[Tensor, Tensor]]
) -> Tensor:
    """The loss of utterances of about one length."""
    features = torch.nn.utils.rnn.pad_sequence([pair[0] for pair in batch], batch_first=True)
    labels = torch.nn.utils.rnn.pad_sequence([pair[1] for pair in batch], batch_first=True)
    frames = torch.tensor([len(pair[0]) for pair in batch])
    letters = torch.tensor([len(pair[1]) for pair in batch])
    before = torch.nn.functional.pad(labels, (1, 0), value=len(LABELS))
    empty = torch.zeros(1, len(batch), step.size.prediction)
    text, _, _ = step.predict(before, empty, empty)
    scores = step.join(encoder(features)[:, :, None], text[:, None])
    return transducer_loss(scores, labels, frames, letters)


def train(recipe: RnntRecipe) -> tuple[TransducerEncoder, PredictionStep]:
    """Train in one thread; batches hold utterances of about one length."""
    training.seeded(recipe.seed)
    random = np.random.default_rng(recipe.seed)
    encoder, step = TransducerEncoder(TinyTransducerSize()), PredictionStep(TinyTransducerSize())
    data = training_set(recipe.utterances)

    def losses() -> Iterator[Tensor]:
        while True:
            begin = int(random.integers(0, len(data) - recipe.batch + 1))
            yield loss_of(encoder, step, data[begin : begin + recipe.batch])

    weights = [*encoder.parameters(), *step.parameters()]
    training.fit(weights, losses(), recipe, recipe.steps, clip=5.0, say_every=100)
    return encoder.eval(), step.eval()


def export(encoder: TransducerEncoder, step: PredictionStep, out: Path) -> None:
    """Write both graphs."""
    size, batch, times = step.size, {0: "N"}, {0: "N", 1: "T"}
    features = torch.zeros(2, 9, size.features)
    training.export(encoder, [features], out / ENCODER_FILE, {"features": times}, {"states": times})
    state = torch.zeros(2, size.prediction)
    examples = [torch.zeros(2, size.joint), torch.zeros(2, dtype=torch.int64), state, state]
    inputs = dict.fromkeys(["state", "letter", "hidden", "cell"], batch)
    outputs = dict.fromkeys(["scores", "new_hidden", "new_cell"], batch)
    training.export(step, examples, out / STEP_FILE, inputs, outputs)


def describe(size: TinyTransducerSize, out: Path) -> dict[str, Any]:
    """What a benchmark needs to know of the graphs."""
    states = models.tensors(["hidden", "cell"], size.prediction)
    letter = models.tensor("letter", dtype="int64")
    new_states = models.tensors(["new_hidden", "new_cell"], size.prediction)
    part = {
        "name": "step",
        **models.graph_facts(out / STEP_FILE),
        "inputs": [models.tensor("state", size.joint), letter, *states],
        "outputs": [models.tensor("scores", len(LABELS) + 1), *new_states],
    }
    return {
        "name": "rnnt_tiny",
        **models.graph_facts(out / ENCODER_FILE),
        "precision": "fp32",
        "inputs": [models.tensor("features", -1, size.features)],
        "outputs": [models.tensor("states", -1, size.joint)],
        "parts": [part],
        "options": {"labels": LABELS, "blank": len(LABELS), "most_letters_per_frame": 30},
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--held-out", type=Path, required=True, help="arrays to score at the end")
    parser.add_argument("--steps", type=int, default=RnntRecipe().steps)
    options = parser.parse_args(arguments)
    watch, recipe = training.Stopwatch(), RnntRecipe(steps=options.steps)
    export(*train(recipe), options.out)
    facts = describe(TinyTransducerSize(), options.out)
    figure = figure_of("rnnt", facts, options.out, options.held_out, batch=32)
    facts["accuracy"] = models.accuracy("word accuracy", "%", figure.value)
    data = files.held_out(options.held_out, "samples.npy", utterances="count")
    facts["training"] = training.about(recipe, watch.seconds, held_out=data)
    training.say(models.write_facts(options.out, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
