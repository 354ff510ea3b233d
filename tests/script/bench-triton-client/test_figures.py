"""Schedules, figures, and what is told of them."""

from __future__ import annotations

import itertools
import statistics
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.bench import figures, report, results
from serving.bench.load import ClosedLoop, OpenLoop, Record
from serving.bench.schedule import arrivals
from serving.bench.stability import Stability

TIMES = st.lists(st.integers(1, 10**10), min_size=1, max_size=200)


@given(TIMES)
def test_figures_are_those_of_numpy(times: list[int]) -> None:
    found = figures.latency(times, 42)
    assert found is not None
    for wanted, value in found.percentiles:
        assert value * 1e6 == pytest.approx(np.percentile(times, wanted), rel=1e-9)
    assert found.mean * 1e6 == pytest.approx(np.mean(times))
    assert found.std * 1e6 == pytest.approx(np.std(times), abs=1e-3)
    assert (found.min * 1e6, found.max * 1e6) == pytest.approx((min(times), max(times)))
    assert 42 in dict(found.percentiles)


@given(st.floats(0.5, 1e5), st.sampled_from(["constant", "burst"]), st.integers(1, 9))
def test_even_schedules_keep_their_rate(rate: float, kind: str, burst: int) -> None:
    due = list(itertools.islice(arrivals(kind, rate, burst, 0), 900))
    together = burst if kind == "burst" else 1
    assert due == sorted(due)
    assert due[0] == 0
    assert due[-1] == pytest.approx((899 // together) * together / rate * 1e9, abs=2)


def test_arrivals_by_chance_are_those_of_their_seed() -> None:
    first, again, other = (
        list(itertools.islice(arrivals("poisson", 1000, 1, seed), 20_000)) for seed in (1, 1, 2)
    )
    assert first == again != other
    gaps = [after - before for before, after in itertools.pairwise(first)]
    assert statistics.mean(gaps) == pytest.approx(1e6, rel=0.05)
    assert statistics.pstdev(gaps) == pytest.approx(1e6, rel=0.05)


def test_a_count_and_a_time_end_a_pace() -> None:
    closed = ClosedLoop(0, 1 << 62, 2)
    assert [closed.take() >= 0 for _ in range(3)] == [True, True, False]
    assert closed.ended() == "count"
    assert ClosedLoop(0, 1, 0).take() < 0
    scheduled = OpenLoop(0, 1 << 62, 3, iter([0, 0, 0, 0]))
    assert [scheduled.take() >= 0 for _ in range(4)] == [True, True, True, False]
    assert scheduled.ended() == "count"


def test_what_was_due_and_never_sent_is_counted() -> None:
    late = OpenLoop(0, 100, 0, iter(range(0, 1000, 10)))
    assert late.take() < 0, "its end is long past"
    assert late.unsent(1 << 62) == 10
    over = OpenLoop(0, 1 << 62, 0, iter([0, 1 << 62, 1 << 63]))
    assert [over.take() >= 0, over.take() >= 0] == [True, False]
    assert over.unsent(1 << 62) == 0


def test_very_many_that_were_never_sent_are_counted_in_no_time() -> None:
    begin = time.process_time()
    late = OpenLoop(0, 10**13, 0, arrivals("constant", 1e6, 1, 0))
    assert late.unsent(10**13) == pytest.approx(10**10, rel=1e-4)
    assert OpenLoop(0, 10**13, 7, arrivals("poisson", 1e6, 1, 0)).unsent(10**13) == 7
    assert time.process_time() - begin < 5, "ten thousand million are not looked at"


@given(st.lists(st.booleans(), min_size=2, max_size=6))
def test_the_highest_rate_on_schedule_is_named(late: list[bool]) -> None:
    points = []
    for number, is_late in enumerate(late):
        ms = figures.latency([10**7 if is_late else 10**5] * 10, 99)
        load = results.Load((number + 1) * 100.0, True, 1)
        points.append(SimpleNamespace(load=load, late=ms, unsent=0))
    kept = len(list(itertools.takewhile(lambda each: not each, late)))
    assert results.on_schedule(points) == (kept * 100 if kept else None)  # type: ignore[arg-type]
    assert results.on_schedule(points[:1]) is None  # type: ignore[arg-type]


def test_a_warning_of_several_loads_stands_once_and_names_them() -> None:
    def point(size: float, client: float, unsent: int) -> Any:
        costs = SimpleNamespace(outside=0.0, client=client, server=1.5, stolen=0.0, load_before=0.5)
        load = results.Load(size, open_loop=False, seconds=1.0)
        return SimpleNamespace(load=load, costs=costs, late=None, unsent=unsent, server=None)

    points = [point(1, 0.1, 0), point(4, 0.5, 0), point(8, 0.6, 3), point(16, 0.7, 0)]
    crowded = "client and server used 0.50 and 1.50 of 2 cores: they were in each other's way"
    never = "3 requests were due and never sent: --connections were all busy"
    assert report.notes(points, 2) == (
        f"4 in flight: {crowded}; also at 8 in flight, 16 in flight",
        f"8 in flight: {never}",
    )
    assert report.notes(points[1:2], 2) == (crowded,)


@given(st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=300))
def test_a_histogram_counts_every_value(values: list[float]) -> None:
    edges, counts = results.histogram(values)
    assert sum(counts) == len(values)
    assert len(edges) == len(counts) + 1
    assert edges[0] <= min(values) * 1.000001
    assert edges[-1] >= max(values) * 0.999999


def record_of(*windows: list[int], length: int = 1_000_000) -> Record:
    record = Record()
    for number, latencies in enumerate(windows):
        for latency in latencies:
            done = number * length + length // 2
            record.due.append(done - latency)
            record.start.append(done - latency)
            record.done.append(done)
    return record


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        ([[10] * 50, [10] * 51, [10] * 52], "stable within 10 %"),
        ([[10] * 50, [10] * 51], ""),
        ([[10] * 50, [10] * 51, [10] * 80], ""),
        ([[10] * 50, [10] * 51, [30] * 52], ""),
        ([[10], [90], [10] * 50, [10] * 51, [10] * 52], "stable within 10 %"),
        ([[10] * 50, [], [10] * 50], ""),
    ],
)
def test_three_windows_alike_are_stable(
    windows: list[list[int]], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = Stability(0, 0.001, 10.0, 99.0)
    now = len(windows) * 1_000_000 + 1
    monkeypatch.setattr("serving.bench.stability.time.perf_counter_ns", lambda: now)
    assert rule.watch([record_of(*windows)]) == why


def test_what_never_settles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [[10] * (50 + 40 * (number % 2)) for number in range(20)]
    monkeypatch.setattr("serving.bench.stability.time.perf_counter_ns", lambda: 20_000_001)
    assert "not stable" in Stability(0, 0.001, 10.0, 99.0).watch([record_of(*windows)])
