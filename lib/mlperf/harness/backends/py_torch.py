"""PyTorch, on TorchScript and on models in the ONNX format.

Those are computed by a library's module where there is one for the graph, see ``torch_libraries``,
and are converted otherwise.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import OTHER_MODEL, HarnessError
from ..settings import GraphSpec, Setup, TensorSpec
from . import lanes, torch_device, torch_lanes, torch_libraries
from .base import Array, Backend, Feeds, Layout, Predictor, check_signature
from .graph_view import UnknownGraphError
from .lanes import CaptureGate, Lane
from .onnx_file import ROOT, graph_alone
from .torch_device import TorchDevice
from .torch_lanes import CompileBudget

# Whether a library's module is used where there is one: the values of the option ``module``.
AUTO = "auto"
CONVERTED = "converted ONNX graph"
# A library's module answers as the graph does, up to this share of the greatest value, in float32.
CLOSE = 1e-3
# Lanes side by side that are worth trying: one copies while another computes.
LANES = 2
# The largest batch that is worth trying on a GPU, where its memory allows it.
LARGEST = 512
DTYPES = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A module and the names of its inputs and outputs, in its own order."""

    module: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    # The operators of the ONNX graph that it was made from; none of TorchScript. A library's module
    # counts as one.
    operators: frozenset[str] = frozenset()
    # What it is, for the result.
    origin: str = "TorchScript"
    # The number format that PyTorch turns values into as they come; None where weights are in it.
    casts_to: Any = None


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
        self._device = torch_device.kind(setup.device)
        named = str(setup.options.get("devices", ""))
        self._numbers = torch_device.numbers(self._device, named)
        self._dtype = DTYPES[setup.precision]
        self._gate = CaptureGate()
        # By graph and outputs, a module per GPU.
        self._opened: dict[tuple[str, ...], list[LoadedModule]] = {}
        self._tf32 = self._device == "cuda" and bool(setup.options.get("tf32", False))
        if self._device == "cuda":
            torch_device.multiply_float32(self._tf32)
        self.prepares = self._device == "cuda"
        self._is_fixed = False
        self._budget = CompileBudget(float(setup.options.get("compile_s", 0)))
        if self._device == "cuda":
            self.largest_batch = LARGEST

    def open(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``. All workers of a GPU share the weights."""
        opened = self._modules(graph, outputs)
        if self._device == "cuda":
            torch_device.forget_peak()
            if opened[0].operators and torch_lanes.fits(opened[0].operators):
                return self._lanes(opened, graph, outputs, workers)
        return [
            TorchPredictor(
                opened[n % len(opened)], outputs, self._place(n), opened[0].casts_to, threads
            )
            for n in range(workers)
        ]

    def _place(self, worker: int) -> str:
        """Return the device of a worker, as PyTorch names it."""
        if self._device == "cpu":
            return self._device
        return f"{self._device}:{self._numbers[worker % len(self._numbers)]}"

    def place_of(self, worker: int) -> str:
        """See ``base.Backend``."""
        return self._place(worker) if len(self._numbers) > 1 else ""

    def _modules(self, graph: GraphSpec, outputs: Sequence[str]) -> list[LoadedModule]:
        """Return the module of a graph on every GPU, which all layouts of this process share."""
        key = (graph.path, *outputs)
        if key not in self._opened:
            opened = self._loaded(graph, outputs)
            opened = held(opened, self._dtype)
            opened.module.eval()
            copies = [copy.deepcopy(opened.module) for _ in self._numbers[1:]]
            modules = [opened.module, *copies]
            for number, module in enumerate(modules):
                module.to(self._place(number))
            if self._device == "cuda":
                # The streams of lanes do not wait for those of these copies.
                for number in self._numbers:
                    torch.cuda.synchronize(number)
            self._opened[key] = [replace(opened, module=module) for module in modules]
        return self._opened[key]

    def _loaded(self, graph: GraphSpec, outputs: Sequence[str]) -> LoadedModule:
        if Path(graph.path).suffix != ".onnx":
            return from_torchscript(graph)
        if self.setup.options.get("module", AUTO) == AUTO:
            return from_library(graph, outputs)
        return from_onnx(graph, outputs)

    def open_fixed(
        self, graph: GraphSpec, outputs: Sequence[str], workers: int, threads: int, batch: int
    ) -> Sequence[Predictor]:
        """See ``base.Backend``: for few shapes it is worth the time to compile on a GPU."""
        self._is_fixed = self._device == "cuda"
        try:
            return self.open(graph, outputs, workers, threads)
        finally:
            self._is_fixed = False

    def _lanes(
        self,
        modules: Sequence[LoadedModule],
        graph: GraphSpec,
        outputs: Sequence[str],
        workers: int,
    ) -> Sequence[Predictor]:
        """Return a lane per worker, GPU by GPU; every lane captures its own graphs."""
        gate = self._gate if torch_lanes.capturable(modules[0].operators) else None
        devices = [TorchDevice(number) for number in self._numbers]
        fast = [replace(one, module=torch.compile(one.module)) for one in modules if self._is_fixed]

        def lane(worker: int) -> Lane:
            number, place = worker % len(modules), self._place(worker)
            cast = partial(casting, self._device, modules[number].casts_to)
            signature = (graph.inputs, outputs, cast, place)
            work = torch_lanes.ModuleWork(modules[number], *signature)
            compiled = (
                torch_lanes.CompiledModuleWork(self._budget, fast[number], *signature)
                if fast
                else None
            )
            return Lane(devices[number], work, outputs, gate, compiled)

        return [lane(worker) for worker in range(workers)]

    def has_room(self) -> bool:
        """See ``base.Backend``."""
        return self._device != "cuda" or torch_device.has_room()

    def preparing(self) -> AbstractContextManager[None]:
        """See ``base.Backend``."""
        return self._gate.opened()

    def computed_by(self) -> dict[str, str]:
        """See ``base.Backend``."""
        tf32 = {"float32 products": "TF32"} if self._tf32 else {}
        origins = dict.fromkeys(opened[0].origin for opened in self._opened.values())
        return {"module": "; ".join(origins), **tf32, **self._gate.facts()}

    def versions(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {"pytorch": str(torch.__version__)}

    def device_facts(self) -> dict[str, str]:
        """See ``base.Backend``."""
        return {} if self._device == "cpu" else torch_device.facts(self._device, self._numbers[0])

    def layouts(
        self, cores: int, workers: int | None = None, threads: int | None = None
    ) -> list[Layout]:
        """See ``base.Backend``: on a GPU lanes side by side, whatever the cores."""
        if self._device != "cpu":
            return lanes.layouts(LANES, workers, len(self._numbers))
        return super().layouts(cores, workers, threads)

    def stream_threads(self, cores: int) -> tuple[int, ...]:
        """See ``base.Backend``."""
        return (1,) if self._device != "cpu" else super().stream_threads(cores)

    def copies(self, workers: int, threads: int) -> int:
        """See ``base.Backend``: on a GPU the weights are on the device."""
        return 0 if self._device != "cpu" else super().copies(workers, threads)


def from_onnx(graph: GraphSpec, outputs: Sequence[str]) -> LoadedModule:
    """The module of an ONNX graph; raises HarnessError where it cannot be turned into one."""
    from . import torch_operators

    model = _checked(graph, outputs)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in weights]
    # Before what follows changes them: the words of these lists are ONNX's.
    operators = frozenset(node.op_type for node in model.graph.node)
    try:
        module = torch_operators.convert(model)
    except NotImplementedError as error:
        raise HarnessError(
            f"pytorch cannot run {graph.path}: {error}; use --backend=onnxruntime"
        ) from error
    names = tuple(i.name for i in inputs), tuple(o.name for o in model.graph.output)
    return LoadedModule(module, *names, operators, CONVERTED)


def _checked(graph: GraphSpec, outputs: Sequence[str]) -> Any:
    """Return the ONNX model of a graph, with the inputs and outputs that its facts state."""
    import onnx

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
    return model


def from_library(graph: GraphSpec, outputs: Sequence[str]) -> LoadedModule:
    """Return the module of a library that answers as the graph does, or else its conversion.

    Raises HarnessError where there is neither. Only one of both is in memory at a time.
    """
    try:
        known = torch_libraries.recognized(_checked(graph, outputs), ROOT)
    except UnknownGraphError:
        return from_onnx(graph, outputs)
    except ImportError as error:
        converted = from_onnx(graph, outputs)
        return replace(converted, origin=f"{CONVERTED} ({error.name} is not installed)")
    from . import torch_operators

    try:
        expected = torch_libraries.answers(
            torch_operators.convert(known.reference).eval(), known.example
        )
        module = known.build().eval()
        logits = torch_libraries.answers(module.logits, known.example)
        difference = torch_libraries.difference(logits, expected)
        reason = f"answers otherwise, by {difference:.1g}" if difference > CLOSE else ""
    except (UnknownGraphError, RuntimeError) as error:  # of weights of another shape
        reason = f"does not fit: {error}"
    if reason:
        return replace(from_onnx(graph, outputs), origin=f"{CONVERTED} ({known.library} {reason})")
    operators = known.operators | {known.library}
    return LoadedModule(module, known.inputs, known.outputs, operators, known.library)


def held(opened: LoadedModule, dtype: Any) -> LoadedModule:
    """Return a module with its weights in ``dtype``, those of convolutions channels last.

    A library's module casts what comes in and goes out. A converted graph keeps the rest in its own
    format, as boxes and sums need it: PyTorch casts for the operators that gain.
    """
    if opened.origin in opened.operators:
        opened.module.network.to(dtype)
        return opened
    if opened.operators:
        for module in opened.module.modules():
            if dtype is not None and isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
                module.to(dtype)
            if isinstance(module, torch.nn.Conv2d):
                module.to(memory_format=torch.channels_last)
    return replace(opened, casts_to=dtype)


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
