"""The registered benchmarks; a new one is one module and one line here."""

from __future__ import annotations

from pathlib import Path

from ..errors import HarnessError
from ..records import read_json
from ..settings import ModelSpec
from .base import Benchmark
from .image_classification import RESNET50, ImageClassification
from .repeated import Repeated

BENCHMARKS = {"resnet50": (ImageClassification, RESNET50)}


def create(name: str, dataset: Path, model: ModelSpec) -> Benchmark:
    """The benchmark ``name`` on the preprocessed ``dataset``; HarnessError when they do not fit.

    A data set whose facts name a ``qsl_count`` is repeated until it has that many samples.
    """
    if name not in BENCHMARKS:
        raise HarnessError(f"no benchmark {name}; there are: {', '.join(BENCHMARKS)}")
    make, rules = BENCHMARKS[name]
    benchmark: Benchmark = make(dataset, model, rules)
    count = read_json(dataset / "dataset.json").get("qsl_count", benchmark.sample_count)
    if count == benchmark.sample_count:
        return benchmark
    return Repeated(benchmark, count)
