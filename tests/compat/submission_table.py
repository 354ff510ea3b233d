"""What our checks and the official ones say of single changes to a submission tree, as a table.

    python tests/compat/submission_table.py CHECKOUT... [--tree TREE] [--round 6.1] > table.md
    python tests/compat/submission_table.py CHECKOUT... --round 5.1 \\
        --tree RESULTS --system DIVISION/SUBMITTER/SYSTEM > table.md

CHECKOUT is a checkout of mlcommons/inference, whose checkers are asked: of several each knows the
round. Without TREE the one that the tests write is taken.
RESULTS is a checkout of the results of a round, of which one system's image classification is
taken: a closed edge result of three scenarios, each measured. A change that such a tree has no
place for is told as such and counts for nobody.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import import_paths  # noqa: F401  (makes what follows importable)

import submission_lab as lab
import submission_mutations as mutations
from mlperf.submission import checks, layouts, names, official, verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """One change: the rules that our checks name, and the outcome of each official checker."""

    mutation: mutations.Mutation
    rules: tuple[str, ...]
    outcomes: tuple[official.CheckerOutcome, ...]


def judge(genuine: Path, benchmark_round: str, sources: Sequence[Path]) -> Iterator[Judged]:
    """Every change on a copy of its own; the first is no change at all."""
    nothing = mutations.Mutation("(nothing changed)", lambda place: None)
    layout = layouts.of_round(benchmark_round)
    for mutation in (nothing, *mutations.MUTATIONS, *mutations.ALLOWED):
        with tempfile.TemporaryDirectory(prefix="submission-table-") as scratch:
            tree = lab.SubmissionTree(Path(scratch) / "tree", layout)
            report = Path(scratch) / "report"
            report.mkdir()
            shutil.copytree(genuine, tree.root, symlinks=True)
            try:
                mutation.apply(mutations.place(tree))
            except (AssertionError, KeyError, OSError) as lacking:
                print(f"no place for {mutation.name}: {lacking}", file=sys.stderr)
                continue
            rules = standing(tree)
            asked = (
                official.run(sys.executable, source, tree.root, benchmark_round, report)
                for source in sources
            )
            yield Judged(mutation, rules, tuple(each for found in asked for each in found))


def standing(tree: lab.SubmissionTree) -> tuple[str, ...]:
    """The rules that our checks find broken, warnings included."""
    found = verdict.judge(checks.check(tree))
    # The tiny form is told apart from faults: it is the same in every row.
    nature = [each for each in found.nature if each.rule != "result.form"]
    return tuple(sorted({each.rule for each in (*found.faults, *found.warnings, *nature)}))


def published(root: Path, benchmark_round: str, name: str, target: Path) -> Path:
    """A copy of what was submitted for image classification on one system, whole in itself."""
    division, submitter, kept = name.split("/")
    source, site = root / division / submitter, target / division / submitter
    for top in ("results", layouts.of_round(benchmark_round).measurements, "compliance"):
        for benchmark in layouts.folders(source / top / kept):
            if names.official(benchmark.name) == "resnet":
                copy = site / top / kept / benchmark.name
                shutil.copytree(benchmark, copy, symlinks=True, dirs_exist_ok=True)
    code = layouts.of_round(benchmark_round).code
    for folder in layouts.folders(source / code):
        if names.official(folder.name) == "resnet":
            shutil.copytree(folder, site / code / folder.name, symlinks=True)
    (site / "systems").mkdir()
    shutil.copy(source / "systems" / f"{kept}.json", site / "systems")
    for path in source.glob("*.md"):
        shutil.copy(path, site)
    if (source / "documentation").is_dir():
        shutil.copytree(source / "documentation", site / "documentation", symlinks=True)
    return target


def row(judged: Judged) -> str:
    """A line of the table."""
    ours = ", ".join(f"`{rule}`" for rule in judged.rules) or "passes"
    theirs = " | ".join(word(outcome) for outcome in judged.outcomes)
    return f"| {judged.mutation.name} | {ours} | {theirs} |"


def word(outcome: official.CheckerOutcome) -> str:
    """What a checker says, in a word."""
    if outcome.crashed:
        return "crashes"
    return "passes" if outcome.accepted else "refuses"


def counted(found: Sequence[Judged], checkers: Sequence[str]) -> str:
    """How many wrong trees each side refuses, and how many right ones it accepts."""
    # What stands in the tree before any change is found in every row.
    before = set(found[0].rules)
    wrong = [each for each in found if each.mutation.rule]
    right = [each for each in found if not each.mutation.rule]
    refused = [sum(bool(set(each.rules) - before) for each in wrong)]
    accepted = [sum(set(each.rules) <= before for each in right)]
    for place, _ in enumerate(checkers):
        refused.append(sum(not each.outcomes[place].accepted for each in wrong))
        accepted.append(sum(each.outcomes[place].accepted for each in right))
    names = ("our checks", *checkers)
    told = [
        ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
        for counts in (refused, accepted)
    ]
    return (
        f"{len(wrong)} wrong trees, refused: {told[0]}.\n{len(right)} right, accepted: {told[1]}."
    )


def main() -> int:
    """Print the table and, below it, the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path, nargs="+", metavar="CHECKOUT")
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--system", default="", help="DIVISION/SUBMITTER/SYSTEM of a round's TREE")
    parser.add_argument("--round", default="6.1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="submission-table-") as scratch:
        example = lab.Example(options.round)
        tree = options.tree or lab.make(Path(scratch) / "tree", example).root
        if options.system:
            place = (options.round, options.system, Path(scratch) / "published")
            tree = published(options.tree, *place)
        found = list(judge(tree, options.round, options.sources))
    checkers = [outcome.checker for outcome in found[0].outcomes]
    print(f"| change | our checks | {' | '.join(checkers)} |")
    print("| --- " * (2 + len(checkers)) + "|")
    print("\n".join(map(row, found)))
    print(f"\n{counted(found, checkers)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
