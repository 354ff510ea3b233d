"""The figures that a run has left in its folder, and how those of two runs compare."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from cmbench.values import immutable

RESULTS = "results.json"
"""What a step of a benchmark leaves in its folder: ``results``, with a value and its unit."""


@immutable(frozen=True, slots=True, eq=True, repr=True)
class RunFigure:
    """A figure of a run; ``verdict`` is VALID or INVALID, empty where there is none."""

    value: float
    unit: str
    verdict: str = ""

    def text(self) -> str:
        """Return it in words: ``1,234 samples/s``, and the verdict if it does not count."""
        digits = f"{self.value:,.0f}" if abs(self.value) >= 1000 else f"{self.value:.4g}"
        verdict = "" if self.verdict == "VALID" else self.verdict
        return " ".join(filter(None, (digits, self.unit, verdict)))


def figures_of(folder: str) -> dict[str, RunFigure]:
    """Return the figures of the run in a folder, by what they are of; empty where it has none."""
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), "*", RESULTS)))
    figures: dict[str, RunFigure] = {}
    for path in paths:
        figures.update(_of_file(path))
    return figures


def _of_file(path: str) -> Iterator[tuple[str, RunFigure]]:
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
        work, entries = str(document["benchmark"]), list(document["results"])
    except (OSError, ValueError, LookupError, TypeError):
        return
    for entry in entries:
        if isinstance(entry, Mapping):
            yield from _of_entry(f"{work} {entry.get('scenario', '')}".rstrip(), entry)


def _of_entry(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, RunFigure]]:
    for key, suffix in (("value", ""), ("accuracy", " accuracy")):
        value = entry.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            unit = entry.get("unit") if key == "value" else entry.get("accuracy_unit")
            verdict = str(entry.get("validity") or "") if key == "value" else ""
            yield name + suffix, RunFigure(float(value), str(unit or ""), verdict)


def figure_differences(one: str, other: str) -> dict[str, list[str]]:
    """Return the figures of two runs, by their folders, where either has any.

    ``name: [first, second, ratio]``; the ratio is empty where it cannot be formed.
    """
    first, second = figures_of(one), figures_of(other)
    differences = {}
    for name in dict.fromkeys((*first, *second)):
        pair = first.get(name), second.get(name)
        texts = [figure.text() if figure else "(none)" for figure in pair]
        differences[name] = [*texts, _ratio(*pair)]
    return differences


def _ratio(one: RunFigure | None, other: RunFigure | None) -> str:
    if one is None or other is None or one.unit != other.unit or not one.value:
        return ""
    return f"x {other.value / one.value:.3g}"
