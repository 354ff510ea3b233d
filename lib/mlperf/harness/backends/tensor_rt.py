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
from . import lanes, torch_device
from .base import Backend, Layout, Predictor, check_signature
from .lanes import CaptureGate, Lane, LaneTensor, Shapes
from .torch_device import TorchDevice, capability, facts


class EngineWork:
    """The ``lanes.LaneWork`` of one execution context, on the GPU ``number``."""

    def __init__(self, trt: Any, engine: Any, number: int) -> None:
        self._trt = trt
        self._engine = engine
        self._context = engine.create_execution_context()
        self._number = number
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
        # An engine is enqueued by a thread for which its own GPU is the current one.
        with torch_device.current(self._number):
            is_enqueued = self._context.execute_async_v3(stream.cuda_stream)
        if not is_enqueued:
            raise HarnessError("TensorRT cannot run the engine: see what it printed")


class TensorRt(Backend):
    """The ``tensorrt`` backend: builds an engine for these GPUs, or opens one that fits.

    GPUs that share the samples have one compute capability, as the engine has.
    """

    library_bytes = 2_000_000_000
    prepares = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        named = str(setup.options.get("devices", ""))
        self._numbers = torch_device.numbers("cuda", named)
        self._devices = {number: TorchDevice(number) for number in self._numbers}
        self._capability = _common_capability(self._numbers)
        self._runtimes: list[Any] = []
        self._gate = CaptureGate()
        product = str(setup.options["product"])
        self._trt = builder.load(product)
        self._product = product
        self.largest_batch = int(setup.options["batch"])
        builder.check_capabilities(setup.precision, [self._capability])

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
            compute_capabilities=(self._capability,),
        )
        target = folder / f"{source.stem}{PLAN}"
        with torch_device.current(self._numbers[0]):
            generate.write_engine(build_request, source, {"sha256": graph.sha256}, target)
        return replace(graph, path=str(target))

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``. Workers of a GPU share its engine, and have contexts of their own.

        Raises HarnessError where the engine does not fit this machine or the specification.
        """
        path = Path(graph.path)
        version = str(self._trt.__version__)
        wanted = {"builder": self._product, "version": version, "precision": self.setup.precision}
        sidecar.check(path, {**wanted, "compute_capability": self._capability})
        engines = {number: self._engine(path, number) for number in self._numbers[:workers]}
        first = engines[self._numbers[0]]
        check_signature("output", [t for t in graph.outputs if t.name in outputs], self._of(first))
        gate = self._gate if self.setup.options["graphs"] else None

        def lane(worker: int) -> Lane:
            number = self._number(worker)
            with torch_device.current(number):
                work = EngineWork(self._trt, engines[number], number)
            return Lane(self._devices[number], work, outputs, gate)

        return [lane(worker) for worker in range(workers)]

    def _engine(self, path: Path, number: int) -> Any:
        """Return the engine on a GPU, which it belongs to; raises HarnessError for another file."""
        with torch_device.current(number):
            runtime = self._trt.Runtime(self._trt.Logger(self._trt.Logger.ERROR))
            engine = runtime.deserialize_cuda_engine(path.read_bytes())
        if engine is None:
            text = f"TensorRT cannot open {path}: see what it printed"
            raise HarnessError(text, OTHER_MODEL)
        self._runtimes.append(runtime)  # which must outlive its engines
        return engine

    def _number(self, worker: int) -> int:
        """Return the GPU of a worker: those of ``--devices`` in turn."""
        return self._numbers[worker % len(self._numbers)]

    def place_of(self, worker: int) -> str:
        """See ``base.Backend``."""
        return f"cuda:{self._number(worker)}" if len(self._numbers) > 1 else ""

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
        return facts(number=self._numbers[0])

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """See ``base.Backend``: lanes side by side, whatever the cores."""
        return lanes.layouts(int(self.setup.options["streams"]), workers, len(self._numbers))

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """See ``base.Backend``."""
        return (1,)

    def copies(self, workers: int, threads: int) -> int:
        """See ``base.Backend``: the weights are on the device."""
        return 0


def _common_capability(numbers: Sequence[int]) -> str:
    """Return the compute capability of GPUs; raises HarnessError where they differ in it."""
    by_number = {number: capability(number) for number in numbers}
    if len(set(by_number.values())) > 1:
        shown = ", ".join(f"{number}: {value}" for number, value in by_number.items())
        raise HarnessError(
            f"one engine is for GPUs of one compute capability; these have {shown}",
            "name those of one kind with --devices",
        )
    return by_number[numbers[0]]
