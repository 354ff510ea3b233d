"""Making what a backend opens out of a model's files, before anything is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..backends import registry as backends
from ..jobs import ProbeRequest
from ..settings import ModelSpec


def build(request: ProbeRequest, folder: Path) -> ModelSpec:
    """The model with the files that the backend has made of its graphs, each in its own folder.

    Raises HarnessError when the backend cannot be used or cannot build a graph.
    """
    backend = backends.create(
        request.backend, request.device, request.precision, request.backend_options
    )
    made = []
    for graph in request.model.graphs():
        place = folder / graph.name
        place.mkdir(exist_ok=True)
        made.append(backend.build(graph, place))
    return replace(request.model, path=made[0].path, parts=tuple(made[1:]))
