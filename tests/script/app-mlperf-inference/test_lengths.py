"""Samples of about one length go through the model together: Server batches, and tuning."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmark_forms as forms
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.measuring import loadgen_run
from mlperf.harness.pipeline.batcher import LengthSplitter, SampleBatch
from mlperf.harness.pipeline.inference import parts_by_length
from mlperf.harness.settings import MAIN, ModelSpec
from mlperf.harness.tuning.layout_probe import mixed_batches

BERT = forms.SCRIPT / "get-ml-model-bert-large-squad" / "tiny"


def splitter(lengths: list[int], call_s: float, sample_s: float = 1.0) -> LengthSplitter:
    """For samples of these lengths whose mean one takes ``sample_s``."""
    times = {size: call_s + sample_s * size for size in (1, 2, 4)}
    return LengthSplitter(np.asarray(lengths), times)


def batch(count: int) -> SampleBatch:
    return SampleBatch(
        [100 + n for n in range(count)], range(count), [0.1 * n for n in range(count)]
    )


def seconds(parts: list[SampleBatch], lengths: list[int], made: LengthSplitter) -> float:
    mean = sum(lengths) / len(lengths)
    longest = [max(lengths[n] for n in part.indices) / mean for part in parts]
    return sum(
        made.call_s + made.sample_s * len(part.ids) * most
        for part, most in zip(parts, longest, strict=True)
    )


def ways(count: int) -> Iterator[list[int]]:
    """Every way to cut so many samples in order, as the sizes of the parts."""
    if count == 0:
        yield []
    for first in range(1, count + 1):
        yield from ([first, *rest] for rest in ways(count - first))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=7), st.floats(0.0, 3.0))
def test_the_parts_of_a_batch_take_least_time_and_lose_no_query(
    lengths: list[int], call_s: float
) -> None:
    made = splitter(lengths, call_s)
    parts = made.split(batch(len(lengths)))
    answered = [pair for p in parts for pair in zip(p.ids, p.indices, p.arrived, strict=True)]
    assert sorted(answered) == list(zip(*batch(len(lengths)), strict=True))
    assert len(parts) == 1 or sorted(map(max_of(lengths), parts)) == list(
        map(max_of(lengths), parts)
    )
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    possible = []
    for sizes in ways(len(lengths)):
        ends = np.cumsum(sizes)
        cut = [order[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        possible.append(seconds([SampleBatch(p, p) for p in cut], lengths, made))
    assert seconds(parts, lengths, made) == pytest.approx(min(possible))


def max_of(lengths: list[int]) -> Any:
    return lambda part: max(lengths[n] for n in part.indices)


@pytest.mark.parametrize(
    ("call_s", "sizes"),
    [(0.0, [1, 1, 2]), (0.1, [2, 2]), (50.0, [4])],
    ids=["calls cost nothing", "calls cost a little", "calls cost much"],
)
def test_what_a_call_costs_decides_how_many_parts_there_are(
    call_s: float, sizes: list[int]
) -> None:
    made = splitter([100, 20, 100, 24], call_s)
    assert [len(part.ids) for part in made.split(batch(4))] == sizes


def test_samples_of_one_length_stay_together_where_a_call_seems_to_cost_less_than_nothing() -> None:
    """Large batches are slower per sample on some processors."""
    made = LengthSplitter(np.asarray([7, 7, 7, 7]), {1: 1.0, 2: 2.2, 4: 5.0})
    assert made.call_s > 0
    assert made.split(batch(4)) == [batch(4)]


def bert() -> Any:
    return benchmarks.create(
        "bert-99", forms.features(), records.decode(ModelSpec, forms.model(BERT))
    )


def test_the_answers_are_those_of_the_whole_batch() -> None:
    made = bert()
    graph = records.decode(ModelSpec, forms.model(BERT)).graphs()[0]
    (predictor,) = backends.create("onnxruntime", "cpu", "float32").open(
        graph, made.outputs[MAIN], 1, 1
    )
    made.load(range(made.sample_count))
    solver = made.solver({MAIN: predictor}, 8)
    assert len(set(made.store.lengths[:8].tolist())) > 1

    def answers(part: SampleBatch) -> dict[int, Any]:
        rows, sizes = made.result.rows(len(part.ids)), np.zeros(len(part.ids), np.int64)
        solver.solve(part.indices, rows, sizes)
        return dict(zip(part.indices, rows, strict=True))

    together = answers(batch(8))
    parts = LengthSplitter(made.costs, {1: 1.0, 2: 2.0}).split(batch(8))
    assert len(parts) > 1
    for part in parts:
        for index, row in answers(part).items():
            length = made.store.lengths[index]
            np.testing.assert_allclose(row[:length], together[index][:length], atol=1e-4)


@pytest.mark.parametrize(
    ("scenario", "times", "prepares", "splits"),
    [
        ("Server", {"1": 1.0, "2": 2.0}, False, True),
        ("Server", {"1": 1.0, "2": 2.0}, True, False),
        ("Server", {"8": 1.0}, False, False),
        ("Offline", {}, False, False),
    ],
)
def test_only_server_batches_of_a_backend_without_graphs_are_split(
    scenario: str, times: dict[str, float], prepares: bool, splits: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    made: list[Any] = []
    monkeypatch.setattr(loadgen_run, "PooledPipeline", lambda *parts: made.append(parts))
    null = backends.create("null", "cpu", "float32")
    null.prepares = prepares
    run: Any = SimpleNamespace(
        scenario=SimpleNamespace(stream=False, batched=scenario == "Offline"),
        shape=SimpleNamespace(batch=8),
        service_times=times,
        overrides=SimpleNamespace(deque_timeout_us=None),
    )
    loadgen_run._pipeline(run, bert(), [], null)
    assert (len(made[0]) == 3) is splits


def test_a_model_of_one_length_is_not_split() -> None:
    made, null = bert(), backends.create("null", "cpu", "float32")
    assert parts_by_length(made, null)
    made.fills_up = False
    assert not parts_by_length(made, null)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(1, 70))
def test_batches_of_tuning_are_of_one_length_and_a_few_of_them_like_all(
    lengths: list[int], size: int
) -> None:
    costs = np.asarray(lengths)
    batches = mixed_batches(costs, size).reshape(-1, size)
    assert (batches[0] == batches[1]).all()
    assert len({tuple(part) for part in batches}) == max(1, len(costs) // size)
    spans = sorted((int(costs[part].min()), int(costs[part].max())) for part in batches[1:])
    assert all(one[1] <= other[0] for one, other in pairwise(spans))


def test_a_few_batches_of_tuning_are_as_long_as_all() -> None:
    costs = np.arange(256) + 1
    batches = costs[mixed_batches(costs, 8).reshape(-1, 8)]
    assert batches[:2].mean() == pytest.approx(costs.mean(), rel=0.05)
    assert batches[:6].mean() == pytest.approx(costs.mean(), rel=0.2)
