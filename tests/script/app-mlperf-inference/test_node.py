"""How a node divides its workers among the threads of its connections, without a network."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.backends.network import SAMPLE
from mlperf.harness.backends.wire import SampleGroup
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.benchmarks.base import Array
from mlperf.harness.session.node import NodeModel, NodeRequest, NodeWorker
from mlperf.harness.settings import ModelSpec, WorkerShape
from mlperf.harness.tuning.profile import SpeedProfile, ThroughputPoint
from support import HANG_S, wait_for

SHAPE = WorkerShape(1, 1, 4)
POINT = ThroughputPoint(SHAPE, 1.0, 1.0)
PROFILE = SpeedProfile(1, 1, POINT, POINT, {}, 3600.0, {}, (), {}, 0.0)


class Gate:
    """A solver that waits for ``open``, and keeps which thread solved how many samples."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.solved: list[tuple[int, int]] = []
        self.problem: BaseException | None = None

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``benchmarks.base.Solver``."""
        self.solved.append((threading.get_ident(), len(indices)))
        assert self.open.wait(HANG_S)
        if self.problem:
            raise self.problem
        results[:] = 7


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def engine(gate: Gate) -> NodeModel:
    return node(gate, few_callers=False)


def node(gate: Gate, few_callers: bool) -> NodeModel:
    """A node of one worker."""
    benchmark = benchmarks.create("resnet50", lab.arrays(), records.decode(ModelSpec, lab.model()))
    return NodeModel([NodeWorker(benchmark, gate, few_callers)], PROFILE, {})


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def one(engine: NodeModel) -> list[SampleGroup]:
    """A request of the first sample."""
    (image,) = engine.inputs[1:]
    sample = np.zeros((1, *image.shape), image.dtype)
    return [SampleGroup(1, {SAMPLE.name: np.zeros(1, np.int64), image.name: sample})]


def test_an_idle_worker_is_used_by_the_thread_that_asks(engine: NodeModel, gate: Gate) -> None:
    gate.open.set()
    assert [engine.answer(one(engine)).results.tolist() for _ in range(3)] == [[7.0]] * 3
    assert gate.solved == [(threading.get_ident(), 1)] * 3


def test_what_keeps_threads_for_each_caller_is_called_by_its_own(gate: Gate) -> None:
    gate.open.set()
    few = node(gate, few_callers=True)
    assert few.answer(one(few)).error == ""
    assert few.answer(one(few)).error == ""
    assert {thread for thread, _ in gate.solved}.isdisjoint({threading.get_ident()})
    assert len({thread for thread, _ in gate.solved}) == 1


def test_what_comes_while_a_worker_computes_is_joined(
    engine: NodeModel, gate: Gate, callers: ThreadPoolExecutor
) -> None:
    first = callers.submit(engine.answer, one(engine))
    wait_for(lambda: gate.solved)
    later: list[Future[NodeRequest]] = []
    for number in range(1, 4):
        later.append(callers.submit(engine.answer, one(engine)))
        wait_for(lambda number=number: len(engine._waiting) == number)
    gate.open.set()
    assert [each.result(60).error for each in (first, *later)] == [""] * 4
    assert [count for _, count in gate.solved] == [1, 3]
    assert engine.answered == 4


@pytest.mark.parametrize("problem", [MemoryError("no room"), SystemExit(3)])
def test_a_worker_is_there_again_whatever_its_solver_raised(
    engine: NodeModel, gate: Gate, callers: ThreadPoolExecutor, problem: BaseException
) -> None:
    gate.open.set()
    gate.problem = problem
    if isinstance(problem, Exception):
        assert "no room" in engine.answer(one(engine)).error
    else:
        with pytest.raises(SystemExit):
            engine.answer(one(engine))
    gate.problem = None
    assert callers.submit(engine.answer, one(engine)).result(60).error == ""


def test_many_callers_are_all_answered(
    engine: NodeModel, gate: Gate, callers: ThreadPoolExecutor
) -> None:
    gate.open.set()
    asked = [callers.submit(engine.answer, one(engine)) for _ in range(2000)]
    assert {each.result(60).error for each in asked} == {""}
    assert engine.answered == 2000
    assert not engine._waiting
