"""Train the tiny BERT on made-up facts, export it, and judge it on the held-out questions.

Everything it learns from comes out of the generator of the data set script, with seeds of its own;
the held-out features are read once, after the last step, to state the accuracy.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor
from torch.nn import functional

from mlperf.harness.benchmarks import squad
from modelzoo import graph, models, program, training
from modelzoo.bert.network import TinyBert
from modelzoo.datasets.squad import make_facts
from modelzoo.preprocessing.squad import wordpiece

MODEL_FILE = "bert_tiny.onnx"
INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("output_start_logits", "output_end_logits")
# The first seed of the generator; no part of the data set uses any near it.
FIRST_SEED = 1_000


@dataclass(frozen=True, slots=True)
class BertRecipe:
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
class EncodedQuestion:
    """Token numbers, segments, and the first and last token of the answer."""

    ids: list[int]
    segments: list[int]
    first: int
    last: int


def encode(
    context: str, question_entry: dict[str, Any], vocabulary: Mapping[str, int]
) -> EncodedQuestion:
    """A question and its whole context, and where the answer is."""
    answer = question_entry["answers"][0]
    begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    question = [
        vocabulary[token.text]
        for token in wordpiece.tokenize(question_entry["question"], vocabulary)
    ]
    tokens = wordpiece.tokenize(context, vocabulary)
    offset = len(question) + 2
    first = next(k for k, token in enumerate(tokens) if token.start == begin)
    last = next(k for k, token in enumerate(tokens) if token.end == end)
    separator = vocabulary["[SEP]"]
    ids = [vocabulary["[CLS]"], *question, separator]
    ids += [*(vocabulary[token.text] for token in tokens), separator]
    segments = [0] * offset + [1] * (len(tokens) + 1)
    return EncodedQuestion(ids, segments, first + offset, last + offset)


def batches(recipe: BertRecipe, vocabulary: Mapping[str, int]) -> Iterator[tuple[Tensor, ...]]:
    """Batches of samples of about one length, without end and without a repetition."""
    shuffler = random.Random(recipe.seed)
    seed = FIRST_SEED
    while True:
        part = make_facts.part("train", recipe.contexts, seed, recipe.questions)
        seed += 1
        samples = [
            encode(paragraph["context"], question_entry, vocabulary)
            for paragraph in part["data"][0]["paragraphs"]
            for question_entry in paragraph["qas"]
        ]
        short_samples = sorted(
            (sample for sample in samples if len(sample.ids) <= recipe.longest),
            key=lambda sample: len(sample.ids),
        )
        starts = list(range(0, len(short_samples) - recipe.batch + 1, recipe.batch))
        shuffler.shuffle(starts)
        for start in starts:
            yield tensors(short_samples[start : start + recipe.batch])


def tensors(samples: Sequence[EncodedQuestion]) -> tuple[Tensor, ...]:
    """ids, mask, segments [n, longest] and first, last [n]."""
    longest = max(len(sample.ids) for sample in samples)

    def padded(rows: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor([[*row, *([0] * (longest - len(row)))] for row in rows])

    return (
        padded([sample.ids for sample in samples]),
        padded([[1] * len(sample.ids) for sample in samples]),
        padded([sample.segments for sample in samples]),
        torch.tensor([sample.first for sample in samples]),
        torch.tensor([sample.last for sample in samples]),
    )


def train(recipe: BertRecipe, vocabulary: Mapping[str, int]) -> TinyBert:
    """A network after all steps of the recipe."""
    torch.manual_seed(recipe.seed)
    network = TinyBert(len(vocabulary))

    def loss_of(batch: tuple[Tensor, ...]) -> Tensor:
        ids, mask, segments, first, last = batch
        starts, ends = network(ids, mask, segments)
        return functional.cross_entropy(starts, first) + functional.cross_entropy(ends, last)

    losses = map(loss_of, batches(recipe, vocabulary))
    training.fit(network.parameters(), losses, recipe, recipe.steps, clip=1.0, say_every=50)
    network.eval()
    return network


def export(network: TinyBert, path: Path) -> None:
    """Write the network as ONNX, its weights kept as float16 and widened when it is opened."""
    example = [torch.ones((2, 16), dtype=torch.int64) for _ in INPUTS]
    axes = {0: "batch", 1: "tokens"}
    training.export(
        network, example, path, dict.fromkeys(INPUTS, axes), dict.fromkeys(OUTPUTS, axes)
    )
    model = onnx.load(path)
    halve(model)
    onnx.save(graph.checked(model), path)


def halve(model: Any) -> None:
    """Store large float32 weights as float16 followed by a Cast."""
    casts = []
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.size < 128:
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), f"{name}_half"))
        casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    for cast in reversed(casts):
        model.graph.node.insert(0, cast)


def judge(path: Path, dataset: Path) -> tuple[float, float]:
    """Exact match and F1 in percent of the exported model, scored as the benchmark does it."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    arrays = [np.load(dataset / f"{name}.npy") for name in INPUTS]
    lengths = np.load(dataset / "lengths.npy")
    logits = []
    for row, length in enumerate(lengths):
        feeds = {
            name: array[row : row + 1, :length] for name, array in zip(INPUTS, arrays, strict=True)
        }
        outputs = session.run(list(OUTPUTS), feeds)
        whole = np.full((arrays[0].shape[1], 2), -1e4, dtype=np.float32)
        whole[:length] = np.stack([outputs[0][0], outputs[1][0]], axis=1)
        logits.append(whole)
    examples = squad.read_examples(dataset)
    rows = list(range(len(lengths)))
    spans = squad.Spans.read(dataset)
    exact, f1 = squad.score(squad.answers(iter(logits), rows, spans, examples), examples)
    return exact, f1


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, export, judge, and write the model and model.json."""
    parser = program.parser(__doc__)
    parser.add_argument("--vocab", type=Path, required=True, help="vocabulary")
    parser.add_argument("--held-out", type=Path, required=True, help="held-out features")
    parser.add_argument("--steps", type=int, default=BertRecipe().steps, help="training steps")
    options = parser.parse_args(arguments)
    watch, recipe = training.Stopwatch(), BertRecipe(steps=options.steps)
    network = train(recipe, wordpiece.read_vocabulary(options.vocab))
    seconds, path = watch.seconds, options.out / MODEL_FILE
    export(network, path)
    exact, f1 = judge(path, options.held_out)
    figures = {"exact_match": round(exact, 4), "f1": round(f1, 4)}
    split = "people and facts of the held-out part are in no training context"
    facts = {
        "name": "bert_tiny",
        **models.graph_facts(path),
        "precision": "fp32",
        "inputs": models.tensors(INPUTS, -1, dtype="int64"),
        "outputs": models.tensors(OUTPUTS, -1),
        "accuracy": models.accuracy("F1", "%", f1),
        "training": training.about(recipe, seconds, split=split, held_out=figures),
    }
    training.say(models.write_facts(options.out, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
