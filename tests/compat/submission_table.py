"""What our checks and the official ones say of single changes to a submission tree, as a table.

    python tests/compat/submission_table.py CHECKOUT [--tree TREE] [--round 6.1] > table.md

CHECKOUT is a checkout of mlcommons/inference; without TREE the one that the tests write is taken.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
SCRIPTS = ("generate-mlperf-inference-submission", "app-mlperf-inference")
SOURCES = [str(TESTS.parent / "script" / name / "src") for name in SCRIPTS]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "automation"), *SOURCES]

from mlperf_submission import checks, layouts, official, verdict  # noqa: E402

import submission_lab as lab  # noqa: E402
import submission_mutations as mutations  # noqa: E402


@dataclass(frozen=True, slots=True)
class Judged:
    """One change: the rules that our checks name, and the outcome of each official checker."""

    mutation: mutations.Mutation
    rules: tuple[str, ...]
    outcomes: tuple[official.Outcome, ...]


def judge(genuine: Path, benchmark_round: str, source: Path) -> Iterator[Judged]:
    """Every change on a copy of its own; the first is no change at all."""
    nothing = mutations.Mutation("(nothing changed)", lambda place: None)
    layout = layouts.of_round(benchmark_round)
    for mutation in (nothing, *mutations.MUTATIONS, *mutations.ALLOWED):
        with tempfile.TemporaryDirectory(prefix="submission-table-") as scratch:
            tree = lab.Tree(Path(scratch) / "tree", layout)
            report = Path(scratch) / "report"
            report.mkdir()
            shutil.copytree(genuine, tree.root, symlinks=True)
            mutation.apply(mutations.place(tree))
            found = verdict.judge(checks.check(tree))
            # The tiny form is told apart from faults: it is the same in every row.
            standing = [
                *found.faults,
                *found.warnings,
                *(each for each in found.nature if each.rule != "result.form"),
            ]
            rules = tuple(sorted({each.rule for each in standing}))
            outcomes = official.run(sys.executable, source, tree.root, benchmark_round, report)
            yield Judged(mutation, rules, tuple(outcomes))


def row(judged: Judged) -> str:
    """A line of the table."""
    ours = ", ".join(f"`{rule}`" for rule in judged.rules) or "passes"
    theirs = " | ".join(word(outcome) for outcome in judged.outcomes)
    return f"| {judged.mutation.name} | {ours} | {theirs} |"


def word(outcome: official.Outcome) -> str:
    """What a checker says, in a word."""
    if outcome.crashed:
        return "crashes"
    return "passes" if outcome.accepted else "refuses"


def main() -> int:
    """Print the table and, below it, the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--round", default="6.1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="submission-table-") as scratch:
        example = lab.Example(options.round)
        tree = options.tree or lab.make(Path(scratch) / "tree", example).root
        found = list(judge(tree, options.round, options.source))
    names = [outcome.checker for outcome in found[0].outcomes]
    print(f"| change | our checks | {' | '.join(names)} |")
    print("| --- " * (2 + len(names)) + "|")
    print("\n".join(map(row, found)))
    wrong = [each for each in found if each.mutation.rule]
    right = [each for each in found if not each.mutation.rule]
    print(
        f"\n{len(wrong)} wrong trees: our checks refuse {sum(bool(e.rules) for e in wrong)}", end=""
    )
    for place, name in enumerate(names):
        print(f", {name} {sum(not each.outcomes[place].accepted for each in wrong)}", end="")
    print(
        f".\n{len(right)} right trees: our checks accept {sum(not e.rules for e in right)}", end=""
    )
    for place, name in enumerate(names):
        print(f", {name} {sum(each.outcomes[place].accepted for each in right)}", end="")
    print(".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
