"""How long and how branched the functions of each part are: limits that only go down.

The aim for every part: 95 % of the functions have at most 23 lines and a cyclomatic complexity
(by radon) of at most 9; none has more than 15. Lower a limit when its part has become better.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from support import ROOT, project_files

radon = pytest.importorskip("radon.complexity", reason="radon is not installed: make test does it")

AIM = (23, 9, 15)
# Lines at the 95th percentile, complexity at the 95th percentile, largest complexity.
LIMITS = {
    "engine": (23, 9, 15),
    "customize.py": (23, 9, 13),
    "libraries": (23, 9, 15),
    "harness": (23, 9, 15),
    "submission": (22, 9, 15),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A function: its complexity, its place, its lines."""

    complexity: int
    place: str
    lines: int


def part_of(name: str) -> str:
    """The part of the house that a file belongs to; empty for what is not shipped."""
    if name.startswith("automation/"):
        return "engine"
    if name.endswith("/customize.py"):
        return "customize.py"
    if not name.startswith(("lib/", "script/")):
        return ""
    parts = {"lib/mlperf/harness/": "harness", "lib/mlperf/submission/": "submission"}
    return next((part for mark, part in parts.items() if name.startswith(mark)), "libraries")


def functions(source: str, name: str) -> list[Measured]:
    """The functions and methods of a module; one inside another counts to its complexity."""
    blocks = radon.cc_visit(source)
    complexity = {b.lineno: b.complexity for b in blocks if not hasattr(b, "methods")}
    return [
        Measured(
            complexity.get(node.lineno, 0),
            f"{name}:{node.lineno} {node.name}",
            (node.end_lineno or 0) - node.lineno + 1,
        )
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@functools.cache
def parts() -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {part: [] for part in LIMITS}
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and part_of(name):
            found[part_of(name)] += functions(path.read_text(encoding="utf-8"), name)
    return found


def percentile_95(values: Sequence[int]) -> int:
    return sorted(values)[int(0.95 * len(values))]


@pytest.mark.parametrize("part", LIMITS)
def test_functions_are_no_longer_and_no_more_branched_than_agreed(part: str) -> None:
    measured = parts()[part]
    known = [item for item in measured if item.complexity]
    worst = max(known, key=lambda item: item.complexity)
    figures = (
        percentile_95([item.lines for item in measured]),
        percentile_95([item.complexity for item in known]),
        worst.complexity,
    )
    print(f"{part}: lines p95, complexity p95 and max: {figures}, aim {AIM}, worst {worst.place}")
    assert all(is_ <= may_be for is_, may_be in zip(figures, LIMITS[part], strict=True)), figures


def test_a_function_is_measured_with_what_it_holds() -> None:
    source = """
class A:
    def one(self):
        return 1 if self else 2

    def two(self):
        for i in range(3):
            if i or self:
                pass
"""
    assert functions(source, "a.py") == [
        Measured(2, "a.py:3 one", 2),
        Measured(4, "a.py:6 two", 4),
    ]
