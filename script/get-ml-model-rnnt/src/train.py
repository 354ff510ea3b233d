"""Train the tiny transducer on utterances spelled in tones and write it as two ONNX graphs.

    train.py --speech DIR --harness DIR --held-out DIR --out DIR

``--speech`` is the folder of tones.py, which makes training utterances with seeds of its own;
``--harness`` that of the benchmark harness, whose features and decoding are used, so that the
figure is the one that the benchmark finds. The held-out set serves only for that figure.
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
from network import LABELS, Encoder, Size, Step, transducer_loss
from torch import Tensor

TRAINING_SEED = 500
TARGET_SHARE = 0.99
OPSET = 17


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the result apart from the data and the versions."""

    seed: int = 1
    utterances: int = 6000
    steps: int = 500
    batch: int = 32
    peak_rate: float = 0.006
    weight_decay: float = 0.01


def training_set(count: int) -> list[tuple[Tensor, Tensor]]:
    """Features and letters of freshly made utterances, the short ones first."""
    import tones
    from mlperf_harness.benchmarks.features import Extractor, FeatureSpec

    extractor = Extractor(FeatureSpec())
    found = []
    for utterance in tones.utterances(count, TRAINING_SEED):
        letters = [LABELS.index(letter) for letter in utterance.text]
        features = torch.from_numpy(extractor.features(utterance.samples))
        found.append((features, torch.tensor(letters)))
    return sorted(found, key=lambda pair: len(pair[0]))


def loss_of(encoder: Encoder, step: Step, batch: list[tuple[Tensor, Tensor]]) -> Tensor:
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


def train(recipe: Recipe) -> tuple[Encoder, Step]:
    """Train in one thread; batches hold utterances of about one length."""
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    random = np.random.default_rng(recipe.seed)
    encoder, step = Encoder(Size()), Step(Size())
    data = training_set(recipe.utterances)
    weights = [*encoder.parameters(), *step.parameters()]
    optimizer = torch.optim.AdamW(weights, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.peak_rate, recipe.steps)
    for number in range(recipe.steps):
        begin = int(random.integers(0, len(data) - recipe.batch + 1))
        loss = loss_of(encoder, step, data[begin : begin + recipe.batch])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 5.0)
        optimizer.step()
        schedule.step()
        if number % 100 == 99:
            print(f"step {number + 1}: loss {loss.item():.4f}", flush=True)
    return encoder.eval(), step.eval()


def export(encoder: Encoder, step: Step, out: Path) -> None:
    """Write both graphs."""
    size, batch = step.size, {0: "N"}
    torch.onnx.export(
        encoder,
        (torch.zeros(2, 9, size.features),),
        str(out / "rnnt_tiny_encoder.onnx"),
        input_names=["features"],
        output_names=["states"],
        dynamic_axes={"features": {0: "N", 1: "T"}, "states": {0: "N", 1: "T"}},
        opset_version=OPSET,
        dynamo=False,
    )
    names = ["scores", "new_hidden", "new_cell"]
    states = torch.zeros(2, size.prediction)
    torch.onnx.export(
        step,
        (torch.zeros(2, size.joint), torch.zeros(2, dtype=torch.int64), states, states),
        str(out / "rnnt_tiny_step.onnx"),
        input_names=["state", "letter", "hidden", "cell"],
        output_names=names,
        dynamic_axes=dict.fromkeys(["state", "letter", "hidden", "cell", *names], batch),
        opset_version=OPSET,
        dynamo=False,
    )


def _tensor(name: str, *shape: int, dtype: str = "float32") -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def graph_facts(name: str, path: Path) -> dict[str, Any]:
    """How model.json names a file."""
    data = path.read_bytes()
    facts = {"file": path.name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    return {"name": name, **facts}


def describe(out: Path) -> dict[str, Any]:
    """What a benchmark needs to know of the graphs."""
    size = Size()
    states = (_tensor("hidden", size.prediction), _tensor("cell", size.prediction))
    step = {
        **graph_facts("step", out / "rnnt_tiny_step.onnx"),
        "inputs": [_tensor("state", size.joint), _tensor("letter", dtype="int64"), *states],
        "outputs": [
            _tensor("scores", len(LABELS) + 1),
            _tensor("new_hidden", size.prediction),
            _tensor("new_cell", size.prediction),
        ],
    }
    return {
        **graph_facts("rnnt_tiny", out / "rnnt_tiny_encoder.onnx"),
        "precision": "fp32",
        "inputs": [_tensor("features", -1, size.features)],
        "outputs": [_tensor("states", -1, size.joint)],
        "parts": [step],
        "options": {"labels": LABELS, "blank": len(LABELS), "most_letters_per_frame": 30},
    }


def held_out_accuracy(facts: dict[str, Any], out: Path, held_out: Path) -> float:
    """100 - WER in percent, found by the benchmark itself with ONNX Runtime."""
    from mlperf_harness import records
    from mlperf_harness.backends import create as create_backend
    from mlperf_harness.benchmarks import speech
    from mlperf_harness.benchmarks.base import rules_of
    from mlperf_harness.pipeline.inference import solvers
    from mlperf_harness.settings import ModelSpec, Shape

    accuracy = {"metric": "word accuracy", "unit": "%", "reference": 0, "target": 0}
    keys = ("name", "sha256", "precision", "inputs", "outputs", "options")
    parts = [{**part, "path": str(out / part["file"])} for part in facts["parts"]]
    for part in parts:
        del part["file"], part["bytes"]
    plain = {**{key: facts[key] for key in keys}, "path": str(out / facts["file"])}
    model = records.decode(ModelSpec, {**plain, "parts": parts, "accuracy": accuracy})
    benchmark = speech.SpeechRecognition(held_out, model, rules_of("rnnt"))
    (solver,) = solvers(
        create_backend("onnxruntime", "cpu", "float32"), model, benchmark, Shape(1, 1, 32)
    )
    everything = np.arange(benchmark.sample_count)
    benchmark.load(everything.tolist())
    answers: list[bytes] = []
    for begin in range(0, len(everything), 32):
        part_of = everything[begin : begin + 32]
        results, sizes = benchmark.result.rows(len(part_of)), np.zeros(len(part_of), np.int64)
        solver.solve(part_of, results, sizes)
        answers += [row.tobytes()[:size] for row, size in zip(results, sizes, strict=True)]
    return benchmark.accuracy(answers, everything).value


def main(arguments: list[str] | None = None) -> int:
    """Train as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("--speech", "--harness", "--held-out", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    options = parser.parse_args(arguments)
    sys.path[:0] = [str(options.speech), str(options.harness)]
    recipe = Recipe(steps=options.steps)
    started = time.monotonic()
    export(*train(recipe), options.out)
    facts = describe(options.out)
    value = held_out_accuracy(facts, options.out, options.held_out)
    seconds = round(time.monotonic() - started, 1)
    data = json.loads((options.held_out / "dataset.json").read_text(encoding="utf-8"))
    facts["accuracy"] = {
        "metric": "word accuracy",
        "unit": "%",
        "reference": round(value, 4),
        "target": round(value * TARGET_SHARE, 4),
    }
    facts["training"] = {
        "split": "made with other seeds; nothing was tuned on the held-out part",
        "held_out": {
            "name": data["name"],
            "utterances": data["count"],
            **data["files"]["samples.npy"],
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
    print(f"held-out word accuracy {value:.2f} %, {seconds} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
