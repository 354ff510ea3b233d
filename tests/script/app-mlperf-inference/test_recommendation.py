"""Recommendation: AUC as scikit-learn has it, groups of every size, and whole short runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from sklearn.metrics import roc_auc_score

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import recommendation
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import ModelSpec, SessionSettings, WorkerShape
from mlperf.harness.tuning import targets

MODELS = forms.SCRIPT / "get-ml-model-dlrm-terabyte" / "tiny"
NAMES = {"v1": "dlrm-99", "v2": "dlrm-v2-99"}


def spec(version: str) -> ModelSpec:
    return records.decode(ModelSpec, forms.model(MODELS / version))


def created(version: str) -> tuple[Any, Any]:
    model = spec(version)
    benchmark = benchmarks.create(NAMES[version], forms.clicks(version), model)
    backend = backends.create("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, model, benchmark, WorkerShape(1, 1, 64))
    return benchmark, solver


@settings(max_examples=60, deadline=None)
@given(
    some.lists(
        some.tuples(some.integers(0, 1), some.integers(0, 12)), min_size=2, max_size=200
    ).filter(lambda pairs: len({label for label, _ in pairs}) == 2)
)
def test_auc_is_scikit_learns_ties_included(pairs: list[tuple[int, int]]) -> None:
    labels, scores = (np.asarray(column, dtype=np.float32) for column in zip(*pairs, strict=True))
    assert recommendation.auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores))


def test_auc_of_clicks_alone_is_refused() -> None:
    with pytest.raises(HarnessError, match="3 clicks and 0 others"):
        recommendation.auc(np.ones(3), np.arange(3.0))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_held_out_auc_is_the_stated_one(version: str) -> None:
    benchmark, solver = created(version)
    figure = benchmark.accuracy(forms.answers(benchmark, solver, 64), np.arange(16135))
    assert figure.value == pytest.approx(spec(version).accuracy.reference, abs=0.002)
    best = json.loads((forms.clicks_day() / "dataset.json").read_text())["best_auc_percent"]
    assert 80 < figure.value < best
    assert figure.line.startswith(f"AUC={figure.value:.3f}%, accuracy=")
    assert figure.line.endswith("total=64000, queries=16135")


def test_an_answer_is_the_same_alone_and_in_any_batch() -> None:
    benchmark, solver = created("v2")
    benchmark.load([5, 3, 900, 5])
    rows, sizes = benchmark.result.rows(3), np.zeros(3, dtype=np.int64)
    solver.solve([900, 5, 3], rows, sizes)
    for place, sample in enumerate([900, 5, 3]):
        row, size = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
        solver.solve([sample], row, size)
        assert size[0] == sizes[place] > 0
        np.testing.assert_allclose(row[0], rows[place], atol=1e-6)
    with pytest.raises(IndexError, match="sample 4 was issued but never loaded"):
        solver.solve([4], rows, sizes)


def test_answers_of_a_wrong_length_or_for_other_pairs_are_refused() -> None:
    benchmark, solver = created("v1")
    found = forms.answers(benchmark, solver, 64)
    with pytest.raises(HarnessError, match="sample 0 was answered with 4 bytes"):
        benchmark.accuracy([found[0][:4], *found[1:]], np.arange(len(found)))
    flipped = bytearray(found[0])
    flipped[4:8] = np.float32(7).tobytes()
    with pytest.raises(HarnessError, match="the logged labels differ"):
        benchmark.accuracy([bytes(flipped), *found[1:]], np.arange(len(found)))


def test_a_model_for_other_arrays_is_refused() -> None:
    with pytest.raises(HarnessError, match=r"the pairs of .* have \[26\]"):
        benchmarks.create("dlrm-v2-99", forms.clicks("v1"), spec("v2"))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_both_scenarios_are_valid_and_reach_the_target(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "initial", lab.relaxed(targets.initial))
    wanted = forms.settings(
        tmp_path,
        NAMES[version],
        MODELS / version,
        forms.clicks(version),
        "Server",
        "Offline",
        attempts=10,
        overrides={"batch_size": 32},
    )
    results = sessions.MeasurementSession(records.decode(SessionSettings, wanted)).run()
    assert [result.scenario for result in results.results] == ["Server", "Offline"]
    for result in results.results:
        assert result.validity == "VALID"
        assert result.accuracy_reached
        text = Path(results.folder) / result.scenario.lower() / "accuracy" / "accuracy.txt"
        assert "AUC=" in text.read_text()
