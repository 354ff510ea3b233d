"""Recording a run while it goes on, without work for every sample.

LoadGen's log has percentiles but no course over time. Answered samples are counted by the workers
anyway; a thread looks at those counts now and then. Latencies are kept of as many queries as fit
into a fixed room, evenly chosen.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import records
from ..jobs import MOMENT_S, LateQueries

LARGEST_RECORD = 1 << 16
LOOK_S = 0.25
LARGEST_SERIES = 300
BINS = 60


class Latencies:
    """The latencies that one worker has recorded; only its own thread writes.

    Every query is kept at first, then every second, every fourth and so on: as many as fit, and
    none preferred for being slow or quick.
    """

    __slots__ = ("_left", "_stride", "ended", "seconds")

    def __init__(self) -> None:
        self._left = self._stride = 1
        self.ended = array("d")
        self.seconds = array("d")

    def add(self, began: float) -> None:
        """Note that a query that came at ``began`` (perf_counter) has been answered now."""
        self._left -= 1
        if not self._left:
            now = time.perf_counter()
            self.ended.append(now)
            self.seconds.append(now - began)
            self._go_on()

    def add_batch(self, began: Sequence[float]) -> None:
        """The same for queries that were answered together: all of them or none."""
        self._left -= 1
        if not self._left:
            now = time.perf_counter()
            self.ended.extend([now] * len(began))
            self.seconds.extend([now - each for each in began])
            self._go_on()

    def _go_on(self) -> None:
        if len(self.ended) >= LARGEST_RECORD:
            self.ended = self.ended[::2]
            self.seconds = self.seconds[::2]
            self._stride *= 2
        self._left = self._stride


class ThroughputRecorder:
    """Looks at ``count``, the number of answered samples, until it is closed.

    ``live`` is a small file with the present state, for programs that show progress.
    """

    def __init__(self, count: Callable[[], int], live: Path) -> None:
        self._count = count
        self._live = live
        self._began = time.perf_counter()
        self._points: list[tuple[float, int]] = [(0.0, 0)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="recorder", daemon=True)

    def __enter__(self) -> ThroughputRecorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self._live.unlink(missing_ok=True)

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            seconds, samples = self._look()
            records.write(self._live, {"seconds": seconds, "samples": samples})

    def _look(self) -> tuple[float, int]:
        point = (round(time.perf_counter() - self._began, 3), self._count())
        self._points.append(point)
        return point

    def series(self, latencies: Sequence[Latencies]) -> dict[str, Any]:
        """Return the course of the run, thinned out, and the distribution of what was recorded."""
        step = max(1, len(self._points) // LARGEST_SERIES)
        thinned = [*self._points[::step], self._points[-1]]
        return {"progress": thinned, **distribution(latencies)}


def distribution(latencies: Sequence[Latencies]) -> dict[str, Any]:
    """Return a histogram with edges in ms that grow by a factor, and percentiles over time."""
    ended, seconds = _together(latencies)
    if not len(seconds):
        return {"recorded": 0, "edges_ms": [], "counts": [], "over_time": []}
    milliseconds = np.maximum(1000 * seconds, 1e-6)
    least, greatest = milliseconds.min(), milliseconds.max()
    edges = np.geomspace(least, max(greatest, 1.001 * least), BINS + 1)
    counts, _ = np.histogram(milliseconds, bins=edges)
    return {
        "recorded": len(seconds),
        "edges_ms": [float(f"{edge:.6g}") for edge in edges],
        "counts": counts.tolist(),
        "over_time": _over_time(ended - ended.min(), milliseconds),
    }


def late(latencies: Sequence[Latencies], limit_s: float) -> LateQueries | None:
    """When the recorded queries took longer than ``limit_s``; None where none was recorded."""
    ended, seconds = _together(latencies)
    if not len(seconds):
        return None
    moments = ((ended - ended.min()) / MOMENT_S).astype(np.int64)
    is_late = seconds > limit_s
    return LateQueries(
        queries=int(is_late.sum()),
        moments=len(np.unique(moments[is_late])),
        of=int(moments.max()) + 1,
        p90_s=float(np.quantile(seconds, 0.9)),
    )


def _together(latencies: Sequence[Latencies]) -> tuple[Any, Any]:
    """Of the queries of all workers, when they were answered and after how many seconds."""
    each = [(np.asarray(one.ended), np.asarray(one.seconds)) for one in latencies]
    ended, seconds = zip(*each, strict=True) if each else ([np.empty(0)], [np.empty(0)])
    return np.concatenate(ended), np.concatenate(seconds)


def _over_time(ended: Any, milliseconds: Any, slices: int = 60) -> list[list[float]]:
    """For equal slices of the run: its middle in s, the median and the 99th percentile in ms."""
    edges = np.linspace(0, max(ended.max(), 1e-9), slices + 1)
    place = np.clip(np.searchsorted(edges, ended, side="right") - 1, 0, slices - 1)
    rows = []
    for number in range(slices):
        mine = milliseconds[place == number]
        if len(mine):
            middle = (edges[number] + edges[number + 1]) / 2
            values = (middle, np.quantile(mine, 0.5), np.quantile(mine, 0.99))
            rows.append([float(f"{value:.5g}") for value in values])
    return rows
