"""The energy of processors and GPUs by their own counters, where this user may read them.

That is telemetry: what the machine says of itself, not a measurement by the power rules.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..jobs import RunEnergy, SourceEnergy

POWERCAP = Path("/sys/class/powercap")
# Zones that are no part of another one: a package has its cores in it, and psys has packages.
WHOLE = ("package", "dram")

Points = Sequence[tuple[float, float]]
# From when to when, by ``time.monotonic``.
Span = tuple[float, float]
# Joules so far, and at how many joules the counter starts again (0: never).
Counters = Mapping[str, tuple[float, float]]


def counters(powercap: Path = POWERCAP) -> dict[str, tuple[float, float]]:
    """Return the counters of processors (RAPL) by name."""
    by_name = {}
    for zone in sorted(powercap.glob("intel-rapl:*")):
        try:
            name = (zone / "name").read_text(encoding="utf-8").strip()
            joules = int((zone / "energy_uj").read_text(encoding="utf-8")) / 1e6
            turn = int((zone / "max_energy_range_uj").read_text(encoding="utf-8")) / 1e6
        except (OSError, ValueError):
            continue  # since 2020 most kernels show these only to root
        by_name[f"rapl {zone.name.removeprefix('intel-rapl:')} {name}"] = (joules, turn)
    return by_name


def used(before: Counters, after: Counters) -> dict[str, float]:
    """Joules between two readings of ``counters``; a counter may have started again once."""
    by_source = {}
    for name, (end, turn) in after.items():
        if name in before:
            joules = end - before[name][0]
            by_source[name] = round(joules + turn if joules < 0 else joules, 3)
    return {name: joules for name, joules in by_source.items() if joules >= 0}


class EnergyMeter:
    """The counters of processors over time."""

    def __init__(self) -> None:
        self._last: Counters = {}
        self._points: dict[str, list[tuple[float, float]]] = {}

    def add(self, at_s: float, reading: Counters) -> None:
        """Note a reading of ``counters``."""
        if not self._points:
            self._points = {name: [(at_s, 0.0)] for name in reading}
        for name, joules in used(self._last, reading).items():
            points = self._points.setdefault(name, [(at_s, 0.0)])
            points.append((at_s, points[-1][1] + joules))
        self._last = reading

    def total(self) -> dict[str, float]:
        """Return the joules of all counters from the first reading to the last."""
        return {name: round(points[-1][1], 3) for name, points in self._points.items()}

    def whole(self) -> list[Points]:
        """Return the courses of the counters that count nothing twice."""
        return [
            points for name, points in self._points.items() if name.split()[2].startswith(WHOLE)
        ]


def of_run(
    span: Span, samples: int, processors: Iterable[Points], gpus: Mapping[str, SourceEnergy]
) -> RunEnergy | None:
    """Return the energy of a run; None where no source can be read, or nothing was answered."""
    seconds = span[1] - span[0]
    used_by = [joules for points in processors if (joules := within(points, span)) is not None]
    sources = dict(gpus)
    if used_by and seconds > 0:
        sources["CPU"] = SourceEnergy(round(sum(used_by), 3), round(sum(used_by) / seconds, 2))
    joules = sum(source.joules for source in sources.values())
    if not joules or not samples or seconds <= 0:
        return None
    per_sample = float(f"{joules / samples:.6g}")
    return RunEnergy(sources, round(seconds, 3), samples, per_sample, round(joules / seconds, 2))


def within(points: Points, span: Span | None) -> float | None:
    """Return the growth of a counter within ``span``, or of all its points; None for under two."""
    if len(points) < 2:
        return None
    start, end = span or (points[0][0], points[-1][0])
    return round(max(0.0, _value(points, end) - _value(points, start)), 3)


def _value(points: Points, at_s: float) -> float:
    """Return the counter at a time; before the first and after the last as it went on there."""
    times = [time for time, _ in points]
    right = min(max(bisect_right(times, at_s), 1), len(points) - 1)
    (t0, v0), (t1, v1) = points[right - 1], points[right]
    return v1 if t1 <= t0 else v0 + (v1 - v0) * (at_s - t0) / (t1 - t0)


def integrated(powers: Points) -> Points:
    """Return the joules so far at the times of readings in watts."""

    def course() -> Iterator[tuple[float, float]]:
        joules = 0.0
        for number, (time, watts) in enumerate(powers):
            if number:
                before, earlier = powers[number - 1]
                joules += (time - before) * (watts + earlier) / 2
            yield time, joules

    return list(course())
