"""The server of a session: a repository of its models, and a Triton that serves it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aws_neuron import artifact
from common.problems import Problem
from serving.repository import writing
from serving.repository.plan import (
    Batching,
    Cores,
    ModelArtefact,
    ModelTensor,
    RepositoryPlan,
    helpers_of,
)
from serving.server import server
from serving.server.server_spec import ServerSpec

from .. import host
from ..errors import HarnessError
from ..settings import GraphSpec, ModelSpec, Setup, TensorSpec
from .neuron_cores import visible_cores

LAUNCHER, PYTHON = "CM_TRITON_SERVER_BIN_WITH_PATH", "CM_TRITON_SERVER_PYTHON"
INSTALL = "cm run script --tags=get,triton-server,_{}"
# The package that a runtime computes with, where it has another name.
PACKAGES = {"pytorch": "torch", "neuron": "torch"}
# The most rows of a request: a sample of a benchmark may be some hundred of them.
LARGEST = 65536
# Options of models that have tensors whose rows are no samples.
OWN_ROWS = (("images_per_call", 1), ("layout", "feature-first"))
VERSION = "from importlib.metadata import version; print(version('{}'))"


@contextmanager
def serve(setup: Setup, models: Sequence[ModelSpec]) -> Iterator[Mapping[str, Any]]:
    """A server with these models, and its address; the one of the user is not touched.

    Raises HarnessError where it cannot be had.
    """
    if setup.options["url"]:
        yield {}
        return
    plans = [plan(setup, each, batched(model)) for model in models for each in _graphs(model)]
    launcher = os.environ.get(LAUNCHER) or shutil.which("tritonserver")
    if not launcher:
        advice = f"install one: `{INSTALL.format(setup.options['backend'])}`"
        raise HarnessError("there is no tritonserver to start", advice)
    folder = Path(tempfile.mkdtemp(prefix="triton-session-"))
    try:
        repository = folder / "models"
        repository.mkdir()
        for each in plans:
            writing.write(each, repository)
        wanted = ServerSpec(launcher, str(repository))
        with server.running(wanted, folder, (("rm", "-rf", "--", str(folder)),)) as process:
            url = process.grpc_url if setup.options["protocol"] == "grpc" else process.url
            yield {"url": url}
    except Problem as error:
        error.message = " ".join(error.message.split())
        error.hint = error.hint_without(str(folder))
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _graphs(model: ModelSpec) -> Sequence[GraphSpec]:
    if model.parts:
        text = f"{model.name} consists of several graphs, and Triton is given one"
        raise HarnessError(text, "choose another benchmark, or a backend in process")
    return model.graphs()


def model_name(graph: GraphSpec) -> str:
    """Return the name of a model in the server: it changes with the file."""
    return f"m-{graph.sha256[:16]}"


def batched(model: ModelSpec) -> bool:
    """Return whether each row of all inputs and outputs is a sample's.

    The rows of a detector may be what it finds, those of a recommender's indices its features.
    """
    return not any(model.options.get(name) == value for name, value in OWN_ROWS)


def plan(setup: Setup, graph: GraphSpec, batch: bool = True) -> RepositoryPlan:
    """What the server is to serve for a model; raises HarnessError for one of another device.

    Without ``batch`` the rows of each tensor are its own.
    """
    options = setup.options
    runtime, instances = str(options["backend"]), int(options["instances"])
    threads = int(options["threads"]) or max(1, host.usable_cores() // instances)
    preferred = int(options["preferred_batch"])
    version = _runtime_version(runtime)
    fixed = _fixed_batch(setup, graph)
    return RepositoryPlan(
        name=model_name(graph),
        runtime=runtime,
        inputs=tuple(_tensor(tensor, batch) for tensor in graph.inputs),
        outputs=tuple(_tensor(tensor, batch) for tensor in graph.outputs),
        artefact=ModelArtefact(graph.path, graph.sha256),
        max_batch=LARGEST if batch else 0,
        instances=instances,
        device=setup.device,
        batching=Batching((preferred,), int(options["delay_us"])) if preferred else None,
        # A core per instance: single samples could not be shared out to several.
        cores=Cores(0, instances - 1) if runtime == "neuron" else None,
        fixed_batch=fixed,
        parameters={
            "PRECISION": setup.precision,
            "THREADS": str(threads),
            **({"RUNTIME_VERSION": version} if version else {}),
        },
        helpers=helpers_of(runtime),
    )


def _fixed_batch(setup: Setup, graph: GraphSpec) -> int:
    """Return the only batch that a compiled model takes; 0 where any will do.

    Raises HarnessError where it was not compiled for the device, or that is not there.
    """
    if setup.options["backend"] != "neuron":
        return 0
    if setup.device != "cpu":
        visible_cores(setup.device)
    compiled = artifact.read(Path(graph.path), verify_digest=False)
    compiled.require(setup.device)
    return 0 if compiled.neuron.dynamic_batch else int(compiled.neuron.batch_size)


def _tensor(tensor: TensorSpec, batch: bool) -> ModelTensor:
    return ModelTensor(tensor.name, tensor.dtype, tensor.shape if batch else (-1, *tensor.shape))


def _runtime_version(runtime: str) -> str:
    """Its version in the server's own Python; empty where that is not ours to ask."""
    python = os.environ.get(PYTHON)
    if not python:
        return ""
    words = [python, "-I", "-c", VERSION.format(PACKAGES.get(runtime, runtime))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip()
