"""PyTorch, on models in the ONNX format (converted when they are opened) or as TorchScript."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common.values import dataclass

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, Setup, TensorSpec
from . import lanes, torch_device, torch_lanes
from .base import Array, Backend, Feeds, Layout, Predictor, check_signature
from .lanes import CaptureGate, Lane
from .onnx_file import ROOT, graph_alone, weight_beside
from .torch_device import TorchDevice

# Lanes side by side that are worth trying: one copies while another computes.
LANES = 2
DTYPES = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A module and the names of its inputs and outputs, in its own order."""

    module: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    # The operators of the ONNX graph that it was made from; none of TorchScript.
    operators: frozenset[str] = frozenset()


class TorchPredictor(Predictor):
    """Calls a module that several workers share: PyTorch's modules keep nothing of a call."""

    def __init__(
        self, opened: LoadedModule, outputs: Sequence[str], device: str, dtype: Any, threads: int
    ) -> None:
        self._opened = opened
        self._wanted = [opened.outputs.index(name) for name in outputs]
        self._device = device
        self._dtype = dtype
        self._threads = threads
        # OpenMP keeps a team of threads for every calling thread.
        self.few_callers = threads > 1

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        self._claim_threads()
        inputs = [self._tensor(feeds[name]) for name in self._opened.inputs]
        with torch.inference_mode(), self._casting():
            outputs = self._opened.module(*inputs)
        tensors = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        return [_array(tensors[n]) for n in self._wanted]

    def _claim_threads(self) -> None:
        """PyTorch counts the threads of each calling thread apart."""
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)

    def _tensor(self, array: Array) -> Any:
        with warnings.catch_warnings():
            # Samples lie in read-only memory, which no module writes to.
            warnings.simplefilter("ignore", UserWarning)
            return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _casting(self) -> Any:
        return casting(self._device, self._dtype)


def casting(device: str, dtype: Any) -> Any:
    """What makes PyTorch compute in a number format; None is that of the model."""
    return contextlib.nullcontext() if dtype is None else torch.autocast(device, dtype=dtype)


class PyTorch(Backend):
    """The ``pytorch`` backend; its libraries alone take 700 MB."""

    library_bytes = 1_000_000_000

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.device == "cuda" and not torch.cuda.is_available():
            raise HarnessError(
                f"this PyTorch ({torch.__version__}) sees no CUDA device: install a CUDA build of "
                "it and the NVIDIA driver, or use --device=cpu"
            )
        self._device = setup.device
        self._dtype = DTYPES[setup.precision]
        self._gate = CaptureGate()
        self._tf32 = setup.device == "cuda" and bool(setup.options.get("tf32", False))
        if setup.device == "cuda":
            torch_device.multiply_float32(self._tf32)
        self.prepares = setup.device == "cuda"

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``. All workers share the weights."""
        is_onnx = Path(graph.path).suffix == ".onnx"
        opened = from_onnx(graph, outputs) if is_onnx else from_torchscript(graph)
        opened.module.eval().to(self._device)
        if self._device == "cuda" and opened.operators and torch_lanes.fits(opened.operators):
            return self._lanes(opened, graph, outputs, workers)
        return [
            TorchPredictor(opened, outputs, self._device, self._dtype, threads)
            for _ in range(workers)
        ]

    def _lanes(
        self, opened: LoadedModule, graph: GraphSpec, outputs: Sequence[str], workers: int
    ) -> Sequence[Predictor]:
        """Return a lane per worker; every lane captures its own graphs."""
        device = TorchDevice()
        gate = self._gate if torch_lanes.capturable(opened.operators) else None

        def work() -> torch_lanes.ModuleWork:
            cast = partial(casting, self._device, self._dtype)
            return torch_lanes.ModuleWork(opened, graph.inputs, outputs, cast)

        return [Lane(device, work(), outputs, gate) for _ in range(workers)]

    def preparing(self) -> AbstractContextManager[None]:
        """See ``base.Backend``."""
        return self._gate.opened()

    def computed_by(self) -> dict[str, str]:
        """See ``base.Backend``."""
        tf32 = {"float32 products": "TF32"} if self._tf32 else {}
        return {**tf32, **self._gate.facts()}

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {"pytorch": str(torch.__version__)}

    def device_facts(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return torch_device.facts() if self._device == "cuda" else {}

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """See ``base.Backend``: on a GPU lanes side by side, whatever the cores."""
        if self._device == "cuda":
            return lanes.layouts(LANES, workers)
        return super().layouts(cores, workers, threads)

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """See ``base.Backend``."""
        return (1,) if self._device == "cuda" else super().stream_threads(cores)

    def copies(self, workers: int, threads: int) -> int:
        """See ``base.Backend``: on a GPU the weights are on the device."""
        return 0 if self._device == "cuda" else super().copies(workers, threads)


def from_onnx(graph: GraphSpec, outputs: Sequence[str]) -> LoadedModule:
    """The module of an ONNX graph; raises HarnessError where it cannot be turned into one."""
    import onnx
    import onnx2torch

    from . import torch_operators

    try:
        model = onnx.load_from_string(graph_alone(Path(graph.path)))
    except Exception as error:  # protobuf raises errors of its own
        text = f"cannot read {graph.path}: {error}"
        raise HarnessError(text, OTHER_MODEL) from error
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in weights]
    wanted = [t for t in graph.outputs if t.name in outputs]
    check_signature("input", graph.inputs, _tensors(inputs))
    check_signature("output", wanted, _tensors(model.graph.output))
    # Before what follows changes them: the words of these lists are ONNX's.
    operators = frozenset(node.op_type for node in model.graph.node)
    torch_operators.prepare(model)
    try:
        with warnings.catch_warnings(), _weights_from(ROOT):
            warnings.simplefilter("ignore")
            module = onnx2torch.convert(model)
    except NotImplementedError as error:
        raise HarnessError(
            f"pytorch cannot run {graph.path}: {error}; use --backend=onnxruntime"
        ) from error
    names = tuple(i.name for i in inputs), tuple(o.name for o in model.graph.output)
    return LoadedModule(module, *names, operators)


@contextlib.contextmanager
def _weights_from(folder: Path) -> Iterator[None]:
    """Let the converter read each weight when it needs it, out of the files that hold them.

    With all of them in the graph it would copy the model over and over.
    """
    from onnx2torch.onnx_tensor import OnnxTensor

    usual = OnnxTensor.to_numpy

    def read(tensor: Any) -> Array:
        if not tensor.proto.external_data:
            array: Array = usual(tensor)
            return array
        return weight_beside(tensor.proto, folder)

    OnnxTensor.to_numpy = read
    try:
        yield
    finally:
        OnnxTensor.to_numpy = usual


def from_torchscript(graph: GraphSpec) -> LoadedModule:
    """Return a TorchScript module without names: its arguments are in the order of the facts.

    Raises HarnessError for a file that is none.
    """
    try:
        module: Any = torch.jit.load(  # type: ignore[no-untyped-call, unused-ignore]
            graph.path, map_location="cpu"
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise HarnessError(f"pytorch cannot open {graph.path}: {reason}") from error
    return LoadedModule(
        module, tuple(t.name for t in graph.inputs), tuple(t.name for t in graph.outputs)
    )


def _tensors(infos: Sequence[Any]) -> list[TensorSpec]:
    import onnx

    return [
        TensorSpec(
            info.name,
            np.dtype(onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)).name,
            tuple(
                size.dim_value if size.HasField("dim_value") else -1
                for size in list(info.type.tensor_type.shape.dim)[1:]
            ),
        )
        for info in infos
    ]


def _array(tensor: Any) -> Array:
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    array: Array = tensor.cpu().numpy()
    return array
