"""Train the tiny decoder on generated articles and write it as ONNX.

    train.py --news DIR --harness DIR --held-out DIR --out DIR

``--news`` is the folder of news.py and make_dataset.py, which make training articles with seeds
of their own; ``--harness`` that of the benchmark harness, whose beam search and ROUGE are used, so
that the figures are those that the benchmark finds. The held-out set serves only for them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from network import Size, TinyDecoder
from torch import Tensor

FILE = "gptj_tiny.onnx"
TRAINING_SEED = 100
OPSET = 17
IGNORED = -100
TARGET_SHARE = 0.99
LEAST_LENGTH_SHARE = 0.9
BATCH = 32


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    articles: int = 12000
    steps: int = 700
    batch: int = 64
    peak_rate: float = 0.004
    weight_decay: float = 0.01


def rows_of(count: int) -> list[tuple[list[int], list[int]]]:
    """Prompt and answer in tokens for freshly made articles."""
    import make_dataset
    import news

    ending, end = " ".join(news.PROMPT_END), news.SPECIAL.index("<eos>")
    return [
        (
            make_dataset.tiny_tokens(f"{story.article} {ending}"),
            [*make_dataset.tiny_tokens(story.summary), end],
        )
        for story in news.stories(count, TRAINING_SEED)
    ]


def tensors(rows: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """Tokens [n, longest] and what follows each of them, where it belongs to an answer."""
    longest = max(len(prompt) + len(answer) for prompt, answer in rows)
    tokens = np.zeros((len(rows), longest), dtype=np.int64)
    following = np.full((len(rows), longest), IGNORED, dtype=np.int64)
    for row, (prompt, answer) in enumerate(rows):
        tokens[row, : len(prompt) + len(answer)] = prompt + answer
        following[row, len(prompt) - 1 : len(prompt) + len(answer) - 1] = answer
    return torch.from_numpy(tokens), torch.from_numpy(following)


def train(vocabulary: int, recipe: Recipe) -> TinyDecoder:
    """Train in one thread; the same recipe and versions give the same weights."""
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    random = np.random.default_rng(recipe.seed)
    network = TinyDecoder(Size(vocabulary))
    rows = rows_of(recipe.articles)
    optimizer = torch.optim.AdamW(
        network.parameters(), weight_decay=recipe.weight_decay, betas=(0.9, 0.98)
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.peak_rate, recipe.steps, pct_start=0.1
    )
    for number in range(recipe.steps):
        picked = random.integers(0, len(rows), recipe.batch)
        tokens, following = tensors([rows[place] for place in picked])
        logits, _ = network(tokens, torch.ones_like(tokens), network.empty_past(len(tokens)))
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), following.flatten(), ignore_index=IGNORED
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if number % 100 == 99:
            print(f"step {number + 1}: loss {loss.item():.4f}", flush=True)
    network.eval()
    return network


def export(network: TinyDecoder, path: Path) -> None:
    """Write the graph: one for the prompt and for every token after it."""
    ids = torch.ones(2, 3, dtype=torch.int64)
    past = torch.zeros(2, *network.empty_past(1).shape[1:3], 4, network.size.head_width)
    torch.onnx.export(
        network,
        (ids, torch.ones(2, 7, dtype=torch.int64), past),
        str(path),
        input_names=["input_ids", "attention_mask", "past"],
        output_names=["logits", "present"],
        dynamic_axes={
            "input_ids": {0: "N", 1: "S"},
            "attention_mask": {0: "N", 1: "T"},
            "past": {0: "N", 3: "P"},
            "logits": {0: "N", 1: "S"},
            "present": {0: "N", 3: "T"},
        },
        opset_version=OPSET,
        dynamo=False,
    )


def describe(path: Path, size: Size) -> dict[str, Any]:
    """What a benchmark needs to know of the model."""
    data = path.read_bytes()
    cache = {"dtype": "float32", "shape": [2 * size.layers, size.heads, -1, size.head_width]}
    return {
        "name": "gptj_tiny",
        "file": path.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "precision": "fp32",
        "inputs": [
            {"name": "input_ids", "dtype": "int64", "shape": [-1]},
            {"name": "attention_mask", "dtype": "int64", "shape": [-1]},
            {"name": "past", **cache},
        ],
        "outputs": [
            {"name": "logits", "dtype": "float32", "shape": [-1, size.vocabulary]},
            {"name": "present", **cache},
        ],
        "options": {
            "beam_width": 4,
            "min_new_tokens": 12,
            "max_new_tokens": 36,
            "eos_token_id": 1,
            "pad_token_id": 0,
            "largest_prompt": size.context - 36,
        },
    }


def held_out_figures(facts: dict[str, Any], out: Path, held_out: Path) -> dict[str, float]:
    """ROUGE and the number of tokens, found by the benchmark itself with ONNX Runtime."""
    from mlperf_harness import benchmarks, records
    from mlperf_harness.backends import create as create_backend
    from mlperf_harness.pipeline.inference import solvers
    from mlperf_harness.settings import ModelSpec, Shape

    keys = ("name", "sha256", "precision", "inputs", "outputs", "options")
    accuracy = {"metric": "ROUGE-1", "unit": "", "reference": 0, "target": 0}
    plain = {**{key: facts[key] for key in keys}, "path": str(out / facts["file"])}
    model = records.decode(ModelSpec, {**plain, "accuracy": accuracy})
    # All samples that a run has: the number of tokens is counted over them.
    benchmark = benchmarks.create("gptj-99", held_out, model)
    backend = create_backend("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, model, benchmark, Shape(1, 1, BATCH))
    own = json.loads((held_out / "dataset.json").read_text(encoding="utf-8"))["count"]
    benchmark.load(list(range(own)))
    answers: list[bytes] = []
    for begin in range(0, own, BATCH):
        part = list(range(begin, min(begin + BATCH, own)))
        results, sizes = benchmark.result.rows(len(part)), np.zeros(len(part), np.int64)
        solver.solve(part, results, sizes)
        answers += [row.tobytes()[:size] for row, size in zip(results, sizes, strict=True)]
    everything = np.arange(benchmark.sample_count)
    figure = benchmark.accuracy([answers[k % own] for k in everything.tolist()], everything)
    return dict(figure.further)


def accuracy_of(figures: dict[str, float]) -> dict[str, Any]:
    """The bounds that model.json states: those of the rules, on the figures of this model."""

    def bound(metric: str, unit: str, share: float) -> dict[str, Any]:
        value = figures[metric]
        target = round(value * share, 4)
        return {"metric": metric, "unit": unit, "reference": value, "target": target}

    return {
        **bound("ROUGE-1", "", TARGET_SHARE),
        "further": [
            bound("ROUGE-2", "", TARGET_SHARE),
            bound("ROUGE-L", "", TARGET_SHARE),
            bound("gen_len", "tokens", LEAST_LENGTH_SHARE),
        ],
    }


def main(arguments: list[str] | None = None) -> int:
    """Train as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("--news", "--harness", "--held-out", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    options = parser.parse_args(arguments)
    sys.path[:0] = [str(options.news), str(options.harness)]
    data = json.loads((options.held_out / "dataset.json").read_text(encoding="utf-8"))
    recipe = Recipe(steps=options.steps)
    started = time.monotonic()
    network = train(data["vocabulary"], recipe)
    export(network, options.out / FILE)
    facts = describe(options.out / FILE, network.size)
    figures = held_out_figures(facts, options.out, options.held_out)
    seconds = round(time.monotonic() - started, 1)
    facts["accuracy"] = accuracy_of(figures)
    facts["training"] = {
        "split": "made with other seeds; nothing was tuned on the held-out part",
        "held_out": {
            "name": data["name"],
            "prompts": data["count"],
            **data["files"]["prompts.npy"],
        },
        "recipe": asdict(recipe),
        "seconds": seconds,
        "made_with": {
            "torch": torch.__version__,
            "onnx": onnx.__version__,
            "onnxruntime": onnxruntime.__version__,
            "numpy": np.__version__,
        },
    }
    text = json.dumps(facts, indent=2) + "\n"
    (options.out / "model.json").write_text(text, encoding="utf-8")
    print(f"held-out {figures}, {facts['bytes']} bytes, {seconds} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
