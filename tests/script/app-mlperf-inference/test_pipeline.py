"""Queues, batching and taking samples: nothing lost, nothing twice, nothing mixed up."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf.harness.benchmarks.samples import SampleReader, SampleStore, cut_out
from mlperf.harness.pipeline.batcher import DeadlinePolicy, cut
from mlperf.harness.pipeline.failures import Failures
from mlperf.harness.pipeline.queue import CutQueue, DynamicBatcher
from support import HANG_S

sizes = st.integers(min_value=1, max_value=70)
ages = st.floats(min_value=0, max_value=0.1)
times = st.dictionaries(sizes, st.floats(min_value=1e-5, max_value=0.05), max_size=7)


@given(st.lists(st.integers()), sizes)
def test_cutting_keeps_order_and_size(indices: list[int], size: int) -> None:
    ids = list(range(len(indices)))
    batches = list(cut(ids, indices, size))
    assert [index for batch in batches for index in batch.indices] == indices
    assert [query for batch in batches for query in batch.ids] == ids
    assert all(len(batch.ids) == size for batch in batches[:-1])
    assert all(1 <= len(batch.ids) <= size for batch in batches)


@given(sizes, sizes, ages, times)
def test_a_batch_is_never_empty_nor_larger_than_allowed(
    largest: int, waiting: int, age: float, known: dict[int, float]
) -> None:
    taken = DeadlinePolicy(0.015, largest, known).take(waiting, age)
    assert 1 <= taken <= max(1, min(largest, waiting))


@given(sizes, ages)
def test_the_oldest_query_keeps_its_deadline_while_it_can(waiting: int, age: float) -> None:
    limit, per_sample = 0.015, 0.001
    policy = DeadlinePolicy(limit, 64, {size: per_sample * size for size in range(1, 65)})
    taken = policy.take(waiting, age)
    if age > limit - per_sample:
        assert taken == min(waiting, 64), "lost anyway: clear the queue"
    elif taken > 1:
        assert age + taken * per_sample <= limit + 1e-9


def test_sizes_between_measured_ones_count_as_the_next_larger() -> None:
    policy = DeadlinePolicy(0.010, 8, {1: 0.001, 4: 0.008, 8: 0.020})
    assert policy.take(3, 0.0015) == 3
    assert policy.take(3, 0.0025) == 1
    assert policy.take(8, 0.0) == 4


def test_offline_batches_reach_all_workers() -> None:
    queue = CutQueue(4)
    queue.put(range(10), range(100, 110))
    queue.close(2)
    found = [queue.next() for _ in range(5)]
    batches = [batch for batch in found if batch is not None]
    assert [list(batch.indices) for batch in batches] == [
        [100, 101, 102, 103],
        [104, 105, 106, 107],
        [108, 109],
    ]
    assert found[3:] == [None, None]


def test_waiting_server_queries_are_joined_and_every_worker_is_let_go() -> None:
    queue = DynamicBatcher(DeadlinePolicy(1.0, 4, {1: 0.001, 4: 0.001}))
    for query in range(6):
        queue.put([query], [query + 10])
    queue.close(2)
    first, second = queue.next(), queue.next()
    assert first is not None
    assert second is not None
    assert (first.ids, first.indices) == ([0, 1, 2, 3], [10, 11, 12, 13])
    assert second.ids == [4, 5]
    assert queue.next() is None
    assert queue.next() is None


def test_joining_under_contention_loses_nothing() -> None:
    queue = DynamicBatcher(DeadlinePolicy(1.0, 8, {}))
    seen: list[int] = []

    def work() -> None:
        while (batch := queue.next()) is not None:
            seen.extend(batch.ids)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for query in range(5000):
        queue.put([query], [0])
    queue.close(3)
    for worker in workers:
        worker.join(HANG_S)
    assert sorted(seen) == list(range(5000))


SOURCE = np.arange(40, dtype=np.float32).reshape(20, 2)


@given(st.lists(st.integers(0, 19), min_size=1, max_size=40), st.data())
def test_samples_come_out_as_they_were_asked_for(loaded: list[int], data: st.DataObject) -> None:
    store = SampleStore(SOURCE)
    store.load(loaded)
    asked = data.draw(st.lists(st.sampled_from(loaded), min_size=1, max_size=8))
    reader = SampleReader(store, np.empty((8, 2), SOURCE.dtype))
    np.testing.assert_array_equal(reader.read(asked), SOURCE[asked])


def test_samples_in_loaded_order_are_not_copied() -> None:
    store = SampleStore(SOURCE)
    store.load([5, 3, 9, 1])
    reader = SampleReader(store, np.empty((4, 2), SOURCE.dtype))
    assert np.shares_memory(reader.read([3, 9, 1]), store.loaded)
    assert not np.shares_memory(reader.read([9, 3]), store.loaded)


def test_a_sample_that_was_not_loaded_is_an_error() -> None:
    store = SampleStore(SOURCE)
    store.load([1, 2])
    with pytest.raises(IndexError, match="sample 7 was issued but never loaded"):
        store.rows([1, 7])
    store.unload()
    with pytest.raises(IndexError):
        store.rows([1])


def resident_bytes(path: Path) -> int:
    """How much of a mapped file is memory of this process."""
    lines = Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines()
    places = [n for n, line in enumerate(lines) if line.endswith(str(path))]
    told = [next(line for line in lines[n:] if line.startswith("Rss:")) for n in places]
    return 1024 * sum(int(size.split()[1]) for size in told)


def test_samples_are_in_memory_once(tmp_path: Path) -> None:
    path = tmp_path / "samples.npy"
    np.save(path, np.ones((48, 1 << 18), dtype=np.float32))
    source = np.load(path, mmap_mode="r")
    assert float(source[::-1].sum()) == source.size
    assert resident_bytes(path) > 40 << 20
    store = SampleStore(source)
    store.load(range(47, 1, -1))
    assert resident_bytes(path) < 1 << 20
    assert float(store.loaded.sum()) == 46 << 18
    assert cut_out(source[:, 0], 3, 5).tolist() == [1, 1]


def test_the_first_failure_is_kept_in_full() -> None:
    failures = Failures()
    assert not failures
    failures.record("loading samples", ValueError("first"))
    failures.record("loading samples", ValueError("second"))
    assert failures
    assert failures.count == 2
    assert failures.first == "loading samples: ValueError: first"
