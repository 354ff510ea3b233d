"""What the official checkers and ours say of every site of accepted trees, as tables.

    python tests/compat/official_sites.py CHECKOUT ROUND=TREE... [--submitter NAME]

CHECKOUT is a checkout of mlcommons/inference: that of the round's tag, or a newer one whose modular
checker knows the round. Each site is judged in a copy of its own (hard links, so on the disk of
the tree) with the divisions alone, as a submitter hands it in. A benchmark that lacks a log or a
reading of the meter in this checkout (``TREE.absent``) is left out of the copy, and empty files
stand for the images and videos that MLCommons does not publish.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import accepted_trees

from mlperf.submission import checks, layouts, official
from mlperf.submission.checks.base import SubmitterSite

NEEDED = ("mlperf_log_", "ptd_logs.txt", "spl.txt", "accuracy.txt")
NOT_NEEDED = ("mlperf_log_trace.json",)
# Folders of a site that have SYSTEM/BENCHMARK below them.
BY_BENCHMARK = ("results", "measurements", "compliance")


@dataclass(frozen=True, slots=True)
class Compared:
    """A site of a round: what our checks find, and what each official checker says."""

    round: str
    site: str
    findings: tuple[checks.Finding, ...]
    outcomes: tuple[official.CheckerOutcome, ...]

    @property
    def errors(self) -> frozenset[str]:
        """The rules of ours that refuse the site."""
        return frozenset(f.rule for f in self.findings if f.severity in ("error", "nature"))


def compare(
    checkout: Path, benchmark_round: str, root: Path, submitter: str = ""
) -> Iterator[Compared]:
    """Every site of a tree, one after the other."""
    layout = layouts.of_round(benchmark_round)
    lacking = incomplete(accepted_trees.absent(root))
    for division, name, folder in layouts.SubmissionTree(root, layout).submitters():
        if submitter not in ("", name):
            continue
        with tempfile.TemporaryDirectory(prefix=".site-", dir=root.parent) as scratch:
            copy = Path(scratch) / "tree"
            report = Path(scratch) / "report"
            report.mkdir()
            link(folder, copy / division / name, root, lacking)
            put_outputs(
                SubmitterSite(
                    layouts.SubmissionTree(copy, layout), division, name, copy / division / name
                )
            )
            outcomes = official.run(sys.executable, checkout, copy, benchmark_round, report)
            found = checks.check(layouts.SubmissionTree(copy, layout))
            yield Compared(benchmark_round, f"{division}/{name}", tuple(found), tuple(outcomes))


def incomplete(absent: Iterable[str]) -> frozenset[tuple[str, ...]]:
    """Division, submitter, system and benchmark of runs that lack a file which counts."""
    found = set()
    for each in map(PurePosixPath, absent):
        division, submitter, top, *rest = each.parts
        counts = each.name.startswith(NEEDED) and each.name not in NOT_NEEDED
        if counts and top in BY_BENCHMARK:
            found.add((division, submitter, *rest[:2]))
    return frozenset(found)


def link(source: Path, target: Path, root: Path, lacking: frozenset[tuple[str, ...]]) -> None:
    """A copy of a site without the benchmarks that are ``lacking``, and what is only theirs."""
    site = source.relative_to(root).parts

    def left_out(parent: str, names: list[str]) -> list[str]:
        parts = Path(parent).relative_to(source).parts
        if len(parts) != 2 or parts[0] not in BY_BENCHMARK:
            return []
        return [name for name in names if (*site, parts[1], name) in lacking]

    shutil.copytree(source, target, symlinks=True, ignore=left_out, copy_function=os.link)
    for top in BY_BENCHMARK:
        for system in layouts.folders(target / top):
            if not any(system.iterdir()):
                system.rmdir()
                if top == "results":
                    (target / "systems" / f"{system.name}.json").unlink(missing_ok=True)


def put_outputs(site: SubmitterSite) -> None:
    """Stand-ins for the outputs that were submitted, as far as the round asks for them."""
    for cell, known in site.known_cells:
        if known.outputs is not None and cell.accuracy.is_dir():
            folder = cell.accuracy / known.outputs.folder
            wanted = known.outputs.samples.get(site.layout.round, ())
            for name in (*map(str, wanted), *(["captions"] if wanted else [])):
                folder.mkdir(exist_ok=True)
                (folder / f"{name}.txt").write_text("a stand-in")


def table(compared: list[Compared]) -> str:
    """Verdicts of both sides, then each rule that either of them names as broken."""
    rounds = sorted({each.round for each in compared})
    checkers = sorted({o.checker for each in compared for o in each.outcomes})
    lines = [
        "| round | sites | ours accept | " + " | ".join(f"{c} accepts" for c in checkers) + " |"
    ]
    lines += ["| --- " * (3 + len(checkers)) + "|"]
    for name in rounds:
        mine = [each for each in compared if each.round == name]
        cells = [str(len(mine)), str(sum(not each.errors for each in mine))]
        cells += [str(sum(accepts(each, c) for each in mine)) for c in checkers]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| rule | ours: sites, level | official: sites, lines | its words |"]
    lines += ["| --- | --- | --- | --- |", *by_rule(compared)]
    return "\n".join(lines)


def accepts(each: Compared, checker: str) -> bool:
    """Whether a checker accepts a site."""
    return any(o.accepted for o in each.outcomes if o.checker == checker)


def by_rule(compared: list[Compared]) -> Iterator[str]:
    """A line for each rule that either side names."""
    ours: Counter[tuple[str, str]] = Counter()
    sites: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    words: dict[str, str] = {}
    for each in compared:
        ours.update({(f.rule, f.severity) for f in each.findings if f.severity != "note"})
        said = [c for outcome in each.outcomes for c in outcome.complaints]
        sites.update({c.rule or "(none)" for c in said})
        lines.update(c.rule or "(none)" for c in said)
        for complaint in said:
            words.setdefault(complaint.rule or "(none)", complaint.text)
    for rule in sorted({name for name, _ in ours} | set(sites)):
        mine = ", ".join(
            f"{n} {level}" for (name, level), n in sorted(ours.items()) if name == rule
        )
        theirs = f"{sites[rule]}, {lines[rule]}" if sites[rule] else "-"
        yield f"| `{rule}` | {mine or '-'} | {theirs} | {words.get(rule, '')[:110]} |"


def main() -> int:
    """Print the tables, and each site that the two sides judge differently."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("trees", nargs="+", metavar="ROUND=TREE")
    parser.add_argument("--submitter", default="")
    options = parser.parse_args()
    found = []
    for name, _, root in (each.partition("=") for each in options.trees):
        found += compare(options.checkout, name, Path(root).resolve(), options.submitter)
    print(table(found))
    for each in found:
        for outcome in each.outcomes:
            if outcome.accepted == bool(each.errors):
                told = ", ".join(sorted(each.errors)) or "accepted"
                print(f"\n{each.round} {each.site}: ours {told}; {outcome.line}")
                for complaint in outcome.complaints[:6]:
                    print(f"  {complaint.rule or '?'}: {complaint.text[:200]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
