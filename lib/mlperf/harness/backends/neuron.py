"""Models compiled for AWS Inferentia and Trainium, on this machine's NeuronCores.

Beside the model lies what it was compiled for; it must be the device that is requested. What was
compiled for cpu is TorchScript that the processor computes, and results call its device cpu. The
calls into the Neuron SDK are not verified on hardware.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aws_neuron.artifact import NeuronArtefact, read

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, Setup, TensorSpec
from .base import Array, Backend, Feeds, Layout, Predictor, check_signature
from .neuron_cores import VISIBLE, package_of, sdk_version, visible_cores
from .py_torch import TorchPredictor, from_torchscript

CPU = "cpu"


class NeuronPredictor(Predictor):
    """Gives a compiled model the batches that it takes: others are cut, and the last filled up."""

    def __init__(self, inner: Predictor, artefact: NeuronArtefact) -> None:
        self._inner = inner
        self.few_callers = inner.few_callers
        self._types = {tensor.name: tensor.dtype for tensor in artefact.inputs}
        self._batch = 0 if artefact.neuron.dynamic_batch else artefact.neuron.batch_size

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        typed = {name: array.astype(self._types[name], copy=False) for name, array in feeds.items()}
        count = len(next(iter(typed.values())))
        if not self._batch or count == self._batch:
            return self._inner.predict(typed)
        parts = [
            self._inner.predict({name: self._filled(array, at) for name, array in typed.items()})
            for at in range(0, count, self._batch)
        ]
        return [np.concatenate(outputs)[:count] for outputs in zip(*parts, strict=True)]

    def _filled(self, array: Array, start: int) -> Array:
        part = array[start : start + self._batch]
        missing = self._batch - len(part)
        return np.concatenate([part, np.repeat(part[-1:], missing, 0)]) if missing else part


class Neuron(Backend):
    """The ``neuron`` backend: a copy of the model per worker, on a NeuronCore each.

    Raises HarnessError, before anything is measured, where the device or its SDK is missing.
    """

    library_bytes = 1_000_000_000

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._cores = 0
        self._sdk = ""
        if setup.device != CPU:
            if cores := str(setup.options["cores"]):
                os.environ[VISIBLE] = cores.replace(";", ",")
            self._cores = visible_cores(setup.device)
            self._sdk = sdk_version(setup.device)

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``."""
        artefact = self._artefact(graph)
        check_signature("input", graph.inputs, _tensors(artefact.inputs))
        check_signature("output", graph.outputs, _tensors(artefact.outputs))
        # The runtime puts each copy that is opened onto the next core.
        copies = 1 if self.setup.device == CPU else workers
        opened = [from_torchscript(graph) for _ in range(copies)]
        return [
            NeuronPredictor(
                TorchPredictor(opened[worker % copies], outputs, CPU, None, threads), artefact
            )
            for worker in range(workers)
        ]

    def _artefact(self, graph: GraphSpec) -> NeuronArtefact:
        """What lies next to the model; the content of a session's files is compared elsewhere."""
        artefact = read(Path(graph.path), verify_digest=False)
        artefact.require(self.setup.device)
        if graph.sha256 != artefact.sha256:
            text = f"{graph.path} is not the model that the session was given"
            raise HarnessError(text, OTHER_MODEL)
        return artefact

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        sdk = {package_of(self.setup.device): self._sdk} if self._sdk else {}
        return {**sdk, "pytorch": str(torch.__version__)}

    def device_facts(self) -> dict[str, str]:
        """Return facts about the cores, or that there are none."""
        if self.setup.device == CPU:
            return {"computes on": "the processor, with TorchScript in place of a compiled model"}
        return {"NeuronCores": os.environ.get(VISIBLE) or str(self._cores)}

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """Return a worker or two for each NeuronCore, whatever the cores of the processor."""
        if self.setup.device == CPU:
            return super().layouts(cores, workers, threads)
        counts = (workers,) if workers else (self._cores, 2 * self._cores)
        return [(count, 1) for count in counts]

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """One where a NeuronCore computes."""
        return super().stream_threads(cores) if self.setup.device == CPU else (1,)

    def copies(self, workers: int, threads: int) -> int:
        """One per worker on a NeuronCore; workers on a processor share them."""
        return 1 if self.setup.device == CPU else workers


def _tensors(tensors: Sequence[Any]) -> list[TensorSpec]:
    return [TensorSpec(tensor.name, tensor.dtype, tuple(tensor.shape)) for tensor in tensors]
