"""The figure of a model, found by the benchmark's own code with ONNX Runtime on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.settings import ModelSpec, WorkerShape
from modelzoo.files import read_facts

KEYS = ("name", "sha256", "precision", "inputs", "outputs", "options")


def figure_of(
    name: str,
    facts: Mapping[str, Any],
    folder: Path,
    dataset: Path,
    *,
    batch: int = 1,
    repeated: bool = False,
) -> Any:
    """What the benchmark ``name`` says of the model in ``folder`` on all samples of ``dataset``.

    ``facts`` are those of model.json. A sample counts once or, if ``repeated`` is set, as often as
    a run repeats it.
    """
    spec = spec_of(facts, folder)
    benchmark = benchmarks.create(name, dataset, spec)
    backend = backends.create("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, spec, benchmark, WorkerShape(1, 1, batch))
    own = read_facts(dataset)["count"]
    benchmark.load(list(range(own)))
    answers: list[bytes] = []
    for begin in range(0, own, batch):
        part = list(range(begin, min(begin + batch, own)))
        rows, sizes = benchmark.result.rows(len(part)), np.zeros(len(part), np.int64)
        solver.solve(part, rows, sizes)
        answers += [row.tobytes()[:size] for row, size in zip(rows, sizes, strict=True)]
    everything = np.arange(benchmark.sample_count if repeated else own)
    return benchmark.accuracy([answers[k % own] for k in everything.tolist()], everything)


def spec_of(facts: Mapping[str, Any], folder: Path) -> ModelSpec:
    """Return the description of the model in ``folder`` that a benchmark takes."""
    parts: Sequence[Mapping[str, Any]] = facts.get("parts", ())
    keys = ("name", "sha256", "inputs", "outputs")
    plain = {
        **{key: facts[key] for key in KEYS},
        "path": str(folder / facts["file"]),
        "parts": [
            {**{key: part[key] for key in keys}, "path": str(folder / part["file"])}
            for part in parts
        ],
        "accuracy": {"metric": "", "unit": "", "reference": 0, "target": 0},
    }
    spec: ModelSpec = records.decode(ModelSpec, plain)
    return spec
