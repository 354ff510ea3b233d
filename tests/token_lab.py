"""A small benchmark of generated tokens for tests: data, a model, and plugins that run it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

COUNT, MOST, VOCABULARY = 120, 24, 64
# A benchmark that LoadGen knows, one of a stream, and one that its rules lack.
SPECS = """
from dataclasses import replace
from mlperf.catalog.benchmark_specs import llama3_1_8b
from mlperf.catalog import BackendSpec

RUNS = {"module": "text_generation:TextGeneration", "generates": True, "unavailable": ""}
DATACENTER, EDGE = (replace(spec, **RUNS) for spec in llama3_1_8b.SPECS)
SPECS = [
    DATACENTER,
    EDGE,
    replace(DATACENTER, name="new-words", loadgen_key="new-words", known_to_loadgen=False),
    BackendSpec(name="scripted", title="a scripted engine", module="scripted:Scripted",
                generates=True),
]
"""
# An engine that does what the model's option ``engine`` says; by default it counts up from the
# last token of the prompt.
ENGINE = """
import time
import numpy as np
from mlperf.harness.backends.base import Backend
from mlperf.harness.backends.generation import TokenGenerator
from mlperf.harness.errors import HarnessError
from pathlib import Path


class Engine(TokenGenerator):
    def __init__(self, acts):
        self.acts = acts

    def generate(self, prompts, stream):
        for row, prompt in enumerate(prompts):
            answer = (prompt[-1] + 1 + np.arange(6)) % 60 + 2
            if self.acts == "dies":
                raise HarnessError("the engine has died")
            if self.acts == "dies half way" and row == len(prompts) - 1:
                stream.begin([row], answer[:1])
                raise HarnessError("the engine has died half way")
            if self.acts != "is silent":
                stream.begin([row], answer[:1])
            if self.acts == "begins twice":
                stream.begin([row], answer[:1])
            if self.acts == "is slow":
                time.sleep(0.2)
            if self.acts == "forgets":
                continue
            length = {"one token": 1, "no token": 0, "too many": 99}.get(self.acts, 6)
            stream.end(row, np.resize(answer, length))


class Scripted(Backend):
    largest_batch = 4

    def open(self, graph, outputs, workers, threads):
        acts = Path(graph.path).read_text()
        return [Engine(acts) for _ in range(workers)]

    def versions(self):
        return {"scripted": "1"}
"""


def plugins(folder: Path) -> Path:
    """Write the plugins of these tests, and return their folder."""
    folder.mkdir(parents=True)
    (folder / "token_spec.py").write_text(SPECS, encoding="utf-8")
    (folder / "scripted.py").write_text(ENGINE, encoding="utf-8")
    return folder


def dataset(folder: Path, count: int = COUNT) -> Path:
    """Write prompts of 3 to 9 tokens; token ``t`` spells the letter number ``t``."""
    folder.mkdir(parents=True)
    lengths = 3 + np.arange(count) % 7
    tokens = np.arange(lengths.sum()) % 50 + 2
    np.save(folder / "prompts.npy", tokens.astype(np.int32))
    np.save(folder / "offsets.npy", np.cumsum([0, *lengths]).astype(np.int64))
    texts: Mapping[str, Any] = {
        "dataset.json": {"name": "letters", "count": count},
        "references.json": ["some words to find"] * count,
        "pieces.json": [chr(32 + token) for token in range(VOCABULARY)],
    }
    for name, value in texts.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


def answer(sample: int) -> np.ndarray:
    """What the scripted engine answers."""
    end = int(np.sum(3 + np.arange(sample + 1) % 7))
    return np.asarray(((end - 1) % 50 + 3 + np.arange(6)) % 60 + 2, np.int64)


def ends(answers: Sequence[np.ndarray]) -> np.ndarray:
    """Where answers begin and end that are written one after the other."""
    return np.cumsum([0, *map(len, answers)])


def model(folder: Path, acts: str = "", **options: Any) -> dict[str, Any]:
    """A model of the scripted engine, which ``acts`` as its file says."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.txt"
    path.write_text(acts, encoding="utf-8")
    return {
        "name": "letters",
        "path": str(path),
        "sha256": hashlib.sha256(acts.encode()).hexdigest(),
        "precision": "fp32",
        "inputs": [{"name": "input_ids", "dtype": "int32", "shape": [-1]}],
        "outputs": [{"name": "tokens", "dtype": "int64", "shape": [-1]}],
        "accuracy": {"metric": "ROUGE-1", "unit": "", "reference": 0.0, "target": 0.0},
        "options": {
            "max_new_tokens": MOST,
            "stop_token_ids": [1],
            "end_token": 1,
            "token_dtype": "int64",
            "vocabulary": VOCABULARY,
            "context": 64,
            **options,
        },
    }
