"""What our checks say of trees that MLCommons has accepted, as a table by rule.

    python tests/compat/accepted_trees.py ROUND=TREE... [--show RULE] [--submitter NAME]

TREE is a checkout of mlcommons/inference_results_vROUND. Files that such a copy lacks are named,
one a line, in ``TREE.absent``: findings at these paths are left out here, and only here.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import import_paths  # noqa: F401  (makes what follows importable)

from mlperf.submission import checks, layouts

# Images and videos are submitted, and not published with the results.
UNPUBLISHED = ("accuracy.outputs",)


@dataclass(frozen=True, slots=True)
class Judged:
    """What one submitter has in one division, and what our checks find there."""

    round: str
    site: str
    findings: tuple[checks.Finding, ...]

    @property
    def errors(self) -> tuple[checks.Finding, ...]:
        """What stands against accepting it."""
        return tuple(each for each in self.findings if each.severity in ("error", "nature"))


def absent(root: Path) -> frozenset[str]:
    """Paths that the copy lacks, relative to the tree."""
    listed = root.with_name(f"{root.name}.absent")
    return frozenset(listed.read_text("utf-8").splitlines()) if listed.is_file() else frozenset()


def judge(benchmark_round: str, root: Path, only: str = "") -> Iterator[Judged]:
    """Every site of a tree, or ``only`` those of one submitter."""
    tree = layouts.SubmissionTree(root, layouts.of_round(benchmark_round))
    lacking = absent(root)
    found = [each for each in checks.check(tree, only) if each.where not in lacking]
    found = [each for each in found if each.rule not in UNPUBLISHED]
    for division, name, _ in tree.submitters():
        if only in ("", name):
            place = f"{division}/{name}"
            kept = tuple(each for each in found if each.where.startswith(f"{place}/"))
            yield Judged(benchmark_round, place, kept)


def table(judged: list[Judged]) -> str:
    """Findings by rule and round."""
    asked = sorted({each.round for each in judged})
    counts = {
        name: Counter(
            (f.severity, f.rule) for each in judged if each.round == name for f in each.findings
        )
        for name in asked
    }
    rules = sorted({rule for found in counts.values() for rule in found})
    lines = [f"| level | rule | {' | '.join(asked)} |", "| --- " * (2 + len(asked)) + "|"]
    for rule in rules:
        figures = " | ".join(str(counts[name][rule]) for name in asked)
        lines.append(f"| {rule[0]} | `{rule[1]}` | {figures} |")
    for name in asked:
        sites = [each for each in judged if each.round == name]
        accepted = sum(not each.errors for each in sites)
        lines.append(f"\nv{name}: {accepted} of {len(sites)} sites accepted.")
    return "\n".join(lines)


def main() -> int:
    """Print the table; the status tells whether every site is accepted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="+", metavar="ROUND=TREE")
    parser.add_argument("--show", default="", help="print the findings of rules that hold this")
    parser.add_argument("--submitter", default="")
    options = parser.parse_args()
    judged = []
    for name, _, root in (each.partition("=") for each in options.trees):
        for each in judge(name, Path(root).resolve(), options.submitter):
            judged.append(each)
            for finding in each.findings:
                if options.show and options.show in finding.rule:
                    print(f"{finding.severity} {finding.rule}: {finding.where}: {finding.found}")
    print(table(judged))
    return 1 if any(each.errors for each in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
