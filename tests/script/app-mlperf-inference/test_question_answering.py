"""Answers out of logits by SQuAD's rules, and the tiny BERT through real LoadGen."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmark_forms as forms
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.benchmarks import squad
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.queue import CutQueue
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import MAIN, ModelSpec, SessionSettings

MODEL = forms.SCRIPT / "get-ml-model-bert-large-squad" / "tiny"
FACTS = json.loads((MODEL / "model.json").read_text(encoding="utf-8"))


def benchmark() -> Any:
    spec = records.decode(ModelSpec, forms.model(MODEL))
    return benchmarks.create("bert-99", forms.features(), spec)


def solver(capacity: int) -> tuple[Any, Any]:
    made = benchmark()
    graph = records.decode(ModelSpec, forms.model(MODEL)).graphs()[0]
    (predictor,) = backends.create("onnxruntime", "cpu", "float32").open(
        graph, made.outputs[MAIN], 1, 1
    )
    return made, made.solver({MAIN: predictor}, capacity)


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("found", "right", "exact", "share"),
    [
        ("The Cat", "cat", True, 1.0),
        ("a cat!", "the cat", True, 1.0),
        ("black cat", "cat", False, 2 / 3),
        ("dog", "cat", False, 0.0),
        ("", "cat", False, 0.0),
        ("cat cat", "cat", False, 2 / 3),
    ],
)
def test_answers_are_compared_by_the_rules(
    found: str, right: str, exact: bool, share: float
) -> None:
    assert (squad.normalize(found) == squad.normalize(right)) is exact
    assert squad.f1(found, right) == pytest.approx(share)


@given(st.text("ab the,.", max_size=20), st.text("ab the,.", max_size=20))
def test_f1_is_that_of_shared_words(left: str, right: str) -> None:
    ours, theirs = squad.normalize(left).split(), squad.normalize(right).split()
    shared = sum(min(Counter(ours)[w], Counter(theirs)[w]) for w in set(ours))
    total = len(ours) + len(theirs)
    assert squad.f1(left, right) == pytest.approx(2 * shared / total if shared else 0.0)


def slow_best(logits: Any, starts: Any, ends: Any, central: Any) -> float | None:
    """All pairs, tried one by one, out of the best twenty of either kind."""
    firsts = sorted(range(len(logits)), key=lambda k: (-logits[k, 0], k))[: squad.BEST]
    lasts = sorted(range(len(logits)), key=lambda k: (-logits[k, 1], k))[: squad.BEST]
    scores = [
        float(logits[a, 0] + logits[b, 1])
        for a in firsts
        for b in lasts
        if starts[a] >= 0 and central[a] and ends[b] >= 0 and 0 <= b - a < squad.LONGEST_ANSWER
    ]
    return max(scores) if scores else None


@given(st.integers(0, 10_000), st.integers(1, 90))
def test_the_best_span_is_the_best_of_all_allowed_pairs(seed: int, tokens: int) -> None:
    random = np.random.default_rng(seed)
    logits = random.normal(size=(tokens, 2)).astype(np.float32)
    real = random.random(tokens) < 0.7
    starts = np.where(real, np.arange(tokens) * 3, -1)
    ends = np.where(real, np.arange(tokens) * 3 + 2, -1)
    central = random.random(tokens) < 0.8
    found = squad.best_span(logits, starts, ends, central)
    expected = slow_best(logits, starts, ends, central)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found[0] == pytest.approx(expected, abs=1e-5)
        assert found[1] < found[2]


# ---------------------------------------------------------------- the tiny model


def test_the_shipped_model_reaches_what_its_facts_say() -> None:
    made, solve = solver(16)
    answers = forms.answers(made, solve, 16)
    figure = made.accuracy(answers, np.arange(made.sample_count))
    assert figure.value == pytest.approx(FACTS["accuracy"]["reference"], abs=0.3)
    assert FACTS["accuracy"]["reference"] > 90
    assert json.loads(figure.line)["f1"] == figure.value
    shuffled = [answers[(k * 7) % len(answers)] for k in range(len(answers))]
    assert made.accuracy(shuffled, np.arange(made.sample_count)).value < 50


def test_a_batch_gives_what_its_samples_give_alone() -> None:
    made, solve = solver(8)
    samples = [3, 50, 7, 411, 600, 1, 2, 9]
    made.load(samples)
    together, alone = made.result.rows(8), made.result.rows(1)
    sizes = np.zeros(8, dtype=np.int64)
    solve.solve(samples, together, sizes)
    for row, sample in enumerate(samples):
        solve.solve([sample], alone, sizes)
        length = made.store.lengths[sample]
        np.testing.assert_allclose(together[row, :length], alone[0, :length], atol=2e-3)
        assert (together[row, length:].max(axis=0) < -9_000).all()


def test_batches_are_padded_to_their_longest_sample_only() -> None:
    made, solve = solver(4)
    order = np.argsort(made.store.lengths)
    made.load(order[:4].tolist())
    fed = solve.inputs.feeds(order[:4])
    width = fed["input_ids"].shape[1]
    assert made.store.lengths[order[3]] <= width < made.store.lengths[order[3]] + 8
    with pytest.raises(IndexError, match="never loaded"):
        solve.inputs.feeds(order[-1:])


def test_offline_takes_long_samples_first() -> None:
    costs = np.array([5, 9, 1, 7])
    queue = CutQueue(2, costs)
    queue.put([10, 11, 12, 13], [0, 1, 2, 3])
    assert [list(queue.next().indices) for _ in range(2)] == [[1, 3], [0, 2]]


def test_an_answer_of_another_size_is_refused() -> None:
    made = benchmark()
    with pytest.raises(HarnessError, match="sample 0 was answered with 4 bytes, not 3072"):
        made.accuracy([b"1234"] * made.sample_count, np.arange(made.sample_count))


def test_through_loadgen(tmp_path: Path) -> None:
    asked = forms.settings(tmp_path, "bert-99", MODEL, forms.features(), "Offline", "SingleStream")
    results = sessions.MeasurementSession(records.decode(SessionSettings, asked)).run()
    for result in results.results:
        assert result.performance_run is not None
        assert result.accuracy_run is not None
        assert result.accuracy_run.reached
