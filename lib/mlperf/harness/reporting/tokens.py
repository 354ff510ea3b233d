"""What results say of tokens: their latencies, and whose answers they are."""

from __future__ import annotations

from collections.abc import Iterable

from common.text import aligned

from ..wording import figures
from .results import ScenarioResult

HEADING = ("ms of tokens", "samples/s", "TTFT p50", "p99", "limit", "TPOT p50", "p99", "limit")


def rows(results: Iterable[ScenarioResult]) -> list[tuple[str, ...]]:
    """Return the cells of a table of latencies in ms, a row for each run that timed tokens."""
    return [cells for result in results if (cells := _cells(result))]


def _cells(result: ScenarioResult) -> tuple[str, ...]:
    run = result.performance_run
    if run is None or (tokens := run.tokens) is None or not (tokens.ttft_ms or tokens.tpot_ms):
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
    """Return the lines of the table, and those of ``remarks``."""
    shown = list(results)
    lines = aligned([HEADING, *cells], ruled=True) if (cells := rows(shown)) else []
    return [*lines, *(f"{r.scenario}: {text}" for r in shown for text in remarks(r))]


def remarks(result: ScenarioResult) -> list[str]:
    """Return the rate of a run without latencies, and the agreement with the reference.

    LoadGen has no latencies of tokens in Offline.
    """
    run, accuracy = result.performance_run, result.accuracy_run
    tokens = run.tokens if run else None
    rate = tokens.samples_per_s if tokens and not _cells(result) else None
    texts = [] if rate is None else [f"{figures(rate)} samples/s"]
    if accuracy is not None and accuracy.oracle is not None:
        equal, count = accuracy.oracle
        texts.append(f"{equal} of {count} answers equal those of the reference implementation")
    return texts
