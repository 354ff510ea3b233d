"""A team of workers: what tuning measures and what runs use, without LoadGen."""

from __future__ import annotations

from ..backends import footprint
from ..backends.base import Backend
from ..benchmarks.base import Benchmark, Solver
from ..settings import ModelSpec, Shape


def solvers(backend: Backend, model: ModelSpec, benchmark: Benchmark, shape: Shape) -> list[Solver]:
    """One solver for each worker of ``shape``; every graph of the model is opened for each.

    Raises HarnessError when a graph cannot be opened or has another signature.
    """
    opened = {
        graph.name: backend.open(graph, benchmark.outputs[graph.name], shape.workers, shape.threads)
        for graph in model.graphs()
    }
    footprint.settle(model.graphs())
    return [
        benchmark.solver({name: team[n] for name, team in opened.items()}, shape.batch)
        for n in range(shape.workers)
    ]
