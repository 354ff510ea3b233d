"""Random changes to trees of every benchmark: where ours and the official checkers differ.

    python tests/compat/random_trees.py CHECKOUT [--round 6.1] [--seed 0] [--count 300] [--show 5]
    python tests/compat/random_trees.py CHECKOUT --round 5.1 --tree TREE --sites DIVISION/NAME,...

CHECKOUT is a checkout of mlcommons/inference whose checker knows the round. Each tree is of one
benchmark, category and division, as the tests write them; one to two changes are made to it: values
in logs and descriptions, files lost, emptied or added, folders renamed. With ``--tree``, each tree
is a site of an accepted tree with one change, also to the files of a power measurement. The same
seed makes the same trees. What the official checkers refuse and ours accept is listed and is the
exit status; what ours refuse alone is counted by rule. A checker that refuses the tree before any
change, as the older single file does with some benchmarks, has no say about that benchmark.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import import_paths  # noqa: F401  (makes what follows importable)

import mlperf.catalog as catalog
import submission_lab as lab
import submission_mutations as mutations
from mlperf.submission import checks, layouts, official

CATEGORIES = ("edge", "datacenter", "datacenter,edge")
DIVISIONS = ("closed", "closed", "closed", "open", "network")
NUMBERS = (0, 1, -1, 63, 100, 4096, 599_999, 600_001, 10**12, 0.5, 1e-9)
WORDS = ("", "N/A", "some text", "true", "0", "12 GB", "7.5", "None")
# What nothing in LoadGen's logs or in a description has.
ODD = (None, [], {}, True, False)
NOTHING = "nothing to change"
"""What the change before has left: no such file."""


@dataclass(frozen=True, slots=True)
class Differing:
    """A tree that the two sides judge differently, or on which both agree."""

    base: str
    changes: tuple[str, ...]
    ours: tuple[str, ...]
    outcomes: tuple[official.CheckerOutcome, ...]

    @property
    def theirs(self) -> bool:
        """Whether an official checker that counts refuses it."""
        return any(each.refuses for each in self.outcomes)


Change = Callable[[random.Random, Path], str]


def files(root: Path) -> list[Path]:
    """The files of a tree, in a fixed order."""
    return sorted(path for path in root.rglob("*") if path.is_file())


def logs(root: Path) -> list[Path]:
    """The detailed logs of a tree that have lines."""
    found = sorted(root.rglob("mlperf_log_detail.txt"))
    return [path for path in found if path.stat().st_size]


def shown(root: Path, path: Path) -> str:
    """A path without what all have in common."""
    return "/".join(path.relative_to(root).parts[2:])


def logged(chance: random.Random, root: Path) -> str:
    """Another value in a detailed log."""
    if not logs(root):
        return NOTHING
    path = chance.choice(logs(root))
    records = [json.loads(line.partition(" ")[2]) for line in path.read_text().splitlines()]
    record = chance.choice(records)
    key, old = record["key"], record["value"]
    new = other(chance, old)
    mutations.value(path, key, new)
    return f"{shown(root, path)}: {key} {old!r} -> {new!r}"


def unlogged(chance: random.Random, root: Path) -> str:
    """A detailed log without one of its lines."""
    if not logs(root):
        return NOTHING
    path = chance.choice(logs(root))
    lines = path.read_text().splitlines()
    gone = lines.pop(chance.randrange(len(lines)))
    path.write_text("\n".join(lines) + "\n")
    return f"{shown(root, path)}: without {json.loads(gone.partition(' ')[2])['key']}"


def described(chance: random.Random, root: Path) -> str:
    """Another value in a description of a system or an implementation, or none."""
    paths = sorted((*root.rglob("systems/*.json"), *root.rglob("measurements.json")))
    if not paths:
        return NOTHING
    path = chance.choice(paths)
    document = json.loads(path.read_text() or "{}")
    if not document:
        return NOTHING
    key = chance.choice(sorted(document))
    old = document[key]
    if chance.random() < 0.3:
        mutations.field(path, key, None)
        return f"{shown(root, path)}: without {key}"
    new = other(chance, old)
    document[key] = new
    path.write_text(json.dumps(document))
    return f"{shown(root, path)}: {key} {old!r} -> {new!r}"


def other(chance: random.Random, old: object) -> object:
    """A value in the place of another one, mostly of its type."""
    if chance.random() < 0.1:
        return chance.choice(ODD)
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        factor = chance.choice((0, 0.5, 0.98, 0.999, 1.001, 1.02, 2, 10))
        return chance.choice((*NUMBERS, old * factor, int(old * factor), old + 1, old - 1))
    modes = ("AccuracyOnly", "PerformanceOnly", "INVALID")
    return chance.choice((*WORDS, *map(str, catalog.Scenario), *modes, *CATEGORIES))


def accurate(chance: random.Random, root: Path) -> str:
    """Another figure, or a line less, in accuracy.txt or what a verification says."""
    texts = sorted((*root.rglob("accuracy.txt"), *root.rglob("verify_*.txt")))
    if not texts:
        return NOTHING
    path = chance.choice(texts)
    words = path.read_text().split() or ["nothing"]
    place = chance.randrange(len(words))
    numbers = [n for n, word in enumerate(words) if any(sign.isdigit() for sign in word)]
    if numbers and chance.random() < 0.6:
        text = path.read_text()
        told = [spec for spec in text.replace("=", " ").replace("%", " ").split() if number(spec)]
        if told:
            old = chance.choice(told)
            new = f"{float(old.strip(',}')) * chance.choice((0.9, 0.98, 0.995, 1.005, 1.2)):.5f}"
            path.write_text(text.replace(old.strip(",}"), new, 1))
            return f"{shown(root, path)}: {old} -> {new}"
    gone = words.pop(place)
    path.write_text(path.read_text().replace(gone, "", 1))
    return f"{shown(root, path)}: without {gone!r}"


def number(word: str) -> bool:
    """Whether a word of accuracy.txt is a figure."""
    try:
        float(word.strip(",}"))
    except ValueError:
        return False
    return True


def lost(chance: random.Random, root: Path) -> str:
    """A file less, or an empty one."""
    if not files(root):
        return NOTHING
    path = chance.choice(files(root))
    if chance.random() < 0.4:
        path.write_text("")
        return f"{shown(root, path)}: empty"
    path.unlink()
    return f"{shown(root, path)}: removed"


def more(chance: random.Random, root: Path) -> str:
    """A file that is not asked for."""
    names = ("notes.txt", "results.json", "mlperf_log_trace.json", ".hidden", "a b.md", "x.png")
    folder = chance.choice(sorted({root, *(path.parent for path in files(root))}))
    path = folder / chance.choice(names)
    path.write_text("more\n")
    return f"{shown(root, path)}: added"


def moved(chance: random.Random, root: Path) -> str:
    """A folder less, or under another name."""
    folders = sorted(path for path in root.rglob("*/*/*") if path.is_dir())
    if not folders:
        return NOTHING
    folder = chance.choice(folders)
    names = (*map(str, catalog.Scenario), "TEST01", "TEST04", "TEST06", "resnet", "results")
    target = folder.with_name(chance.choice((*names, folder.name.lower(), folder.name.upper())))
    if target.exists() or chance.random() < 0.5:
        shutil.rmtree(folder)
        return f"{shown(root, folder)}: removed"
    folder.rename(target)
    return f"{shown(root, folder)}: renamed to {target.name}"


def metered(chance: random.Random, root: Path) -> str:
    """Another number in a file of a power measurement, or a line less."""
    found = [path for path in files(root) if path.parent.name in ("power", "ranging")]
    paths = [path for path in found if path.read_text(errors="replace").strip()]
    if not paths:
        return NOTHING
    path = chance.choice(paths)
    text = path.read_text(errors="replace")
    if chance.random() < 0.3:
        lines = text.splitlines()
        gone = lines.pop(chance.randrange(len(lines)))
        path.write_text("\n".join(lines) + "\n")
        return f"{shown(root, path)}: without {gone[:60]!r}"
    numbers = list(re.finditer(r"\d+(?:\.\d+)?", text))
    if not numbers:
        return NOTHING
    match = chance.choice(numbers)
    new = chance.choice(("0", "-1", "x", str(float(match[0]) * 10), str(float(match[0]) / 2)))
    path.write_text(text[: match.start()] + new + text[match.end() :])
    return f"{shown(root, path)}: {match[0]} -> {new} behind {text[: match.start()][-30:]!r}"


CHANGES: tuple[Change, ...] = (logged, logged, unlogged, described, accurate, lost, more, moved)


def bases(benchmark_round: str) -> list[lab.Example]:
    """A tree for each benchmark, category and division that the round has."""
    return [
        lab.Example(benchmark_round, division, (spec.checker_name,), names, category)
        for category in CATEGORIES
        for spec in catalog.benchmarks().values()
        for names in [tuple(map(str, spec.allowed(benchmark_round, category)))]
        for division in dict.fromkeys(DIVISIONS)
        if names
    ]


def trees(
    checkout: Path, benchmark_round: str, seed: int, count: int, scratch: Path
) -> Iterator[Differing]:
    """Make trees and let both sides judge them; the first are those without any change."""
    chance = random.Random(seed)
    every = bases(benchmark_round)
    able: dict[str, set[str]] = {}
    chance.shuffle(every)
    for turn in range(len(every) + count):
        changed = turn >= len(every)
        example = every[turn % len(every)]
        root, report = scratch / f"{turn}" / "tree", scratch / f"{turn}" / "report"
        report.mkdir(parents=True)
        tree = lab.make(root, example)
        apply = chance.sample(CHANGES, chance.choice((1, 1, 1, 2))) if changed else []
        told = tuple(change(chance, root) for change in apply)
        found = [each for each in checks.check(tree) if each.severity in ("error", "nature")]
        rules = tuple(sorted({each.rule for each in found}))
        outcomes = official.run(sys.executable, checkout, root, benchmark_round, report)
        base = f"{example.division} {example.category} {example.benchmarks[0]}"
        if not changed:
            able[base] = {each.checker for each in outcomes if each.accepted}
        # The modular checker always has a say.
        heard = [each for n, each in enumerate(outcomes) if not n or each.checker in able[base]]
        yield Differing(base, told, rules, tuple(heard))
        shutil.rmtree(scratch / f"{turn}")


def accepted_trees(
    checkout: Path, benchmark_round: str, seed: int, count: int, scratch: Path, sites: list[Path]
) -> Iterator[Differing]:
    """Make one change to a copy of one of ``sites`` (TREE/DIVISION/NAME); let both sides judge."""
    chance = random.Random(seed)
    layout = layouts.of_round(benchmark_round)
    for turn in range(count):
        site, told = chance.choice(sites), NOTHING
        root, report = scratch / f"{turn}" / "tree", scratch / f"{turn}" / "report"
        report.mkdir(parents=True)
        name = "/".join(site.parts[-2:])
        shutil.copytree(site, root / name, symlinks=True)
        while told == NOTHING:
            told = chance.choice((*CHANGES, metered, metered))(chance, root)
        found = checks.check(layouts.SubmissionTree(root, layout))
        rules = sorted({each.rule for each in found if each.severity in ("error", "nature")})
        outcomes = official.run(sys.executable, checkout, root, benchmark_round, report)
        yield Differing(name, (told,), tuple(rules), tuple(outcomes))
        shutil.rmtree(scratch / f"{turn}")


def main() -> int:
    """Print where the two sides differ; the status is how often only the official ones refuse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--round", default=catalog.rounds.LATEST)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--show", type=int, default=0, help="trees that only ours refuse, by rule")
    parser.add_argument("--tree", type=Path, help="an accepted tree of the round")
    parser.add_argument("--sites", default="", help="those of --tree to change, DIVISION/NAME,...")
    options = parser.parse_args()
    alone: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="random-trees-") as scratch:
        told = (options.checkout, options.round, options.seed, options.count, Path(scratch))
        sites = [options.tree / name for name in options.sites.split(",")] if options.tree else []
        for each in accepted_trees(*told, sites) if sites else trees(*told):
            sides = (
                "refused" if each.ours else "accepted",
                "refused" if each.theirs else "accepted",
            )
            verdicts[f"ours {sides[0]}, official {sides[1]}"] += 1
            if each.theirs and not each.ours:
                print(f"\n{each.base}: {'; '.join(each.changes) or 'no change'}")
                for outcome in each.outcomes:
                    if outcome.refuses:
                        words = [c.text[-160:] for c in outcome.complaints[:2]] or [outcome.last]
                        print(f"  {outcome.checker}: {' | '.join(words)}")
            elif each.ours and not each.theirs:
                alone.update(each.ours)
                if not each.changes or alone[each.ours[0]] <= options.show:
                    print(f"\nours only: {each.base}: {'; '.join(each.changes)}: {each.ours}")
    print()
    for name, times in sorted(verdicts.items()):
        print(f"{name}: {times}")
    print("only ours, by rule:", ", ".join(f"{rule} {n}" for rule, n in alone.most_common()))
    return min(verdicts["ours accepted, official refused"], 100)


if __name__ == "__main__":
    sys.exit(main())
