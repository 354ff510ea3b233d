"""Filling in scenarios whose results may be inferred from those of another one.

In the category edge a SingleStream run may stand for MultiStream and Offline, and a MultiStream
run for Offline (MLPerf inference rules, "inferred results"). The logs are copied as they are: the
checkers compute the inferred figures.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from mlperf.catalog import SCENARIOS, Category, Scenario

from .checks.base import SubmitterSite
from .layouts import ScenarioCell, SubmissionTree


def fill(tree: SubmissionTree) -> list[str]:
    """Add missing edge scenarios to ``tree``; return a line per scenario."""
    added = []
    for division, submitter, root in tree.submitters():
        site = SubmitterSite(tree, division, submitter, root)
        have = {(cell.system, cell.benchmark, cell.scenario.lower()): cell for cell in site.cells}
        for system, benchmark in sorted({key[:2] for key in have}):
            known = site.rules(benchmark)
            if known is None or Category.EDGE not in Category.each(site.category(system)):
                continue
            for scenario in known.required(tree.layout.round, Category.EDGE):
                source = _source(have, system, benchmark, scenario)
                if source is not None:
                    _copy(source, scenario)
                    message = f"{scenario} inferred from {source.scenario}"
                    added.append(f"{system} {benchmark}: {message}")
    return added


def _source(
    have: Mapping[tuple[str, str, str], ScenarioCell],
    system: str,
    benchmark: str,
    missing: Scenario,
) -> ScenarioCell | None:
    """Return the scenario whose runs may stand for the missing one."""
    if (system, benchmark, missing.folder) in have:
        return None
    places = (scenario.folder for scenario in SCENARIOS if missing in scenario.stands_for)
    cells = (have.get((system, benchmark, place)) for place in places)
    return next((cell for cell in cells if cell is not None), None)


def _copy(source: ScenarioCell, scenario: str) -> None:
    # Both checkers look for inferred results in folders with lower-case names only.
    target = ScenarioCell(
        source.layout, source.root, source.system, source.benchmark, scenario.lower()
    )
    places: dict[Path, Path] = {
        source.results: target.results,
        source.measurements: target.measurements,
        source.compliance(""): target.compliance(""),
    }
    for old, new in places.items():
        if old.is_dir():
            shutil.copytree(old, new)
