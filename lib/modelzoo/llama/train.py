"""Train the tiny Llama on generated articles, and write its folder.

    python -m modelzoo.llama.train --held-out DIR --out DIR

Training articles are made with a seed of their own; ROUGE is that of the benchmark harness. The
held-out set serves only for the figures and for the answers that are right (``oracle.npz``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlperf import catalog
from mlperf.harness.benchmarks.text_generation import TextGeneration
from modelzoo import files, models, program, tokenizer_files, training
from modelzoo.datasets.cnndm import make_llama3, news
from modelzoo.judging import spec_of
from modelzoo.llama import folder, gguf_file, vocabulary
from modelzoo.llama.network import Llama
from modelzoo.llama.priming import prime
from modelzoo.llama.size import LlamaSize

NAME, BENCHMARK = "llama3_tiny", "llama3.1-8b"
TRAINING_SEED = 100
IGNORED = -100
MOST_PROMPT, MOST_TOKENS = 2048, 40
# llama.cpp's name of GPT-2's pattern, which the tokenizer has too.
SPLITTING = "gpt-2"
LEAST_LENGTH_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class LlamaRecipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    articles: int = 20000
    steps: int = 500
    batch: int = 32
    peak_rate: float = 0.004
    weight_decay: float = 0.01


def tiny_size() -> LlamaSize:
    """Return the shape of the tiny network."""
    return LlamaSize(
        vocabulary=len(make_llama3.tiny_tokenizer().names),
        width=128,
        inner=256,
        layers=2,
        heads=4,
        key_heads=2,
        context=256,
        tied=True,
        scaling=(),
    )


def tensors(rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """Return tokens [n, longest] and the tokens that follow them within an answer."""
    longest = max(len(prompt) + len(answer) for prompt, answer in rows)
    tokens = np.zeros((len(rows), longest), dtype=np.int64)
    following = np.full((len(rows), longest), IGNORED, dtype=np.int64)
    for row, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        tokens[row, :end] = prompt + answer
        following[row, len(prompt) - 1 : end - 1] = answer
    return torch.from_numpy(tokens), torch.from_numpy(following)


def losses_of(network: Llama, recipe: LlamaRecipe) -> Iterator[Tensor]:
    """Yield the loss of batches by chance, without end; only answers count."""
    random = np.random.default_rng(recipe.seed)
    rows = [
        (make_llama3.prompt_tokens(story), make_llama3.answer_tokens(story))
        for story in news.stories(recipe.articles, TRAINING_SEED)
    ]
    while True:
        picked = random.integers(0, len(rows), recipe.batch)
        tokens, following = tensors([rows[place] for place in picked])
        counts = following != IGNORED
        scores = network.scores(network(tokens)[counts])
        yield torch.nn.functional.cross_entropy(scores, following[counts])


def train(recipe: LlamaRecipe) -> Llama:
    """Train in one thread; the same recipe, versions and processor give the same weights.

    They end as numbers that float16 has, so that every file holds the same ones.
    """
    training.seeded(recipe.seed)
    network = Llama(tiny_size())
    prime(network)
    training.fit_decoder(network, losses_of(network, recipe), recipe, recipe.steps, 50)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(weight.half().float())
    return network


def answers_of(network: Llama, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the greedy answer to every prompt, with the token of its end."""
    texts = [list(prompt) for prompt in prompts]
    open_rows = list(range(len(texts)))
    with torch.no_grad():
        for _ in range(MOST_TOKENS):
            chosen = _next(network, [texts[row] for row in open_rows])
            for row, token in zip(open_rows, chosen, strict=True):
                texts[row].append(token)
            open_rows = [row for row in open_rows if texts[row][-1] != make_llama3.END_TOKEN]
            if not open_rows:
                break
    return [text[len(prompt) :] for text, prompt in zip(texts, prompts, strict=True)]


def _next(network: Llama, texts: Sequence[Sequence[int]]) -> list[int]:
    longest = max(map(len, texts))
    tokens = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    last = torch.tensor([len(text) - 1 for text in texts])
    states = network(tokens)[torch.arange(len(texts)), last]
    chosen: list[int] = network.scores(states).argmax(-1).tolist()
    return chosen


def figures_of(
    facts: Mapping[str, Any], out: Path, held_out: Path, answers: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Return what the benchmark says of these answers to all prompts of ``held_out``."""
    rules = catalog.benchmark(BENCHMARK)
    benchmark = TextGeneration(held_out, spec_of(facts, out), rules)
    logged = [np.asarray(answer, dtype=np.int64).tobytes() for answer in answers]
    return dict(benchmark.accuracy(logged, np.arange(len(logged))).further)


def accuracy_of(figures: Mapping[str, float]) -> dict[str, Any]:
    """Return the bounds that model.json states: those of the rules, on this model's figures.

    The length of an answer is that of one sample, which is the same however many a run has.
    """
    names = [f"ROUGE-{end}" for end in ("1", "2", "L", "Lsum")]
    first, *others = [models.accuracy(name, "", figures[name]) for name in names]
    length = figures["tokens_per_sample"]
    others.append(models.accuracy("tokens_per_sample", "tokens", length, LEAST_LENGTH_SHARE))
    return {**first, "further": others}


def write(network: Llama, out: Path) -> None:
    """Write the files that engines read."""
    size = network.size
    begin, end = make_llama3.BEGIN_TOKEN, make_llama3.END_TOKEN
    document = make_llama3.tiny_tokenizer().document()
    weights = folder.ArrayWeights(
        {name: weight.numpy() for name, weight in network.state_dict().items()}
    )
    folder.write_config(out, size, document, begin, [end])
    folder.write_safetensors(weights, size, out / folder.SAFETENSORS, "F16")
    tokens = vocabulary.of_document(document, size.vocabulary, SPLITTING, begin, (end,))
    gguf_file.write(weights, size, tokens, out / folder.GGUF, NAME)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = program.parser(__doc__)
    parser.add_argument("--held-out", type=Path, required=True, help="prompts to score at the end")
    parser.add_argument("--steps", type=int, default=LlamaRecipe().steps)
    options = parser.parse_args(arguments)
    out, held_out = options.out, options.held_out
    watch, recipe = training.Stopwatch(), LlamaRecipe(steps=options.steps)
    network = train(recipe)
    write(network, out)
    answers = answers_of(network, prompts_of(held_out))
    folder.write_oracle(out, answers)
    data = files.held_out(held_out, "prompts.npy", prompts="count")
    shown = {"training": training.about(recipe, watch.seconds, held_out=data)}
    ends = [make_llama3.END_TOKEN]
    document = make_llama3.tiny_tokenizer().document()
    options_of = {"oracle": folder.ORACLE, "tokenizer": tokenizer_files.digest(document)}
    lengths = folder.AnswerLengths(MOST_PROMPT, MOST_TOKENS)
    for file, name in folder.FACTS.items():
        facts = folder.describe(out, file, NAME, network.size, ends, lengths, **options_of)
        bounds = accuracy_of(figures_of({**facts, "accuracy": {}}, out, held_out, answers))
        written = models.write_facts(out, {**facts, "accuracy": bounds, **shown}, name)
    training.say(written)
    return 0


def prompts_of(dataset: Path) -> list[list[int]]:
    """Return the prompts of a data set in their order."""
    tokens = np.load(dataset / "prompts.npy")
    offsets = np.load(dataset / "offsets.npy").tolist()
    return [tokens[begin:end].tolist() for begin, end in pairwise(offsets)]


if __name__ == "__main__":
    sys.exit(main())
