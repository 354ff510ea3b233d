"""Train the tiny BERT on made-up facts, export it, and judge it on the held-out questions.

Everything it learns from comes out of the generator of the data set script, with seeds of its own;
the held-out features are read once, after the last step, to state the accuracy.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from network import TinyBert
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

MODEL_FILE = "bert_tiny.onnx"
INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("output_start_logits", "output_end_logits")
TARGET_SHARE = 0.99
# The first seed of the generator; no part of the data set uses any near it.
FIRST_SEED = 1_000


@dataclass(frozen=True, slots=True)
class Recipe:
    """How it is trained."""

    seed: int = 1
    steps: int = 700
    batch: int = 32
    peak_rate: float = 4e-3
    weight_decay: float = 0.01
    longest: int = 170
    contexts: int = 300
    questions: int = 6


@dataclass(frozen=True, slots=True)
class Sample:
    """Token numbers, segments, and the first and last token of the answer."""

    ids: list[int]
    segments: list[int]
    first: int
    last: int


def encode(context: str, asked: dict[str, Any], vocabulary: dict[str, int], pieces: Any) -> Sample:
    """A question and its whole context, and where the answer is."""
    answer = asked["answers"][0]
    begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    question = [vocabulary[token.text] for token in pieces.tokenize(asked["question"], vocabulary)]
    tokens = pieces.tokenize(context, vocabulary)
    offset = len(question) + 2
    first = next(k for k, token in enumerate(tokens) if token.start == begin)
    last = next(k for k, token in enumerate(tokens) if token.end == end)
    separator = vocabulary["[SEP]"]
    ids = [vocabulary["[CLS]"], *question, separator]
    ids += [*(vocabulary[token.text] for token in tokens), separator]
    segments = [0] * offset + [1] * (len(tokens) + 1)
    return Sample(ids, segments, first + offset, last + offset)


def batches(recipe: Recipe, vocabulary: dict[str, int], makes: Any, pieces: Any) -> Iterator[Any]:
    """Batches of samples of about one length, without end and without a repetition."""
    shuffler = random.Random(recipe.seed)
    seed = FIRST_SEED
    while True:
        part = makes.part("train", recipe.contexts, seed, recipe.questions)
        seed += 1
        samples = [
            encode(paragraph["context"], asked, vocabulary, pieces)
            for paragraph in part["data"][0]["paragraphs"]
            for asked in paragraph["qas"]
        ]
        kept = sorted(
            (sample for sample in samples if len(sample.ids) <= recipe.longest),
            key=lambda sample: len(sample.ids),
        )
        starts = list(range(0, len(kept) - recipe.batch + 1, recipe.batch))
        shuffler.shuffle(starts)
        for start in starts:
            yield tensors(kept[start : start + recipe.batch])


def tensors(samples: Sequence[Sample]) -> tuple[torch.Tensor, ...]:
    """ids, mask, segments [n, longest] and first, last [n]."""
    longest = max(len(sample.ids) for sample in samples)

    def padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor([[*row, *([0] * (longest - len(row)))] for row in rows])

    return (
        padded([sample.ids for sample in samples]),
        padded([[1] * len(sample.ids) for sample in samples]),
        padded([sample.segments for sample in samples]),
        torch.tensor([sample.first for sample in samples]),
        torch.tensor([sample.last for sample in samples]),
    )


def train(recipe: Recipe, vocabulary: dict[str, int], makes: Any, pieces: Any) -> TinyBert:
    """A network after all steps of the recipe."""
    torch.manual_seed(recipe.seed)
    network = TinyBert(len(vocabulary))
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.peak_rate, recipe.steps)
    source = batches(recipe, vocabulary, makes, pieces)
    for step in range(1, recipe.steps + 1):
        ids, mask, segments, first, last = next(source)
        starts, ends = network(ids, mask, segments)
        loss = functional.cross_entropy(starts, first) + functional.cross_entropy(ends, last)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step} of {recipe.steps}: loss {loss.item():.3f}", flush=True)
    network.eval()
    return network


def export(network: TinyBert, path: Path) -> None:
    """Write the network as ONNX, its weights kept as float16 and widened when it is opened."""
    example = tuple(torch.ones((2, 16), dtype=torch.int64) for _ in INPUTS)
    axes = {name: {0: "batch", 1: "tokens"} for name in (*INPUTS, *OUTPUTS)}
    torch.onnx.export(
        network,
        example,
        str(path),
        input_names=list(INPUTS),
        output_names=list(OUTPUTS),
        dynamic_axes=axes,
        opset_version=17,
        dynamo=False,
    )
    model = onnx.load(path)
    halve(model)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def halve(model: Any) -> None:
    """Store float32 weights of some size as float16 with a Cast behind each."""
    graph = model.graph
    casts = []
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.size < 128:
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), f"{name}_half"))
        casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    for cast in reversed(casts):
        graph.node.insert(0, cast)


def judge(path: Path, dataset: Path, harness: Path) -> tuple[float, float]:
    """Exact match and F1 in percent of the exported model, scored as the benchmark does it."""
    sys.path.insert(0, str(harness))
    squad: Any = importlib.import_module("mlperf_harness.benchmarks.squad")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    arrays = [np.load(dataset / f"{name}.npy") for name in INPUTS]
    lengths = np.load(dataset / "lengths.npy")
    logits = []
    for row, length in enumerate(lengths):
        fed = {
            name: array[row : row + 1, :length] for name, array in zip(INPUTS, arrays, strict=True)
        }
        found = session.run(list(OUTPUTS), fed)
        whole = np.full((arrays[0].shape[1], 2), -1e4, dtype=np.float32)
        whole[:length] = np.stack([found[0][0], found[1][0]], axis=1)
        logits.append(whole)
    examples = squad.read_examples(dataset)
    rows = list(range(len(lengths)))
    spans = squad.Spans.read(dataset)
    exact, f1 = squad.score(squad.answers(iter(logits), rows, spans, examples), examples)
    return exact, f1


def describe(path: Path, figures: tuple[float, float], recipe: Recipe, seconds: float) -> Any:
    """What model.json says: first what a benchmark needs, then how the model came about."""
    data = path.read_bytes()
    exact, f1 = figures
    return {
        "name": "bert_tiny",
        "file": MODEL_FILE,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "precision": "fp32",
        "inputs": [{"name": name, "dtype": "int64", "shape": [-1]} for name in INPUTS],
        "outputs": [{"name": name, "dtype": "float32", "shape": [-1]} for name in OUTPUTS],
        "accuracy": {
            "metric": "F1",
            "unit": "%",
            "reference": round(f1, 4),
            "target": round(f1 * TARGET_SHARE, 4),
        },
        "training": {
            "split": "people and facts of the held-out part are in no training context",
            "held_out": {"exact_match": round(exact, 4), "f1": round(f1, 4)},
            "recipe": asdict(recipe),
            "seconds": round(seconds, 1),
            "made_with": {
                "torch": torch.__version__,
                "onnx": onnx.__version__,
                "onnxruntime": onnxruntime.__version__,
                "numpy": np.__version__,
            },
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, export, judge, and write the model and model.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=Path, required=True, help="folder of all scripts")
    parser.add_argument("--vocab", type=Path, required=True, help="vocabulary")
    parser.add_argument("--dataset", type=Path, required=True, help="held-out features")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--steps", type=int, default=Recipe().steps, help="training steps")
    options = parser.parse_args(arguments)
    scripts: Path = options.scripts
    for name in ("get-dataset-squad", "get-preprocessed-dataset-squad"):
        sys.path.insert(0, str(scripts / name / "src"))
    make_facts: Any = importlib.import_module("make_facts")
    wordpiece: Any = importlib.import_module("wordpiece")
    began = time.monotonic()
    recipe = Recipe(steps=options.steps)
    network = train(recipe, wordpiece.read_vocabulary(options.vocab), make_facts, wordpiece)
    seconds = time.monotonic() - began
    path: Path = options.out / MODEL_FILE
    export(network, path)
    figures = judge(path, options.dataset, scripts / "app-mlperf-inference" / "src")
    facts = describe(path, figures, recipe, seconds)
    (options.out / "model.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"exact match {figures[0]:.2f} %, F1 {figures[1]:.2f} %, {facts['bytes']} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
