"""The registered benchmarks; a new one is one module and one line here."""

from __future__ import annotations

from pathlib import Path

from ..errors import HarnessError
from ..settings import ModelSpec
from .base import Benchmark
from .image_classification import RESNET50, ImageClassification

BENCHMARKS = {"resnet50": (ImageClassification, RESNET50)}


def create(name: str, dataset: Path, model: ModelSpec) -> Benchmark:
    """The benchmark ``name`` on the preprocessed ``dataset``; HarnessError when they do not fit."""
    if name not in BENCHMARKS:
        raise HarnessError(f"no benchmark {name}; there are: {', '.join(BENCHMARKS)}")
    make, rules = BENCHMARKS[name]
    return make(dataset, model, rules)
