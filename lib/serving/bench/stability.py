"""Whether a load has settled: three windows in a row whose rate and tail hardly differ."""

from __future__ import annotations

import time
from collections.abc import Sequence

from . import figures
from .load import Pace, Record

WINDOWS = 3
MOST = 20


class Stability:
    """Looks at windows of ``seconds``; at most ``MOST`` of them."""

    def __init__(self, begin: int, seconds: float, percent: float, percentile: float) -> None:
        self._begin, self._length = begin, int(seconds * 1e9)
        self._percent, self._percentile = percent, percentile
        self._read = [0] * 0
        self._windows: list[list[int]] = []

    def watch(self, records: Sequence[Record]) -> str:
        """Return why to stop; empty while there is no reason."""
        whole = (time.perf_counter_ns() - self._begin) // self._length
        if whole <= len(self._windows) or whole < 1:
            return ""
        self._sort(records, whole)
        if self._settled():
            return f"stable within {self._percent:g} %"
        if whole >= MOST:
            return f"not stable within {self._percent:g} % after {MOST} windows"
        return ""

    def _sort(self, records: Sequence[Record], whole: int) -> None:
        """Put the latencies that came since the last look into their windows."""
        self._windows += [[] for _ in range(whole - len(self._windows))]
        self._read = self._read or [0] * len(records)
        for number, record in enumerate(records):
            place = self._read[number]
            while place < len(record.done):
                window = (record.done[place] - self._begin) // self._length
                if window >= whole:
                    break
                self._windows[window].append(record.done[place] - record.due[place])
                place += 1
            self._read[number] = place

    def _settled(self) -> bool:
        last = self._windows[-WINDOWS:]
        if len(last) < WINDOWS or not all(last):
            return False
        rates = [float(len(each)) for each in last]
        tails = [figures.percentile(sorted(each), self._percentile) for each in last]
        return all(self._near(values) for values in (rates, tails))

    def _near(self, values: Sequence[float]) -> bool:
        mean = sum(values) / len(values)
        return all(abs(each - mean) <= self._percent / 100 * mean for each in values)

    @staticmethod
    def kept_since(pace: Pace, seconds: float) -> int:
        """Return where the windows begin that count: the last three that are whole."""
        length = int(seconds * 1e9)
        whole = (time.perf_counter_ns() - pace.begin) // length
        return pace.begin + max(0, whole - WINDOWS) * length
