"""PyTorch's modules in lanes on a GPU, where their answers have the shapes that inputs tell.

Not verified on hardware.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..settings import TensorSpec
from .lanes import Handle, LaneTensor, Shapes

# How many answers there are depends on what they are: memory for them cannot be kept.
COUNTED = {"NonZero", "NonMaxSuppression", "Unique", "Compress", "Loop", "If", "Scan"}
# Their converters look at values on the host, which must not happen while a graph is captured.
LOOKED_AT = COUNTED | {
    *("Shape", "Size", "Range", "ConstantOfShape", "Expand", "Tile", "Resize"),
    *("Slice", "Pad", "CumSum"),
}


def fits(operators: Set[str]) -> bool:
    """Return whether a graph of these ONNX operators can be computed in lanes."""
    return not operators & COUNTED


def capturable(operators: Set[str]) -> bool:
    """Return whether its work can be captured as a graph of CUDA's."""
    return not operators & LOOKED_AT


class ModuleWork:
    """The ``lanes.LaneWork`` of a module.

    ``current`` makes a stream the one that PyTorch's calls go to, ``casting`` is the number format
    that it computes in, ``device`` where its weights are.
    """

    def __init__(
        self,
        opened: Any,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[str],
        casting: Callable[[], Any] = contextlib.nullcontext,
        device: str = "cuda",
        current: Callable[[Handle], Any] | None = None,
    ) -> None:
        self._opened = opened
        self._dtypes = {tensor.name: np.dtype(tensor.dtype) for tensor in inputs}
        self._outputs = {name: opened.outputs.index(name) for name in outputs}
        self._casting = casting
        self._device = device
        self._current = current or torch.cuda.stream
        self._known: dict[tuple[Any, ...], Mapping[str, Any]] = {}

    def outputs(self, shapes: Shapes) -> Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]]:
        """See ``lanes.LaneWork``. Shapes that are met for the first time are tried with zeros."""
        key = tuple(sorted(shapes.items()))
        if key not in self._known:
            inputs = {name: self._zeros(name, shape) for name, shape in shapes.items()}
            answers = self._answers(inputs)
            self._known[key] = {
                name: (_numpy_dtype(answer), tuple(answer.shape))
                for name, answer in answers.items()
            }
        return self._known[key]

    def enqueue(
        self, inputs: Mapping[str, LaneTensor], outputs: Mapping[str, LaneTensor], stream: Handle
    ) -> None:
        """See ``lanes.LaneWork``: answers are copied to where the lane keeps them."""
        with self._current(stream):
            answers = self._answers({name: view(tensor) for name, tensor in inputs.items()})
            for name, answer in answers.items():
                view(outputs[name]).copy_(answer)

    def _zeros(self, name: str, shape: tuple[int, ...]) -> Any:
        kind = torch.from_numpy(np.zeros(0, self._dtypes[name])).dtype
        return torch.zeros(shape, dtype=kind, device=self._device)

    def _answers(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        with torch.inference_mode(), self._casting():
            outputs = self._opened.module(*(inputs[name] for name in self._opened.inputs))
        tensors = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        return {name: tensors[number] for name, number in self._outputs.items()}


class CompileBudget:
    """The seconds that ``torch.compile`` may take in this process."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._longest = 0.0

    def is_left(self) -> bool:
        """Return whether what took longest so far can be done once more."""
        return self._left > self._longest

    def spend(self, seconds: float) -> None:
        """Count what was just compiled, or only computed."""
        self._left -= seconds
        self._longest = max(self._longest, seconds)


class CompiledModuleWork(ModuleWork):
    """The ``lanes.CompiledWork`` of a module; the first call with a shape compiles for it."""

    def __init__(self, budget: CompileBudget, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._budget = budget

    def may_compile(self) -> bool:
        """See ``lanes.CompiledWork``."""
        return self._budget.is_left()

    def enqueue(
        self, inputs: Mapping[str, LaneTensor], outputs: Mapping[str, LaneTensor], stream: Handle
    ) -> None:
        """See ``lanes.LaneWork``."""
        began = time.perf_counter()
        super().enqueue(inputs, outputs, stream)
        self._budget.spend(time.perf_counter() - began)


def view(tensor: LaneTensor) -> Any:
    """Return a tensor of a lane, as PyTorch sees its bytes."""
    kind = torch.from_numpy(np.zeros(0, tensor.dtype)).dtype
    size = int(np.prod(tensor.shape)) * tensor.dtype.itemsize
    return torch.as_tensor(tensor.memory)[:size].view(kind).view(tensor.shape)


def _numpy_dtype(tensor: Any) -> np.dtype[Any]:
    """NumPy has no bfloat16: such answers come as float32."""
    plain = torch.float32 if tensor.dtype is torch.bfloat16 else tensor.dtype
    dtype: np.dtype[Any] = torch.empty(0, dtype=plain).numpy().dtype
    return dtype
