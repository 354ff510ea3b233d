"""What was recorded while a run lasted, as charts: for its report, and for pages of its result."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mlperf.pages import charts

from .. import records
from ..wording import figures

SERIES = "series.json"
PERCENTILES = ("50.00", "90.00", "99.00")

Drawn = tuple[str, str, charts.Chart]


def of_folder(
    folder: Path,
    latencies_ms: Mapping[str, float],
    limit: charts.Marker | None = None,
    queries: int | None = None,
) -> Iterator[Drawn]:
    """Title, note and chart of what ``series.json`` in the folder of a scenario's runs holds.

    ``limit`` is the latency, in ms, that queries must keep, ``queries`` the number of all of them.
    Raises HarnessError where the file is not there or is no JSON.
    """
    series = records.read_json(folder / SERIES)
    if series.get("counts"):
        named = {f"p{float(p):g}": latencies_ms.get(p) for p in PERCENTILES}
        markers = [charts.Marker(name, at) for name, at in named.items() if at]
        words = ", ".join(f"{marker.name} {figures(marker.at)}" for marker in markers)
        note = f"measured {words} ms; {_drawn_queries(series['recorded'], queries)}"
        if limit:
            share = _share_within(series["edges_ms"], series["counts"], limit.at)
            note = f"{share:.4g} % within the limit of {figures(limit.at)} ms; {note}"
            markers.append(limit)
        drawn = charts.histogram(series["edges_ms"], series["counts"], markers, "ms")
        yield "Latency", note, drawn
        shares = charts.cumulative(series["edges_ms"], series["counts"], limit, "ms")
        limit_text = f"; limit {figures(limit.at)} ms" if limit else ""
        yield "Answered within a time", f"% of the queries{limit_text}", shares
    points = rates(series.get("progress", []))
    if len(points) > 1:
        yield "Throughput over time", "samples/s", charts.lines([("", points)], "samples/s")
    times = series.get("over_time", [])
    if len(times) > 1:
        both = [(name, [(row[0], row[k]) for row in times]) for k, name in ((1, "p50"), (2, "p99"))]
        yield "Latency over time", "ms", charts.lines(both, "ms")


def _drawn_queries(recorded: int, queries: int | None) -> str:
    """Return how many queries a chart is of, where some were not recorded."""
    return (
        f"{recorded} of {queries} queries"
        if queries and recorded < queries
        else (f"{recorded} queries")
    )


def _share_within(edges: Sequence[float], counts: Sequence[int], limit: float) -> float:
    """Return the least share of queries, in percent, that took no longer than the limit."""
    within = sum(n for end, n in zip(edges[1:], counts, strict=False) if end <= limit)
    return 100 * within / sum(counts)


def rates(progress: Sequence[Sequence[float]], most: int = 60) -> list[charts.Point]:
    """Samples/s between looks at the count, from the first answer to the last."""
    counts = [count for _, count in progress]
    if not counts or not counts[-1]:
        return []
    first = next(k for k, count in enumerate(counts) if count)
    last = counts.index(counts[-1])
    kept = list(progress[max(0, first - 1) : last + 1])
    step = max(1, len(kept) // most)
    pairs = list(itertools.pairwise(kept[::step]))
    # Begin and end fall somewhere between two looks, so the rates there are too low.
    whole = pairs[1:-1] if len(pairs) > 4 else pairs
    return [
        ((begin[0] + end[0]) / 2 - kept[0][0], (end[1] - begin[1]) / (end[0] - begin[0]))
        for begin, end in whole
        if end[0] > begin[0]
    ]
