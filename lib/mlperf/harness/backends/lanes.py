"""Lanes: one request in flight on a device, copies on streams of their own, buffers kept.

A lane has three streams: inputs go in on the first, work is done on the second, answers come back
on the third, and events tell each what the one before has done. Several lanes overlap: while one
computes, another copies. Page-locked buffers and memory of the device are kept per size and grow.

Work is captured as a graph for all shapes that a lane meets before a run, while ``CaptureGate`` is
open for its thread. CUDA ends a capture in which a library makes its handles, which it keeps per
thread, and one beside which others allocate or synchronize: so the thread that launches the graphs
captures them, after it has computed the same on the same stream, and nothing else of ours works.
Shapes that are met later are padded to a captured one or computed without a graph.

``CudaDevice`` is the dozen calls of CUDA that this takes; ``torch_device`` makes them by PyTorch.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import HarnessError
from ..jobs import DeviceTime
from .base import Array, Feeds, Layout, Predictor

# Streams, events, memory of the device and graphs: whatever the device makes of them.
Handle = Any
Shapes = Mapping[str, tuple[int, ...]]
# A graph holds memory of its own; shapes beyond so many, as texts have, are enqueued each time.
MOST_GRAPHS = 64
# So often work is done before it is captured: libraries choose algorithms and make workspaces.
WARM_UPS = 3
# So often a graph is launched to compare it with another one, which must be so much faster.
LAUNCHES, GAIN = 5, 0.97
# So many seconds at most are spent on captures in a process: a model with loops has many shapes.
CAPTURE_S = 40.0
# One batch in so many is timed on the device.
TIMED_EVERY = 8
NEWLINE = "\n"


def layouts(most: int, workers: int | None = None, gpus: int = 1) -> list[Layout]:
    """Return lanes side by side, up to ``most`` on a GPU, or as many as were requested."""
    counts = [workers] if workers else range(gpus, gpus * most + 1, gpus)
    return [(count, 1) for count in counts]


def gpu_numbers(named: str, count: Callable[[], int]) -> tuple[int, ...]:
    """Return the GPUs that ``--devices`` names; the first where it is empty.

    Raises HarnessError for one that is not there. Numbers are those of the GPUs that are visible.
    """
    words = [word.strip() for word in named.split(",") if word.strip()]
    if not words:
        return (0,)
    visible = count()
    if words == ["all"]:
        return tuple(range(visible))
    unknown = [word for word in words if not word.isdigit() or int(word) >= visible]
    if unknown:
        last = f"0 to {visible - 1}" if visible else "none"
        text = f"--devices={named}: {unknown[0]} is no GPU here; there are {last}"
        raise HarnessError(
            text, "compare it with `nvidia-smi -L`, `amd-smi list` or `xpu-smi discovery`"
        )
    return tuple(dict.fromkeys(map(int, words)))


class CudaDevice(Protocol):
    """The calls of CUDA. Nothing here waits for the device but ``synchronize``."""

    def stream(self) -> Handle:
        """Create a stream: its work is done in order."""

    def event(self) -> Handle:
        """Something that a stream marks, and others wait for."""

    def pinned(self, size: int) -> Array:
        """Page-locked host memory, as so many bytes [size]."""

    def memory(self, size: int) -> Handle:
        """So many bytes of the device, all 0: rows that pad a batch hold valid values."""

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

    def timer(self) -> Handle:
        """Return an event that notes when a stream marks it."""

    def elapsed(self, began: Handle, ended: Handle) -> float:
        """Return the seconds between two timers that were marked."""

    def capture(self, stream: Handle, work: Callable[[], None]) -> Handle:
        """Return a graph of what ``work`` puts into the stream, which is not done now.

        Raises RuntimeError where that cannot be captured.
        """

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
    """Memory by name, allocated again only where more is needed."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make
        self._kept: dict[str, tuple[int, Any]] = {}

    def take(self, name: str, size: int) -> Any:
        has, memory = self._kept.get(name, (0, None))
        if memory is None or has < size:
            memory = self._make(max(1, size))
            self._kept[name] = (size, memory)
        return memory


class CaptureGate:
    """Says which thread may capture graphs: one at a time, and none while a run is measured.

    ``failure`` is why the last capture failed, empty where none did; ``compiling`` is why compiling
    failed. ``seconds`` were spent on captures. ``shapes`` counts the shapes of batches for which
    compiled work is faster, and those for which it is not.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._thread = 0
        self.failure = ""
        self.compiling = ""
        self.seconds = 0.0
        self.shapes = {"compiled": 0, "not compiled": 0}

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Let the calling thread capture, as soon as no other one does."""
        with self._turn:
            self._thread = threading.get_ident()
            try:
                yield
            finally:
                self._thread = 0

    @property
    def is_open(self) -> bool:
        """Return whether the calling thread may capture now."""
        return self._thread == threading.get_ident()

    def facts(self) -> dict[str, str]:
        """Return how work is computed, and why it is without graphs or not compiled."""
        shapes = self.shapes
        facts = {
            "compiled": f"{shapes['compiled']} of {sum(shapes.values())} shapes"
            if sum(shapes.values())
            else "",
            "not compiled": self.compiling,
            "without graphs": self.failure,
        }
        return {name: fact for name, fact in facts.items() if fact}


class CapturedWork(NamedTuple):
    """A graph, and the tensors whose addresses it holds."""

    graph: Handle
    inputs: Mapping[str, LaneTensor]
    outputs: Mapping[str, LaneTensor]


class CapturedGraphs:
    """The graphs of a lane by the shapes of their inputs; none without a ``gate``."""

    def __init__(self, gate: CaptureGate | None) -> None:
        self.gate = gate
        self._exact: dict[ShapeKey, CapturedWork] = {}
        # By shapes that were not captured: the graph of a larger batch, if there is one.
        self._larger: dict[ShapeKey, CapturedWork | None] = {}

    def may_grow(self) -> bool:
        """Return whether the calling thread may capture one more."""
        gate = self.gate
        if gate is None or not gate.is_open or gate.failure or gate.seconds > CAPTURE_S:
            return False
        return len(self._exact) < MOST_GRAPHS

    def add(self, shapes: Shapes, captured: CapturedWork) -> None:
        """Keep a graph for batches of these shapes."""
        self._exact[_key(shapes)] = captured
        self._larger.clear()

    def exact(self, shapes: Shapes) -> CapturedWork | None:
        """Return the graph of these shapes."""
        return self._exact.get(_key(shapes))

    def larger(self, shapes: Shapes) -> CapturedWork | None:
        """Return the graph of the next larger batch, if it is at most twice as large."""
        key = _key(shapes)
        if key not in self._larger:
            fitting = [captured for captured in self._exact.values() if _pads(captured, shapes)]
            self._larger[key] = min(fitting, key=_batch, default=None)
        return self._larger[key]


class LaneMemory:
    """The memory of a lane by name, on the device and page-locked."""

    def __init__(self, device: CudaDevice) -> None:
        self._pinned = device.pinned
        self._device, self._host = _Pool(device.memory), _Pool(device.pinned)
        self._buffers: dict[int, Array] = {}

    def buffer(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """Return new page-locked memory, which the caller fills."""
        kind = np.dtype(dtype)
        size = kind.itemsize * math.prod(shape)
        flat = self._pinned(max(1, size))
        array: Array = flat[:size].view(kind).reshape(tuple(shape))
        # Kept as long as the lane: a copy may still be under way after the last reference.
        self._buffers[flat.ctypes.data] = flat
        return array

    def tensor(self, name: str, kind: npt.DTypeLike, shape: tuple[int, ...]) -> LaneTensor:
        """Return an input or output on the device."""
        dtype = np.dtype(kind)
        memory = self._device.take(name, dtype.itemsize * math.prod(shape))
        return LaneTensor(dtype, tuple(shape), memory)

    def answer(self, name: str, size: int) -> Array:
        """Return page-locked bytes [size] for an output."""
        memory: Array = self._host.take(f"out {name}", size)[:size]
        return memory

    def locked(self, name: str, array: Array) -> Array:
        """Return the bytes of an input in page-locked memory: where they lie, or copied there."""
        flat: Array = array.reshape(-1).view(np.uint8)
        if array.ctypes.data in self._buffers:
            return flat
        locked: Array = self._host.take(f"in {name}", flat.nbytes)[: flat.nbytes]
        locked[...] = flat
        return locked


class LaneTimer:
    """Times one batch of a lane in so many on its device, by marks in the streams."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._marks = [device.timer() for _ in range(6)]
        self._batches = 0
        self._began = 0.0
        self._is_on = False
        self.total = DeviceTime(0.0, 0.0, 0.0, 0)

    def begin(self, counts: bool) -> None:
        """Begin with a batch; one that does not count is never timed."""
        self._batches += counts
        self._is_on = counts and self._batches % TIMED_EVERY == 0
        self._began = time.perf_counter()

    def mark(self, number: int, stream: Handle) -> None:
        """Mark where a stream is: 0 and 1 around copies in, 2 and 3 work, 4 and 5 copies back."""
        if self._is_on:
            self._device.record(self._marks[number], stream)

    def end(self) -> None:
        """Add a batch up, after its last mark has been waited for."""
        if not self._is_on:
            return
        marks, total = self._marks, self.total
        into, work, back = (self._device.elapsed(*marks[n : n + 2]) for n in (0, 2, 4))
        called = time.perf_counter() - self._began
        self.total = DeviceTime(
            total.called_s + called,
            total.copied_s + into + back,
            total.computed_s + work,
            total.calls + 1,
        )


class CompiledWork(LaneWork, Protocol):
    """Work that gives the same answers, and takes time to be compiled for a shape."""

    def may_compile(self) -> bool:
        """Return whether there is time to compile for one more shape."""


class Lane(Predictor):
    """One worker's way to the device; without a ``gate`` nothing is captured.

    A shape that is captured is computed by ``compiled`` where that is faster.
    """

    def __init__(
        self,
        device: CudaDevice,
        work: LaneWork,
        outputs: Sequence[str],
        gate: CaptureGate | None = None,
        compiled: CompiledWork | None = None,
    ) -> None:
        self._device = device
        self._work = work
        self._compiled = compiled
        self._outputs = list(outputs)
        self._into, self._stream, self._out = device.stream(), device.stream(), device.stream()
        self._copied, self._done, self._back = device.event(), device.event(), device.event()
        self._memory = LaneMemory(device)
        self._graphs = CapturedGraphs(gate)
        self._timer = LaneTimer(device)

    def device_time(self) -> DeviceTime | None:
        """See ``base.Predictor``: that of the batches outside of preparations."""
        return self._timer.total if self._timer.total.calls else None

    def buffer(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """See ``base.Predictor``: page-locked, so that its copy is asynchronous."""
        return self._memory.buffer(shape, dtype)

    def predict(self, feeds: Feeds) -> Sequence[Array]:
        """See ``base.Predictor``."""
        arrays = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        if self._graphs.exact(shapes) is None and self._graphs.may_grow():
            self._capture(shapes, arrays)
        if captured := self._graphs.exact(shapes):
            return self._run(arrays, captured)
        padded = self._graphs.larger(shapes)
        return self._run(arrays, padded, _rows(shapes) if padded else None)

    def _run(
        self, arrays: Feeds, captured: CapturedWork | None, count: int | None = None
    ) -> list[Array]:
        """Compute a batch by a graph or without one.

        The graph may be that of a larger batch, whose first ``count`` rows are the answers.
        """
        timer, gate = self._timer, self._graphs.gate
        timer.begin(gate is None or not gate.is_open)
        inputs, outputs = (captured.inputs, captured.outputs) if captured else self._tensors(arrays)
        self._copy_in(arrays, inputs)
        timer.mark(2, self._stream)
        if captured:
            self._device.launch(captured.graph, self._stream)
        else:
            self._work.enqueue(inputs, outputs, self._stream)
        timer.mark(3, self._stream)
        self._device.record(self._done, self._stream)
        self._device.wait(self._out, self._done)
        timer.mark(4, self._out)
        answers = [self._copy_back(name, outputs[name], count) for name in self._outputs]
        timer.mark(5, self._out)
        self._device.record(self._back, self._out)
        # From here on every buffer may be written again: the last stream has waited for the others.
        self._device.synchronize(self._back)
        timer.end()
        return answers

    def _copy_in(self, arrays: Feeds, inputs: Mapping[str, LaneTensor]) -> None:
        self._timer.mark(0, self._into)
        for name, array in arrays.items():
            locked = self._memory.locked(name, array)
            self._device.copy_in(inputs[name].memory, locked, self._into)
        self._timer.mark(1, self._into)
        self._device.record(self._copied, self._into)
        self._device.wait(self._stream, self._copied)

    def _tensors(self, arrays: Feeds) -> tuple[dict[str, LaneTensor], dict[str, LaneTensor]]:
        """Return the inputs and outputs of a batch, in the memory that is kept for them."""
        tensor = self._memory.tensor
        inputs = {name: tensor(f"in {name}", a.dtype, a.shape) for name, a in arrays.items()}
        layouts = self._work.outputs({name: one.shape for name, one in inputs.items()})
        outputs = {
            name: tensor(f"out {name}", kind, shape) for name, (kind, shape) in layouts.items()
        }
        return inputs, outputs

    def _copy_back(self, name: str, tensor: LaneTensor, count: int | None) -> Array:
        """Copy an answer back, or its first ``count`` rows."""
        shape = tensor.shape if count is None else (count, *tensor.shape[1:])
        size = tensor.dtype.itemsize * math.prod(shape)
        flat = self._memory.answer(name, size)
        self._device.copy_out(flat, tensor.memory, self._out)
        answer: Array = flat.view(tensor.dtype).reshape(shape)
        return answer

    def _capture(self, shapes: Shapes, arrays: Feeds) -> None:
        """Capture the work on batches of these shapes; where that fails, nothing more is captured.

        A graph holds addresses: its tensors stay where they are when others need more memory.
        """
        gate = self._graphs.gate
        assert gate is not None
        began = time.perf_counter()
        inputs, outputs = self._tensors(arrays)
        self._copy_in(arrays, inputs)
        try:
            captured = CapturedWork(self._graph(self._work, inputs, outputs), inputs, outputs)
        except RuntimeError as error:
            gate.failure = str(error).partition("\n")[0]
            return
        gate.seconds += time.perf_counter() - began
        if self._compiled and not gate.compiling and self._compiled.may_compile():
            captured = self._faster(captured, gate, self._compiled)
        self._graphs.add(shapes, captured)

    def _graph(
        self,
        work: LaneWork,
        inputs: Mapping[str, LaneTensor],
        outputs: Mapping[str, LaneTensor],
    ) -> Handle:
        """Return a graph of work that was done on these tensors before."""

        def enqueue() -> None:
            work.enqueue(inputs, outputs, self._stream)

        for _ in range(WARM_UPS):
            enqueue()
        self._device.record(self._done, self._stream)
        self._device.synchronize(self._done)
        return self._device.capture(self._stream, enqueue)

    def _faster(
        self, captured: CapturedWork, gate: CaptureGate, compiled: CompiledWork
    ) -> CapturedWork:
        """Return the graph of compiled work, or the one that there is, where that is as fast."""
        try:
            graph = self._graph(compiled, captured.inputs, captured.outputs)
        except Exception as error:  # compilers raise errors of many kinds
            gate.compiling = f"{type(error).__name__}: {str(error).strip().partition(NEWLINE)[0]}"
            return captured
        is_faster = self._seconds(graph) < GAIN * self._seconds(captured.graph)
        gate.shapes["compiled" if is_faster else "not compiled"] += 1
        return captured._replace(graph=graph) if is_faster else captured

    def _seconds(self, graph: Handle) -> float:
        """Return the least seconds of a few launches."""
        times = []
        for _ in range(LAUNCHES):
            began = time.perf_counter()
            self._device.launch(graph, self._stream)
            self._device.record(self._done, self._stream)
            self._device.synchronize(self._done)
            times.append(time.perf_counter() - began)
        return min(times)


ShapeKey = tuple[tuple[str, tuple[int, ...]], ...]


def _key(shapes: Shapes) -> ShapeKey:
    return tuple(sorted((name, tuple(shape)) for name, shape in shapes.items()))


def _rows(shapes: Shapes) -> int:
    """Return the number of samples in a batch, the same in all inputs."""
    return next(iter(shapes.values()))[0]


def _batch(captured: CapturedWork) -> int:
    return next(iter(captured.inputs.values())).shape[0]


def _pads(captured: CapturedWork, shapes: Shapes) -> bool:
    """Return whether the rows of such a batch can be the first ones of the captured batch."""
    tensors = (*captured.inputs.values(), *captured.outputs.values())
    if not all(tensor.shape for tensor in tensors) or not all(shapes.values()):
        return False
    sizes, counts = {tensor.shape[0] for tensor in tensors}, {s[0] for s in shapes.values()}
    if len(sizes) != 1 or len(counts) != 1 or not min(counts) <= min(sizes) <= 2 * min(counts):
        return False
    rows = {name: tensor.shape[1:] for name, tensor in captured.inputs.items()}
    return rows == {name: tuple(shape[1:]) for name, shape in shapes.items()}
