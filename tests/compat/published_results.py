"""Compare figures that are computed from published trees with those that were published.

usage: python tests/compat/published_results.py SUMMARY=TREE ...

SUMMARY is a clone of mlcommons/cm4mlperf-results or a summary_results.json; TREE a clone of
mlcommons/inference_results_vX.Y of a round that it covers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cmbench_results import readers
from cmbench_results.values import BenchmarkResult, same_figure


def results(place: Path) -> dict[str, BenchmarkResult]:
    """The results of a place by their keys."""
    found = readers.read(readers.kind_of(place), place)
    return {each.key: each for each in found if isinstance(each, BenchmarkResult)}


def compare(summary: Path, tree: Path) -> int:
    """Print what differs; returns how many results do."""
    computed = results(tree)
    rounds = {each.workload.round for each in computed.values()}
    published = {k: r for k, r in results(summary).items() if r.workload.round in rounds}
    both = sorted(published.keys() & computed.keys())
    wrong = [key for key in both if not same_figure(computed[key], published[key])]
    for key in wrong:
        ours, theirs = computed[key], published[key]
        print(f"  {key}: {ours.value} {ours.unit} computed, {theirs.value} {theirs.unit} published")
    only = len(published) - len(both), len(computed) - len(both)
    print(
        f"v{', '.join(sorted(rounds))}: {len(both) - len(wrong)} of {len(both)} figures equal; "
        f"only published: {only[0]}, only in the tree: {only[1]}"
    )
    return len(wrong)


if __name__ == "__main__":
    pairs = [word.partition("=") for word in sys.argv[1:]]
    if not pairs or not all(tree for _, _, tree in pairs):
        sys.exit(__doc__)
    sys.exit(min(1, sum(compare(Path(summary), Path(tree)) for summary, _, tree in pairs)))
