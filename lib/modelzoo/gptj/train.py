"""Train the tiny decoder on generated articles and write it as ONNX.

    python -m modelzoo.gptj.train --held-out DIR --out DIR

Training articles are made with a seed of their own; the beam search and ROUGE are those of the
benchmark harness, so that the figures are those that the benchmark finds. The held-out set serves
only for them.
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

from modelzoo import files, models, program, training
from modelzoo.datasets.cnndm import make_dataset, news
from modelzoo.gptj.network import TinyDecoder, TinyDecoderSize
from modelzoo.judging import figure_of

FILE = "gptj_tiny.onnx"
TRAINING_SEED = 100
IGNORED = -100
LEAST_LENGTH_SHARE = 0.9
BATCH = 32


@dataclass(frozen=True, slots=True)
class GptjRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    articles: int = 12000
    steps: int = 700
    batch: int = 64
    peak_rate: float = 0.004
    weight_decay: float = 0.01


def rows_of(count: int) -> list[tuple[list[int], list[int]]]:
    """Prompt and answer in tokens for freshly made articles."""
    ending, end = " ".join(news.PROMPT_END), news.SPECIAL.index("<eos>")
    return [
        (
            make_dataset.tiny_tokens(f"{story.article} {ending}"),
            [*make_dataset.tiny_tokens(story.summary), end],
        )
        for story in news.stories(count, TRAINING_SEED)
    ]


def tensors(rows: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """Return tokens [n, longest] and the tokens that follow them within an answer."""
    longest = max(len(prompt) + len(answer) for prompt, answer in rows)
    tokens = np.zeros((len(rows), longest), dtype=np.int64)
    following = np.full((len(rows), longest), IGNORED, dtype=np.int64)
    for row, (prompt, answer) in enumerate(rows):
        tokens[row, : len(prompt) + len(answer)] = prompt + answer
        following[row, len(prompt) - 1 : len(prompt) + len(answer) - 1] = answer
    return torch.from_numpy(tokens), torch.from_numpy(following)


def train(vocabulary: int, recipe: GptjRecipe) -> TinyDecoder:
    """Train in one thread; the same recipe and versions give the same weights."""
    training.seeded(recipe.seed)
    network = TinyDecoder(TinyDecoderSize(vocabulary))
    training.fit_decoder(network, losses_of(network, recipe), recipe, recipe.steps, 100)
    return network


def losses_of(network: TinyDecoder, recipe: GptjRecipe) -> Iterator[Tensor]:
    """The loss of batches by chance, without end."""
    random = np.random.default_rng(recipe.seed)
    rows = rows_of(recipe.articles)
    while True:
        picked = random.integers(0, len(rows), recipe.batch)
        tokens, following = tensors([rows[place] for place in picked])
        logits, _ = network(tokens, torch.ones_like(tokens), network.empty_past(len(tokens)))
        yield torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), following.flatten(), ignore_index=IGNORED
        )


def export(network: TinyDecoder, path: Path) -> None:
    """Write the graph: one for the prompt and for every token after it."""
    ids = torch.ones(2, 3, dtype=torch.int64)
    past = torch.zeros(2, *network.empty_past(1).shape[1:3], 4, network.size.head_width)
    training.export(
        network,
        [ids, torch.ones(2, 7, dtype=torch.int64), past],
        path,
        {
            "input_ids": {0: "N", 1: "S"},
            "attention_mask": {0: "N", 1: "T"},
            "past": {0: "N", 3: "P"},
        },
        {"logits": {0: "N", 1: "S"}, "present": {0: "N", 3: "T"}},
    )


def describe(path: Path, size: TinyDecoderSize) -> dict[str, Any]:
    """What a benchmark needs to know of the model."""
    cache = [2 * size.layers, size.heads, -1, size.head_width]
    tokens = models.tensors(["input_ids", "attention_mask"], -1, dtype="int64")
    logits = models.tensor("logits", -1, size.vocabulary)
    return {
        "name": "gptj_tiny",
        **models.graph_facts(path),
        "precision": "fp32",
        "inputs": [*tokens, models.tensor("past", *cache)],
        "outputs": [logits, models.tensor("present", *cache)],
        "options": {
            "beam_width": 4,
            "min_new_tokens": 12,
            "max_new_tokens": 36,
            "eos_token_id": 1,
            "pad_token_id": 0,
            "largest_prompt": size.context - 36,
        },
    }


def accuracy_of(figures: dict[str, float]) -> dict[str, Any]:
    """The bounds that model.json states: those of the rules, on the figures of this model."""
    first, *others = [models.accuracy(f"ROUGE-{n}", "", figures[f"ROUGE-{n}"]) for n in "12L"]
    length = models.accuracy("gen_len", "tokens", figures["gen_len"], LEAST_LENGTH_SHARE)
    return {**first, "further": [*others, length]}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--held-out", type=Path, required=True, help="prompts to score at the end")
    parser.add_argument("--steps", type=int, default=GptjRecipe().steps)
    options = parser.parse_args(arguments)
    out, held_out = options.out, options.held_out
    watch, recipe = training.Stopwatch(), GptjRecipe(steps=options.steps)
    network = train(files.read_facts(held_out)["vocabulary"], recipe)
    export(network, out / FILE)
    facts = describe(out / FILE, network.size)
    # The number of tokens is counted over all samples that a run has.
    figure = figure_of("gptj-99", facts, out, held_out, batch=BATCH, repeated=True)
    facts["accuracy"] = accuracy_of(dict(figure.further))
    data = files.held_out(held_out, "prompts.npy", prompts="count")
    facts["training"] = training.about(recipe, watch.seconds, held_out=data)
    training.say(models.write_facts(out, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
