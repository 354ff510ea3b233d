"""Filling in scenarios whose results may be inferred from those of another one.

In the category edge a SingleStream run may stand for MultiStream and Offline, and a MultiStream
run for Offline (MLPerf inference rules, "inferred results"). The logs are copied as they are: the
checkers compute the inferred figures.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .checks.base import Site
from .layouts import Cell, Tree

SOURCES = {"multistream": ("singlestream",), "offline": ("singlestream", "multistream")}


def fill(tree: Tree) -> list[str]:
    """Add missing edge scenarios to ``tree`` in place; returns what was added, for people."""
    added = []
    for division, submitter, root in tree.submitters():
        site = Site(tree, division, submitter, root)
        have = {(cell.system, cell.benchmark, cell.scenario.lower()): cell for cell in site.cells}
        for system, benchmark in sorted({(cell.system, cell.benchmark) for cell in site.cells}):
            known = site.rules(benchmark)
            if known is None or "edge" not in site.category(system):
                continue
            for scenario in known.required(tree.layout.round, "edge"):
                if (system, benchmark, scenario.lower()) in have:
                    continue
                source = next(
                    (
                        have[(system, benchmark, name)]
                        for name in SOURCES.get(scenario.lower(), ())
                        if (system, benchmark, name) in have
                    ),
                    None,
                )
                if source is not None:
                    _copy(source, scenario)
                    added.append(
                        f"{system} {benchmark}: {scenario} inferred from {source.scenario}"
                    )
    return added


def _copy(source: Cell, scenario: str) -> None:
    # Both checkers look for inferred results in folders with lower-case names only.
    target = Cell(source.layout, source.root, source.system, source.benchmark, scenario.lower())
    places: dict[Path, Path] = {
        source.results: target.results,
        source.measurements: target.measurements,
        source.compliance(""): target.compliance(""),
    }
    for old, new in places.items():
        if old.is_dir():
            shutil.copytree(old, new)
