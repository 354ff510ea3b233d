"""TensorRT: engines on a GPU, in lanes. Not verified on hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines import builder, generate, sidecar
from ..engines.sidecar import PLAN, TENSORRT
from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, Setup, TensorSpec
from . import lanes
from .base import Backend, Layout, Predictor, check_signature
from .lanes import CaptureGate, Lane, LaneTensor, Shapes
from .torch_device import TorchDevice, capability, facts


class EngineWork:
    """The ``lanes.LaneWork`` of one execution context."""

    def __init__(self, trt: Any, engine: Any, context: Any) -> None:
        self._trt = trt
        self._engine = engine
        self._context = context
        names = [engine.get_tensor_name(n) for n in range(engine.num_io_tensors)]
        out = trt.TensorIOMode.OUTPUT
        self._outputs = [name for name in names if engine.get_tensor_mode(name) == out]

    def outputs(self, shapes: Shapes) -> Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]]:
        """See ``lanes.LaneWork``; raises HarnessError for shapes that the engine does not take."""
        for name, shape in shapes.items():
            if not self._context.set_input_shape(name, shape):
                raise HarnessError(f"the engine was not built for {name} of the shape {shape}")
        return {name: (self._dtype(name), self._shape(name)) for name in self._outputs}

    def _dtype(self, name: str) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self._trt.nptype(self._engine.get_tensor_dtype(name)))
        return dtype

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._context.get_tensor_shape(name))

    def enqueue(
        self, inputs: Mapping[str, LaneTensor], outputs: Mapping[str, LaneTensor], stream: Any
    ) -> None:
        """See ``lanes.LaneWork``; raises HarnessError where TensorRT refuses."""
        for name, tensor in (*inputs.items(), *outputs.items()):
            self._context.set_tensor_address(name, tensor.memory.data_ptr())
        if not self._context.execute_async_v3(stream.cuda_stream):
            raise HarnessError("TensorRT cannot run the engine: see what it printed")


class TensorRt(Backend):
    """The ``tensorrt`` backend: builds an engine for this GPU, or opens one that fits."""

    library_bytes = 2_000_000_000
    prepares = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._device = TorchDevice()
        self._gate = CaptureGate()
        product = str(setup.options["product"])
        self._trt = builder.load(product)
        self._product = product
        self.largest_batch = int(setup.options["batch"])
        builder.check_capabilities(setup.precision, [capability()])

    def build(self, graph: GraphSpec, folder: Path) -> GraphSpec:
        """See ``base.Backend``. An engine that is there is taken, where it fits."""
        source = Path(graph.path)
        if source.suffix == PLAN:
            return graph
        build_request = generate.EngineRequest(
            product=self._product,
            folder=str(folder),
            benchmark="model",
            precision=self.setup.precision,
            batch=f"1:{self.largest_batch}:{self.largest_batch}",
            lengths=str(self.setup.options["lengths"]),
            workspace=int(self.setup.options["workspace"]),
            compute_capabilities=(capability(),),
        )
        target = folder / f"{source.stem}{PLAN}"
        generate.write_engine(build_request, source, {"sha256": graph.sha256}, target)
        return replace(graph, path=str(target))

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``. The workers share the engine; each has a context and a lane.

        Raises HarnessError where the engine does not fit this machine or the specification.
        """
        path = Path(graph.path)
        version = str(self._trt.__version__)
        wanted = {"builder": self._product, "version": version, "precision": self.setup.precision}
        sidecar.check(path, {**wanted, "compute_capability": capability()})
        self._runtime = self._trt.Runtime(self._trt.Logger(self._trt.Logger.ERROR))
        engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if engine is None:
            text = f"TensorRT cannot open {path}: see what it printed"
            raise HarnessError(text, OTHER_MODEL)
        check_signature("output", [t for t in graph.outputs if t.name in outputs], self._of(engine))
        gate = self._gate if self.setup.options["graphs"] else None
        return [
            Lane(
                self._device,
                EngineWork(self._trt, engine, engine.create_execution_context()),
                outputs,
                gate,
            )
            for _ in range(workers)
        ]

    def preparing(self) -> AbstractContextManager[None]:
        """See ``base.Backend``."""
        return self._gate.opened()

    def computed_by(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return self._gate.facts()

    def _of(self, engine: Any) -> list[TensorSpec]:
        names = [engine.get_tensor_name(n) for n in range(engine.num_io_tensors)]
        return [
            TensorSpec(
                name,
                np.dtype(self._trt.nptype(engine.get_tensor_dtype(name))).name,
                tuple(engine.get_tensor_shape(name))[1:],
            )
            for name in names
        ]

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {TENSORRT: f"{self._product}-{self._trt.__version__}"}

    def device_facts(self) -> dict[str, str]:
        """See ``base.Backend``: what an engine is for."""
        return facts()

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """See ``base.Backend``: lanes side by side, whatever the cores."""
        return lanes.layouts(int(self.setup.options["streams"]), workers)

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """See ``base.Backend``."""
        return (1,)

    def copies(self, workers: int, threads: int) -> int:
        """See ``base.Backend``: the weights are on the device."""
        return 0
