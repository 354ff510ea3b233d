"""What results say of tokens: their latencies, and whose answers they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from common.text import aligned

from ..wording import figures
from .results import AccuracyResult, ScenarioResult

HEADING = ("ms of tokens", "samples/s", "TTFT p50", "p99", "limit", "TPOT p50", "p99", "limit")


def rows(results: Iterable[ScenarioResult]) -> list[tuple[str, ...]]:
    """Return the cells of a table of latencies in ms, a row for each run that timed tokens."""
    return [cells for result in results if (cells := _cells(result))]


def _cells(result: ScenarioResult) -> tuple[str, ...]:
    run = result.performance_run
    if run is None or (tokens := run.tokens) is None:
        return ()
    return (
        result.scenario,
        _figure(tokens.samples_per_s),
        *(_figure(tokens.ttft_ms.get(share)) for share in ("50.00", "99.00")),
        _figure(tokens.ttft_limit_ms),
        *(_figure(tokens.tpot_ms.get(share)) for share in ("50.00", "99.00")),
        _figure(tokens.tpot_limit_ms),
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else figures(value)


def table(results: Iterable[ScenarioResult]) -> list[str]:
    """Return the lines of the table, and of the agreement with the reference implementation."""
    shown = list(results)
    lines = aligned([HEADING, *cells], ruled=True) if (cells := rows(shown)) else []
    return [*lines, *_agreements(shown)]


def _agreements(results: Iterable[ScenarioResult]) -> Iterator[str]:
    for result in results:
        if result.accuracy_run is not None and (text := agreement(result.accuracy_run)):
            yield f"{result.scenario}: {text}"


def agreement(figure: AccuracyResult) -> str:
    """Return how many answers are those of the reference implementation; empty if not known."""
    if figure.oracle is None:
        return ""
    equal, count = figure.oracle
    return f"{equal} of {count} answers equal those of the reference implementation"
