"""OpenVINO."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import properties

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, Setup, TensorSpec
from . import footprint
from .base import Array, Backend, Feeds, Predictor, check_signature
from .fixed_batch import fix
from .footprint import MappedPages
from .int8_signed import sign
from .onnx_file import ROOT, NotOnnxError, graph_alone

DEVICES = {"cpu": "CPU"}
# What the plugin computes in; a model of 8-bit integers says so itself, the rest of it is float.
COMPUTES = {"float32": "f32", "bfloat16": "bf16", "int8": "bf16"}
# A product of 8-bit integers takes as long for 8 rows fewer, and each shape is prepared and kept.
INTEGER_STEP = 16


@cache
def _core() -> Any:
    """Return the one core of this process.

    Each brings its own plugin, which sets a stack for signals and puts the one before back when it
    ends. Two of them that end in the order in which they began leave the thread with one that is
    gone, and the next signal kills the process.
    """
    return openvino.Core()


class OpenVinoPredictor(Predictor):
    """One request of a compiled model.

    The first call is that in which the plugin packs the weights which it has not packed yet.
    """

    def __init__(
        self, compiled: Any, outputs: Sequence[str], weights: MappedPages, length_step: int
    ) -> None:
        self._request = compiled.create_infer_request()
        self._ports = [compiled.output(name) for name in outputs]
        self._weights = weights
        self._infer = self._first
        self.length_step = length_step

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        results = self._infer(feeds, share_inputs=True)
        return [results[port] for port in self._ports]

    def _first(self, feeds: Feeds, share_inputs: bool) -> Any:
        with self._weights.sparing():
            results = self._request.infer(feeds, share_inputs=share_inputs)
        self._infer = self._request.infer
        return results


class FilledUp(Predictor):
    """Batches of one size for a model that takes no other: a shorter one is filled up."""

    def __init__(self, predictor: Predictor, batch: int) -> None:
        self._predictor = predictor
        self._batch = batch
        self.length_step = predictor.length_step

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        count = len(next(iter(feeds.values())))
        if count == self._batch:
            return self._predictor.predict(feeds)
        rows = np.minimum(np.arange(self._batch), count - 1)
        full = {name: array[rows] for name, array in feeds.items()}
        return [array[:count] for array in self._predictor.predict(full)]


class OpenVino(Backend):
    """The ``openvino`` backend."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._core = _core()
        self._device = DEVICES[setup.device]
        self._precision = self._computes(setup.precision)
        self._integers = setup.precision == "int8"

    def _computes(self, precision: str) -> str:
        """Return the plugin's name of the precision; what this processor cannot do is refused."""
        able = self._core.get_property(self._device, properties.device.capabilities)
        wanted = COMPUTES[precision]
        if wanted == "bf16" and "BF16" not in able:
            if precision == "int8":
                return "f32"
            raise HarnessError(
                f"this processor does not compute in {precision}; it does {', '.join(able)}"
            )
        return wanted

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``. Workers with one thread share one model with a stream for each."""
        return self._open(graph, outputs, workers, threads, None)

    def open_fixed(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int, batch: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``. What depends on the shape is decided while it is compiled."""
        return self._open(graph, outputs, workers, threads, batch)

    def _open(
        self,
        graph: GraphSpec,
        outputs: Sequence[str],
        workers: int,
        threads: int,
        batch: int | None,
    ) -> Sequence[Predictor]:
        file = str(Path(graph.path).resolve())
        before = footprint.mapped([file])
        model = self._read(graph.path)
        if self._integers:
            sign(model)
        weights = MappedPages(_largest(model), before, footprint.mapped([file]))
        wanted = [t for t in graph.outputs if t.name in outputs]
        check_signature("input", graph.inputs, _tensors(model.inputs))
        check_signature("output", wanted, _tensors(model.outputs))
        fixed = batch if batch and fix(model, batch) else None
        shared = threads == 1
        streams = workers if shared else 1
        with weights.sparing():
            models = [
                self._compile(graph.path, model, streams, threads * streams)
                for _ in range(1 if shared else workers)
            ]
        step = INTEGER_STEP if self._integers else Predictor.length_step
        predictors: list[Predictor] = [
            OpenVinoPredictor(models[n % len(models)], outputs, weights, step)
            for n in range(workers)
        ]
        return [FilledUp(predictor, fixed) for predictor in predictors] if fixed else predictors

    def _read(self, path: str) -> Any:
        """Return the model with mapped weights; the whole file where that cannot be done."""
        with contextlib.suppress(NotOnnxError, OSError, RuntimeError):
            graph = graph_alone(Path(path))
            with _inside(ROOT):
                return self._core.read_model(graph)
        try:
            return self._core.read_model(path)
        except RuntimeError as error:
            text = f"openvino cannot open {path}: {_reason(error)}"
            raise HarnessError(text, OTHER_MODEL) from error

    def _compile(self, path: str, model: Any, streams: int, threads: int) -> Any:
        config = {
            properties.hint.inference_precision: self._precision,
            properties.inference_num_threads: threads,
            properties.num_streams: streams,
            properties.hint.enable_cpu_pinning: False,
        }
        try:
            return self._core.compile_model(model, self._device, config)
        except RuntimeError as error:
            raise HarnessError(f"openvino cannot compile {path}: {_reason(error)}") from error

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {"openvino": str(openvino.__version__).partition("-")[0]}


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """OpenVINO looks for the weights of a model in memory only in the working directory."""
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def _largest(model: Any) -> Any:
    """The largest constant: it holds the mapping of the file, but not the rest of the model."""
    constants = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
    return max(constants, key=lambda node: node.get_byte_size(), default=None)


def _tensors(ports: Sequence[Any]) -> list[TensorSpec]:
    """Each port under every name that it has."""
    return [
        TensorSpec(
            name,
            port.get_element_type().to_dtype().name,
            tuple(
                -1 if size.is_dynamic else size.get_length()
                for size in list(port.get_partial_shape())[1:]
            ),
        )
        for port in ports
        for name in port.get_names()
    ]


def _reason(error: RuntimeError) -> str:
    """Return the informative line of OpenVINO's report: the last one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
