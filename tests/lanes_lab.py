"""A recording stand-in for the dozen calls of CUDA that lanes make.

It does what was put into its streams late and in any order that streams and events allow, so that a
buffer that is written too early, or read too early, gives a wrong answer. It claims no more.
"""

from __future__ import annotations

import random
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


class Recorder:
    """The dozen calls; ``lazy`` streams do nothing before somebody waits."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._streams: list[Stream] = []
        self._captured: list[Callable[[], None]] | None = None
        self.calls: list[str] = []
        self.allocated = 0

    # What the device does in the meantime.

    def put(self, stream: Stream, do: Callable[[], None], may: Callable[[], bool] = bool) -> None:
        if self._captured is not None:
            self._captured.append(do)
            return
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
        self.calls.append("pinned")
        return np.full(size, 0xAA, np.uint8)

    def memory(self, size: int) -> Any:
        self.calls.append("memory")
        return np.full(size, 0x55, np.uint8)

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
        number = event.asked
        while event.marked < number:
            assert self._step(), "streams wait for each other for ever"

    def capture(self, stream: Any, work: Callable[[], None]) -> Any:
        self.calls.append("capture")
        self._captured = []
        work()
        found, self._captured = self._captured, None
        return found

    def launch(self, graph: Any, stream: Any) -> None:
        self.calls.append("launch")

        def do() -> None:
            for each in graph:
                each()

        self.put(stream, do)
