"""A team of workers: what tuning measures and what runs use, without LoadGen."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends import footprint
from ..backends.base import Backend, Predictor
from ..backends.network import Network
from ..benchmarks.base import Benchmark, Solver
from ..settings import GraphSpec, ModelSpec, WorkerShape
from . import remote
from .time_spent import WorkerClock, timed


def solvers(
    backend: Backend,
    model: ModelSpec,
    benchmark: Benchmark,
    shape: WorkerShape,
    fixed: bool = False,
    clocks: Sequence[WorkerClock] = (),
) -> list[Solver]:
    """One solver per worker of ``shape``; every graph of the model is opened for each.

    ``fixed`` says that nearly all batches will be as large as that of ``shape``. ``clocks``, one
    per worker, time the calls of predictors.
    Raises HarnessError when a graph cannot be opened or has another signature.
    """
    if isinstance(backend, Network):
        return list(remote.solvers(backend, model, benchmark, shape))
    opened = teams(backend, model, benchmark, shape, fixed)
    if clocks:
        opened = [timed(team, clock) for team, clock in zip(opened, clocks, strict=True)]
    return [benchmark.solver(team, shape.batch) for team in opened]


def parts_by_length(benchmark: Benchmark, backend: Backend) -> bool:
    """Return whether batches have samples of about one length, in Server too.

    Not where a GPU prepares for shapes: those of the parts would be computed without graphs.
    """
    return bool(getattr(benchmark, "fills_up", False)) and not backend.prepares


def teams(
    backend: Backend,
    model: ModelSpec,
    benchmark: Benchmark,
    shape: WorkerShape,
    fixed: bool = False,
) -> list[dict[str, Predictor]]:
    """Return a predictor per worker of ``shape`` and graph of the model; see ``solvers``."""
    layout = (shape.workers, shape.threads)

    def opened_graph(graph: GraphSpec) -> Sequence[Predictor]:
        outputs = benchmark.outputs[graph.name]
        if fixed:
            return backend.open_fixed(graph, outputs, *layout, shape.batch)
        return backend.open(graph, outputs, *layout)

    opened = {graph.name: opened_graph(graph) for graph in model.graphs()}
    footprint.settle(model.graphs())
    return [{name: team[n] for name, team in opened.items()} for n in range(shape.workers)]
