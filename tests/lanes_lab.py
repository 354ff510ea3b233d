"""A recording stand-in for the dozen calls of CUDA that lanes make.

It does what was put into its streams late and in any order that streams and events allow, so that a
buffer that is written too early, or read too early, gives a wrong answer. It keeps CUDA's rules of
a capture too (documentation of cudaThreadExchangeStreamCaptureMode): see ``Capture``. It claims no
more.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Event:
    """How often it was put into a stream, and how often the stream has come to it."""

    def __init__(self) -> None:
        self.asked = self.marked = 0


class Stream:
    """Actions that are not done yet; each says whether it may be done, and does it."""

    def __init__(self) -> None:
        self.left: deque[tuple[Callable[[], bool], Callable[[], None]]] = deque()


class Capture:
    """A capture that goes on; it is ``broken`` by what must not happen meanwhile.

    Its own thread may not allocate, lock memory or synchronize, nor compute for the first time with
    a library, which then makes handles and workspaces for that thread and stream. In the mode
    "global" no other thread may do so either, and never may another capture begin.
    """

    def __init__(self, stream: Stream) -> None:
        self.thread, self.stream = threading.get_ident(), stream
        self.actions: list[Callable[[], None]] = []
        self.broken = ""


class CaptureError(RuntimeError):
    """What PyTorch raises as an AcceleratorError."""


class Recorder:
    """The dozen calls; ``lazy`` streams do nothing before somebody waits."""

    def __init__(self, seed: int, mode: str = "thread_local") -> None:
        self._random = random.Random(seed)
        self._streams: list[Stream] = []
        self._mode = mode
        self._capture: Capture | None = None
        self._handles: set[tuple[int, int]] = set()
        self._turn = threading.RLock()
        self.calls: list[str] = []
        # The threads that captured and that launched, in order.
        self.capturing: list[int] = []
        self.launching: list[int] = []

    def compute(self, stream: Stream, do: Callable[[], None]) -> None:
        """Put work of a library into a stream: its handles are of this thread and stream."""
        handle = (threading.get_ident(), id(stream))
        if handle not in self._handles:
            self._unsafe("a library makes its handles")
            self._handles.add(handle)
        self.put(stream, do)

    def _unsafe(self, what: str) -> None:
        """Do what breaks a capture; raises CaptureError in the thread that captures."""
        capture = self._capture
        if capture is None:
            return
        mine = capture.thread == threading.get_ident()
        if mine or self._mode == "global":
            capture.broken = capture.broken or what
        if mine:
            raise CaptureError(
                f"CUDA error: operation not permitted when stream is capturing: {what}"
            )

    # What the device does in the meantime.

    def put(self, stream: Stream, do: Callable[[], None], may: Callable[[], bool] = bool) -> None:
        capture = self._capture
        if capture is not None and capture.thread == threading.get_ident():
            capture.actions.append(do)
            return
        with self._turn:
            stream.left.append((may if may is not bool else lambda: True, do))
            for _ in range(self._random.randrange(3)):
                self._step()

    def _step(self) -> bool:
        ready = [each for each in self._streams if each.left and each.left[0][0]()]
        if ready:
            self._random.choice(ready).left.popleft()[1]()
        return bool(ready)

    # The calls.

    def stream(self) -> Any:
        self._streams.append(Stream())
        return self._streams[-1]

    def event(self) -> Any:
        return Event()

    def pinned(self, size: int) -> Array:
        self._unsafe("memory is locked")
        self.calls.append("pinned")
        return np.full(size, 0xAA, np.uint8)

    def memory(self, size: int) -> Any:
        self._unsafe("memory is allocated")
        self.calls.append("memory")
        return np.zeros(size, np.uint8)

    def copy_in(self, target: Any, source: Array, stream: Any) -> None:
        def do() -> None:
            target[: source.nbytes] = source

        self.put(stream, do)

    def copy_out(self, target: Array, source: Any, stream: Any) -> None:
        def do() -> None:
            target[...] = source[: target.nbytes]

        self.put(stream, do)

    def record(self, event: Any, stream: Any) -> None:
        event.asked += 1
        number = event.asked

        def do() -> None:
            event.marked = number

        self.put(stream, do)

    def wait(self, stream: Any, event: Any) -> None:
        number = event.asked
        self.put(stream, lambda: None, lambda: event.marked >= number)

    def synchronize(self, event: Any) -> None:
        self._unsafe("a thread synchronizes")
        number = event.asked
        with self._turn:
            while event.marked < number:
                assert self._step(), "streams wait for each other for ever"

    def timer(self) -> Any:
        return Event()

    def elapsed(self, began: Any, ended: Any) -> float:
        assert began.asked == began.marked, "a timer is read before the stream has come to it"
        assert ended.asked == ended.marked, "a timer is read before the stream has come to it"
        return 0.001

    def capture(self, stream: Any, work: Callable[[], None]) -> Any:
        if self._capture is not None:
            self._capture.broken = "another capture begins"
            raise CaptureError("CUDA error: another capture is under way")
        self.calls.append("capture")
        self.capturing.append(threading.get_ident())
        self._capture = capture = Capture(stream)
        try:
            work()
        finally:
            self._capture = None
        if capture.broken:
            text = "operation failed due to a previous error during capture"
            raise CaptureError(f"CUDA error: {text}\nit was: {capture.broken}")
        return capture.actions

    def launch(self, graph: Any, stream: Any) -> None:
        self.calls.append("launch")
        self.launching.append(threading.get_ident())

        def do() -> None:
            for each in graph:
                each()

        self.put(stream, do)
