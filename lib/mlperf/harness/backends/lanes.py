"""Lanes: one request in flight on a device, copies on streams of their own, buffers kept.

A lane has three streams: inputs go in on the first, work is done on the second, answers come back
on the third, and events tell each what the one before has done. Several lanes overlap: while one
computes, another copies. Page-locked buffers and memory of the device are kept per size and
grow; work on shapes that come again is captured as a graph, by batch size.

``CudaDevice`` is the dozen calls of CUDA that this takes; ``torch_device`` makes them by PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .base import Array, Feeds, Layout, Predictor

# Streams, events, memory of the device and graphs: whatever the device makes of them.
Handle = Any
Shapes = Mapping[str, tuple[int, ...]]
# A graph holds memory of its own; shapes beyond so many, as texts have, are enqueued each time.
MOST_GRAPHS = 32


def layouts(most: int, workers: int | None = None) -> list[Layout]:
    """Lanes side by side, ``most`` of them, or as many ``workers`` as were requested."""
    counts = [workers] if workers else range(1, most + 1)
    return [(count, 1) for count in counts]


class CudaDevice(Protocol):
    """The calls of CUDA. Nothing here waits for the device but ``synchronize``."""

    def stream(self) -> Handle:
        """Create a stream: its work is done in order."""

    def event(self) -> Handle:
        """Something that a stream marks, and others wait for."""

    def pinned(self, size: int) -> Array:
        """Page-locked host memory, as so many bytes [size]."""

    def memory(self, size: int) -> Handle:
        """So many bytes of the device."""

    def copy_in(self, target: Handle, source: Array, stream: Handle) -> None:
        """Copy page-locked bytes [n] to the device."""

    def copy_out(self, target: Array, source: Handle, stream: Handle) -> None:
        """Copy from the device to page-locked bytes [n]."""

    def record(self, event: Handle, stream: Handle) -> None:
        """Let the stream mark the event when it gets there."""

    def wait(self, stream: Handle, event: Handle) -> None:
        """Let the stream wait for the event."""

    def synchronize(self, event: Handle) -> None:
        """Wait here until the event was marked."""

    def capture(self, stream: Handle, work: Callable[[], None]) -> Handle:
        """Return a graph of what ``work`` puts into the stream, which is not done now."""

    def launch(self, graph: Handle, stream: Handle) -> None:
        """Put a graph into the stream."""


class LaneTensor(NamedTuple):
    """An input or output of a batch: its type, its shape, and where it lies on the device."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    memory: Handle


class LaneWork(Protocol):
    """What a lane computes: an engine, a module."""

    def outputs(self, shapes: Shapes) -> Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]]:
        """Type and shape of each answer to inputs of these shapes."""

    def enqueue(
        self, inputs: Mapping[str, LaneTensor], outputs: Mapping[str, LaneTensor], stream: Handle
    ) -> None:
        """Put the work on a batch into the stream."""


class _Pool:
    """Memory by name, allocated again only where more is needed; it reports allocations."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make
        self._kept: dict[str, tuple[int, Any]] = {}
        self.grown = 0

    def take(self, name: str, size: int) -> Any:
        has, memory = self._kept.get(name, (0, None))
        if memory is None or has < size:
            memory = self._make(max(1, size))
            self._kept[name] = (size, memory)
            self.grown += 1
        return memory


class Lane(Predictor):
    """One worker's way to the device."""

    def __init__(
        self, device: CudaDevice, work: LaneWork, outputs: Sequence[str], graphs: bool = True
    ) -> None:
        self._device = device
        self._work = work
        self._outputs = list(outputs)
        self._into, self._stream, self._out = device.stream(), device.stream(), device.stream()
        self._copied, self._done, self._back = device.event(), device.event(), device.event()
        self._host, self._answers = _Pool(device.pinned), _Pool(device.pinned)
        self._memory = _Pool(device.memory)
        self._given: dict[int, Array] = {}
        self._graphs: dict[tuple[Any, ...], Handle] | None = {} if graphs else None
        self._met: set[tuple[Any, ...]] = set()
        self._grown = 0

    def buffer(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """See ``base.Predictor``: page-locked, so that it is copied without a stop."""
        kind = np.dtype(dtype)
        size = kind.itemsize * math.prod(shape)
        flat = self._device.pinned(max(1, size))
        array: Array = flat[:size].view(kind).reshape(tuple(shape))
        # Kept as long as the lane: a copy may still be under way after the last reference.
        self._given[flat.ctypes.data] = flat
        return array

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        arrays = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
        inputs = {name: self._tensor(f"in {name}", a.dtype, a.shape) for name, a in arrays.items()}
        layouts = self._work.outputs({name: tensor.shape for name, tensor in inputs.items()})
        outputs = {
            name: self._tensor(f"out {name}", kind, shape)
            for name, (kind, shape) in layouts.items()
        }
        for name, array in arrays.items():
            self._device.copy_in(inputs[name].memory, self._locked(name, array), self._into)
        self._device.record(self._copied, self._into)
        self._device.wait(self._stream, self._copied)
        self._compute(inputs, outputs)
        self._device.record(self._done, self._stream)
        self._device.wait(self._out, self._done)
        answers = [self._copy_back(name, outputs[name]) for name in self._outputs]
        self._device.record(self._back, self._out)
        # From here on every buffer may be written again: the last stream has waited for the others.
        self._device.synchronize(self._back)
        return answers

    def _tensor(self, name: str, kind: npt.DTypeLike, shape: tuple[int, ...]) -> LaneTensor:
        dtype = np.dtype(kind)
        memory = self._memory.take(name, dtype.itemsize * math.prod(shape))
        return LaneTensor(dtype, tuple(shape), memory)

    def _locked(self, name: str, array: Array) -> Array:
        """Return the bytes of an input in page-locked memory: where they lie, or copied there."""
        flat: Array = array.reshape(-1).view(np.uint8)
        if array.ctypes.data in self._given:
            return flat
        locked: Array = self._host.take(name, flat.nbytes)[: flat.nbytes]
        locked[...] = flat
        return locked

    def _copy_back(self, name: str, tensor: LaneTensor) -> Array:
        size = tensor.dtype.itemsize * math.prod(tensor.shape)
        flat = self._answers.take(name, size)[:size]
        self._device.copy_out(flat, tensor.memory, self._out)
        answer: Array = flat.view(tensor.dtype).reshape(tensor.shape)
        return answer

    def _compute(self, inputs: Mapping[str, LaneTensor], outputs: Mapping[str, LaneTensor]) -> None:
        """Launch the graph of these shapes; the first time compute without one."""

        def work() -> None:
            self._work.enqueue(inputs, outputs, self._stream)

        if self._graphs is None:
            work()
            return
        if self._grown != self._memory.grown:
            # Graphs hold addresses, and some memory lies elsewhere now.
            self._graphs.clear()
            self._grown = self._memory.grown
        key = tuple((name, tensor.shape) for name, tensor in sorted(inputs.items()))
        if key not in self._met:
            # What is done the first time, such as choosing algorithms, must not be captured.
            self._met.add(key)
            work()
            return
        graph = self._graphs.get(key)
        if graph is None and len(self._graphs) < MOST_GRAPHS:
            graph = self._graphs[key] = self._device.capture(self._stream, work)
        if graph is None:
            work()
        else:
            self._device.launch(graph, self._stream)
