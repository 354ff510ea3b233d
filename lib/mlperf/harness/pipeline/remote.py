"""Samples whose results are computed on another machine: what goes there, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..backends.network import SAMPLE, Network, NetworkPredictor
from ..backends.wire import MOST_BYTES, SampleGroup
from ..benchmarks.base import Array, Benchmark
from ..errors import HarnessError
from ..settings import MAIN, GraphSpec, ModelSpec, TensorSpec, WorkerShape

# So much of samples and results in a frame, and a single sample in any case.
FRAME_BYTES = MOST_BYTES // 2


def solvers(
    backend: Network, model: ModelSpec, benchmark: Benchmark, shape: WorkerShape
) -> list[RemoteSolver]:
    """One solver per connection.

    Raises HarnessError where the nodes have another benchmark, or its samples cannot travel.
    """
    result = benchmark.result
    for node in backend.nodes:
        if node.result != (str(result.dtype), result.shape, result.variable):
            text = f"the node at {node.place} serves {node.facts['benchmark']}"
            raise HarnessError(text, "start it with the same --model")
        known, here = node.facts["samples"], str(benchmark.sample_count)
        if known != here:
            text = f"the node at {node.place} knows {known} samples, and {here} are here"
            raise HarnessError(text, "give both sides the same data set")
    # What a node takes is samples, whatever the graphs of its model are.
    graph = GraphSpec(MAIN, "", "", (SAMPLE, *sample_tensors(benchmark)), ())
    team = backend.open(graph, (), shape.workers, shape.threads)
    return [RemoteSolver(predictor, benchmark) for predictor in team]


def sample_tensors(benchmark: Benchmark) -> tuple[TensorSpec, ...]:
    """Return the tensors of a sample; raises HarnessError where the benchmark has none."""
    tensors = tuple(getattr(benchmark, "sample_tensors", ()))
    if not tensors:
        text = f"the samples of {benchmark.rules.name} cannot be sent to another machine"
        raise HarnessError(text, "measure it on one machine, without --network")
    return tensors


class RemoteSolver:
    """Sends samples as they lie in memory, unfilled; the node sends results that need no work."""

    def __init__(self, predictor: NetworkPredictor, benchmark: Benchmark) -> None:
        self._predictor = predictor
        self._benchmark = benchmark

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``benchmarks.base.Solver``."""
        start = 0
        for frame in _frames(self.groups(indices), self._benchmark.result.row_bytes):
            end = start + sum(group.count for group in frame)
            self._predictor.answer(frame, results[start:end], sizes[start:end])
            start = end

    def groups(self, indices: Sequence[int] | Array) -> Iterator[SampleGroup]:
        """Yield these samples [n, *shape], those of one size together, each with its number."""
        numbers, start = np.asarray(indices, dtype=np.int64), 0
        for tensors in self._benchmark.gathered(indices):
            count = len(next(iter(tensors.values())))
            own = numbers[start : start + count]
            yield SampleGroup(count, {SAMPLE.name: own, **tensors})
            start += count


def _frames(groups: Iterator[SampleGroup], row_bytes: int) -> Iterator[list[SampleGroup]]:
    """Yield the groups of every frame, cut where they would be too large."""
    frame: list[SampleGroup] = []
    size = 0
    for group in groups:
        each = row_bytes + sum(array.nbytes for array in group.tensors.values()) // group.count
        for piece in group.pieces(max(1, FRAME_BYTES // each)):
            if frame and size + piece.count * each > FRAME_BYTES:
                yield frame
                frame, size = [], 0
            frame.append(piece)
            size += piece.count * each
    if frame:
        yield frame
