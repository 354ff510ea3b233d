"""Hugging Face's transformers as a backend: the oracle answers as it says of itself."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
from mlperf import catalog
from mlperf.catalog import CatalogError, run_inputs
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.causal_lm import of_one_length
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.settings import GraphSpec, ModelSpec, WorkerShape

TINY = forms.SCRIPT / "get-ml-model-llama3" / "tiny"
HAS_ENGINE = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
needs_engine = pytest.mark.skipif(not HAS_ENGINE, reason="transformers needs PyTorch")


def model() -> ModelSpec:
    facts = json.loads((TINY / "model-pytorch.json").read_text())
    keys = ("name", "sha256", "precision", "inputs", "outputs", "accuracy", "options")
    plain: dict[str, Any] = {key: facts[key] for key in keys}
    return records.decode(ModelSpec, {**plain, "path": str(TINY / facts["file"])})


def test_prompts_of_one_length_go_together() -> None:
    prompts = [np.zeros(length, np.int64) for length in (3, 5, 3, 4, 5)]
    assert list(of_one_length(prompts)) == [[0, 2], [1, 4], [3]]
    assert list(of_one_length([])) == []


def test_it_opens_a_folder_in_hugging_faces_layout_and_only_language_models() -> None:
    spec = catalog.backend("transformers")
    assert (spec.model_tag, spec.generates) == ("_pytorch", True)
    env = {"CM_MLPERF_MODEL": "resnet50", "CM_MLPERF_BACKEND": "transformers"}
    with pytest.raises(CatalogError, match="generates tokens, and nothing else"):
        run_inputs.backend(env)


@needs_engine
def test_every_answer_is_the_oracles_and_begins_with_its_first_token() -> None:
    benchmark = benchmarks.create("llama3.1-8b", forms.llama3_articles(), model())
    backend = backends.create("transformers", "cpu", "float32")
    (solver,) = solvers(backend, model(), benchmark, WorkerShape(1, 1, 32))
    answers = forms.answers(benchmark, solver, 32)
    figure = benchmark.accuracy(answers, np.arange(benchmark.sample_count))
    assert figure.oracle == (400, 400)
    assert figure.value == pytest.approx(model().accuracy.reference, abs=0.01)


@needs_engine
def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    backend = backends.create("transformers", "cpu", "float32")
    graph = GraphSpec("main", str(tmp_path / "model.safetensors"), "", (), ())
    with pytest.raises(HarnessError, match=r"has no config\.json"):
        backend.open(graph, ("tokens",), 1, 1)
    (tmp_path / "config.json").write_text('{"model_type": "none"}')
    with pytest.raises(HarnessError, match="transformers cannot open"):
        backend.open(graph, ("tokens",), 1, 1)
