"""Earlier performance results of a system: one line of JSON each, next to its stored targets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .. import records
from ..errors import HarnessError
from .results import PerformanceResult, Results

FILE = "history.jsonl"
MODEL_DIGITS = 12


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One result; those of equal ``configuration`` can be compared."""

    configuration: str
    measured_at: str
    value: float
    unit: str
    validity: str
    versions: dict[str, str]
    folder: str


def configuration(results: Results, scenario: str, precision: str) -> str:
    """What must be equal for two results to be compared; versions may differ, and are shown."""
    form = f" {results.form}" if results.form else ""
    model = str(results.model["sha256"])[:MODEL_DIGITS]
    return (
        f"{results.benchmark}{form} {model} {scenario} {results.device} {results.backend} "
        f"{precision} {results.style}"
    )


def read(path: Path) -> list[HistoryEntry]:
    """Return all entries that can be read, the oldest first."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    entries = [entry for line in lines if (entry := _read(line)) is not None]
    return sorted(entries, key=lambda entry: entry.measured_at)


def _read(line: str) -> HistoryEntry | None:
    try:
        return records.decode(HistoryEntry, json.loads(line))
    except (HarnessError, ValueError):
        return None  # cut off, or of another version


def remember(path: Path, results: Results, precision: str) -> list[HistoryEntry]:
    """Add the results that are not there yet; returns everything."""
    known = read(path)
    seen = {(entry.configuration, entry.measured_at) for entry in known}
    fresh = [
        entry
        for result in results.results
        if (run := result.performance_run) is not None
        and (entry := _entry(results, run, precision)) is not None
        and (entry.configuration, entry.measured_at) not in seen
    ]
    if fresh:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(records.encode(entry)) + "\n" for entry in fresh)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    return sorted([*known, *fresh], key=lambda entry: entry.measured_at)


def _entry(results: Results, run: PerformanceResult, precision: str) -> HistoryEntry | None:
    if run.value is None:
        return None
    return HistoryEntry(
        configuration=configuration(results, run.scenario, precision),
        measured_at=run.circumstances.measured_at,
        value=run.value,
        unit=run.unit,
        validity=run.validity,
        versions=run.circumstances.versions,
        folder=results.folder,
    )
