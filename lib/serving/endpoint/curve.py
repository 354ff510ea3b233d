"""The curve of a session: throughput of the server against the speed that one user sees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.problems import Problem
from mlperf.pages import charts, raster, scatter
from mlperf.pages.charts import Chart, ChartFrame, Point
from mlperf.pages.scatter import Axis, Mark
from serving.bench.report import load_in_words

from . import report
from .figures import EndpointPoint, keeps
from .report import EndpointSession

FRAME = ChartFrame(440.0, 310.0, left=48.0, right=24.0, top=34.0, bottom=46.0)
WIDE_RANGE = 30.0
"""Figures that differ by more are drawn over logarithmic axes."""
MOST_NAMES = 14
PICTURE_HEAD, LEGEND, NOTE = 34.0, 24.0, 16.0
READING = "numbers: {load}; up and to the right is better; solid: no other load beats it"
LONGER = "a longer --duration, or fewer --output_tokens"


@dataclass(frozen=True, slots=True)
class _Spot:
    """A load in the plane: tokens per second of one user, and of all."""

    user: float
    total: float
    series: int
    name: str
    label: str
    is_good: bool = True


def tradeoff(session: EndpointSession) -> Chart | None:
    """Return the chart; None where no load has both figures.

    A line joins the loads of a series by their size; those that no other one of it beats are
    solid. The loads of the session are named, and pale where they miss the limits.
    """
    spots = [*_own(session), *_others(session)]
    if not spots:
        return None
    least = _least(session)
    x = _axis([spot.user for spot in spots] + ([least] if least else []))
    y = _axis([spot.total for spot in spots])
    series = range(1 + len(session.beside))
    fronts = [_frontier(spots, number) for number in series]
    marks = [
        Mark(
            *(spot.user, spot.total, spot.series, spot.label),
            best=(spot.user, spot.total) in fronts[spot.series],
        )
        for spot in spots
    ]
    names = ["this run", *(run.name for run in session.beside)] if session.beside else []
    chart = scatter.plane(x, y, names, marks, frame=FRAME)
    chart.name = "output tokens per second of all users over those of one user"
    chart.unit = "tokens/s of one user"
    across, up = x.scale(FRAME.left, FRAME.end), y.scale(FRAME.base, FRAME.top)
    chart.texts = [(4.0, 16.0, "start", "tokens/s of all users"), *_names(spots, across, up)]
    for number in series:
        path = [(across(each.user), up(each.total)) for each in spots if each.series == number]
        chart.lines.append((f"line {scatter.colour(number)}", path, ""))
    if least:
        _mark_limit(chart, across(least), f"limit: TPOT {1e3 / least:.4g} ms")
    return chart


def png(session: EndpointSession) -> bytes:
    """Return the curve as a picture; raise Problem where no load has its figures."""
    chart = tradeoff(session)
    if chart is None:
        raise Problem("requests-failed", "no load has the figures of the curve", LONGER)
    frame, call = chart.frame, session.target.call
    lines = raster.wrapped(report.outcome(session), frame.width)
    head = PICTURE_HEAD + raster.LINE * len(lines) + LEGEND * bool(chart.series)
    canvas = raster.ChartCanvas(frame.width, head + frame.height + NOTE)
    canvas.head(f"{session.target.model} at {call.endpoint.address.host}", *lines)
    canvas.legend(head - raster.LINE / 2, chart.series)
    canvas.chart(chart, 0.0, head)
    load = "requests per second" if call.load.open_loop else "requests in flight"
    canvas.note(head + frame.height + NOTE, READING.format(load=load))
    return canvas.png()


def _least(session: EndpointSession) -> float | None:
    """Return the least speed of one user that keeps the limit of TPOT; None without one."""
    limit = session.target.call.slo.get("tpot")
    return 1e9 / limit if limit else None


def _mark_limit(chart: Chart, at: float, words: str) -> None:
    chart.lines.append(("limit", [(at, FRAME.base), (at, FRAME.top)], words))
    is_right = at > FRAME.width / 2
    place = at - 5 if is_right else at + 5
    chart.texts.append((place, FRAME.base - 14, "end" if is_right else "start", words))


def _own(session: EndpointSession) -> Iterator[_Spot]:
    call = session.target.call
    for point in sorted(session.points, key=lambda point: point.load.size):
        user, total = point.user_rate, point.tokens.rate
        if user and total > 0:
            is_good = not call.slo or keeps(point, call.slo, call.load.percentile)
            label = _label(load_in_words(point.load), total, user)
            label += "" if is_good else "; misses --slo"
            yield _Spot(user, total, 0, _size(point), label, is_good)


def _others(session: EndpointSession) -> Iterator[_Spot]:
    for number, run in enumerate(session.beside, 1):
        for point in run.points:
            user, total = point.tokens_per_s_per_user, point.output_tokens_per_s
            if user and total:
                label = f"{run.name}, {_label(point.load, total, user)}"
                yield _Spot(user, total, number, "", label)


def _label(load: str, total: float, user: float) -> str:
    return f"{load}: {total:.4g} tok/s, {user:.4g} of one user"


def _size(point: EndpointPoint) -> str:
    return f"{point.load.size:g}" + "/s" * point.load.open_loop


def _axis(values: Sequence[float]) -> Axis:
    low, high = min(values), max(values)
    is_log = high / low > WIDE_RANGE
    return Axis("", "tok/s", low if is_log else 0.0, high, log=is_log)


def _frontier(spots: Sequence[_Spot], series: int) -> list[Point]:
    """Return the loads of a series that no other one beats, ascending in the speed of one user."""
    best: list[Point] = []
    chosen = [spot for spot in spots if spot.series == series and spot.is_good]
    for spot in sorted(chosen, key=lambda spot: (-spot.user, -spot.total)):
        if not best or spot.total > best[-1][1]:
            best.append((spot.user, spot.total))
    return best[::-1]


def _names(
    spots: Sequence[_Spot], across: charts.Scale, up: charts.Scale
) -> Iterator[tuple[float, float, str, str]]:
    """Yield the sizes of the loads above their points, the fewer the closer these are.

    A name is on the side away from the line to the next point, where that rises.
    """
    last: Point | None = None
    named = sorted((spot for spot in spots if spot.name), key=lambda spot: spot.user)[:MOST_NAMES]
    for spot, after in itertools.zip_longest(named, named[1:]):
        rises = after is not None and after.total > spot.total
        at = (across(spot.user) + (-6 if rises else 6), up(spot.total) - 7)
        if last is None or abs(at[0] - last[0]) > 18 or abs(at[1] - last[1]) > 14:
            last = at
            yield (*at, "end" if rises else "start", spot.name)
