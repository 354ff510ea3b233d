"""ONNX Runtime where tensors are bound to memory of the device, and CUDA graphs of its own.

Not verified on hardware: tests run the same with the host as the device.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime

from .base import Array, Feeds, Predictor
from .lanes import WARM_UPS, CapturedGraphs, CapturedWork, CaptureGate, LaneTensor, Shapes

# The entry of a run's options that names a graph, and the value that stands for none.
GRAPH, NO_GRAPH = "gpu_graph_id", -1


class BoundPredictor(Predictor):
    """Calls a session of its own with inputs that lie on ``device`` by its ``number``.

    With a ``gate`` the work on a shape that is met while that is open is captured: ONNX Runtime
    does so in the first calls under a number, and needs the same addresses in all of them.
    """

    def __init__(
        self,
        session: Any,
        outputs: Sequence[str],
        device: str,
        gate: CaptureGate | None = None,
        number: int = 0,
    ) -> None:
        self._session = session
        self._outputs = list(outputs)
        self._device = device
        self._number = number
        self._graphs = CapturedGraphs(gate)
        self._numbers = itertools.count(1)
        self._free = _options(NO_GRAPH)
        # By name: the memory of the inputs, made anew where a batch has another shape.
        self._inputs: dict[str, LaneTensor] = {}

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        arrays = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        if self._graphs.exact(shapes) is None and self._graphs.may_grow():
            self._capture(shapes, arrays)
        if captured := self._graphs.exact(shapes) or self._graphs.larger(shapes):
            return self._replayed(captured, arrays)
        return self._computed(arrays)

    def _computed(self, arrays: Feeds) -> list[Array]:
        """Compute a batch without a graph."""
        binding = self._session.io_binding()
        for name, array in arrays.items():
            kept = self._inputs.get(name)
            if kept is None or (kept.shape, kept.dtype) != (array.shape, array.dtype):
                kept = self._inputs[name] = self._tensor(array)
            kept.memory.update_inplace(array)
            binding.bind_ortvalue_input(name, kept.memory)
        for name in self._outputs:
            binding.bind_output(name, self._device, self._number)
        self._session.run_with_iobinding(binding, self._free)
        answers: list[Array] = binding.copy_outputs_to_cpu()
        return answers

    def _replayed(self, captured: CapturedWork, arrays: Feeds) -> list[Array]:
        """Compute by a graph, perhaps one of a larger batch, whose first rows are the answers."""
        binding, options = captured.graph
        count = len(next(iter(arrays.values())))
        for name, tensor in captured.inputs.items():
            tensor.memory.update_inplace(_filled(arrays[name], tensor.shape))
        self._session.run_with_iobinding(binding, options)
        return [captured.outputs[name].memory.numpy()[:count] for name in self._outputs]

    def _capture(self, shapes: Shapes, arrays: Feeds) -> None:
        """Let ONNX Runtime capture the work on batches of these shapes.

        Where that fails nothing more is captured.
        """
        gate = self._graphs.gate
        assert gate is not None
        began = time.perf_counter()
        answers = dict(zip(self._outputs, self._computed(arrays), strict=True))
        inputs = {name: self._tensor(array) for name, array in arrays.items()}
        outputs = {name: self._tensor(answer) for name, answer in answers.items()}
        binding, options = self._session.io_binding(), _options(next(self._numbers))
        for name, tensor in inputs.items():
            binding.bind_ortvalue_input(name, tensor.memory)
        for name, tensor in outputs.items():
            binding.bind_ortvalue_output(name, tensor.memory)
        try:
            for _ in range(WARM_UPS):
                self._session.run_with_iobinding(binding, options)
        except Exception as error:  # onnxruntime raises its own C++ exceptions without a base
            gate.failure = str(error).strip().partition("\n")[0]
            return
        gate.seconds += time.perf_counter() - began
        self._graphs.add(shapes, CapturedWork((binding, options), inputs, outputs))

    def _tensor(self, array: Array) -> LaneTensor:
        """Return a copy of an array in the memory of the device."""
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array, self._device, self._number)
        return LaneTensor(array.dtype, array.shape, value)


def _options(number: int) -> Any:
    options = onnxruntime.RunOptions()
    options.add_run_config_entry(GRAPH, str(number))
    return options


def _filled(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array with rows of zeros behind its own, in ``shape``."""
    if array.shape == shape:
        return array
    filled = np.zeros(shape, array.dtype)
    filled[: len(array)] = array
    return filled
