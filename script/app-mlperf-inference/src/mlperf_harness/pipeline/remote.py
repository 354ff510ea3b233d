"""Samples whose results are computed on another machine: what goes there, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..backends.network import Network, NetworkPredictor
from ..backends.wire import Group
from ..benchmarks.base import Array, Benchmark, OneCall
from ..errors import HarnessError
from ..settings import MAIN, ModelSpec, Shape


def solvers(
    backend: Network, model: ModelSpec, benchmark: Benchmark, shape: Shape
) -> list[RemoteSolver]:
    """One solver for each connection; raises HarnessError where the nodes have another benchmark.

    Only benchmarks whose model is called once for a sample can be asked so.
    """
    graph, result = model.graphs()[0], benchmark.result
    for node in backend.nodes:
        if node.result != (str(result.dtype), result.shape, result.variable):
            text = f"the node at {node.place} serves {node.facts['benchmark']}"
            raise HarnessError(text, "start it with the same --model")
    team = backend.open(graph, benchmark.outputs[MAIN], shape.workers, shape.threads)
    return [RemoteSolver(one_call(benchmark, each, shape.batch), each, benchmark) for each in team]


def one_call(benchmark: Benchmark, predictor: object, capacity: int) -> OneCall:
    """The benchmark's solver; raises HarnessError where that calls its model more than once."""
    solver = benchmark.solver({MAIN: predictor}, capacity)  # type: ignore[dict-item]
    if not isinstance(solver, OneCall):
        raise HarnessError("a sample of this benchmark takes several calls of its model")
    return solver


class RemoteSolver:
    """Sends samples as they lie in memory, unfilled; the node sends results that need no work."""

    def __init__(self, local: OneCall, predictor: NetworkPredictor, benchmark: Benchmark) -> None:
        self._inputs = local.inputs
        self._predictor = predictor
        # Samples of several lengths go one by one: together they would have to be filled up.
        self._singly = benchmark.costs is not None

    def solve(self, indices: Sequence[int] | Array, results: Array, sizes: Array) -> None:
        """See ``benchmarks.base.Solver``."""
        self._predictor.answer(list(self._groups(indices)), results, sizes)

    def _groups(self, indices: Sequence[int] | Array) -> Iterator[Group]:
        if not self._singly:
            yield Group(len(indices), dict(self._inputs.feeds(indices)))
            return
        for index in indices:
            # The next sample is gathered in the same memory.
            fed = {name: array.copy() for name, array in self._inputs.feeds([index]).items()}
            yield Group(1, fed)
