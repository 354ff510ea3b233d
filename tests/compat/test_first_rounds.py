"""Each rule that an official checker asks for counts in the rounds whose checker has it."""

from __future__ import annotations

import os
import subprocess
from functools import cache

import pytest

from mlperf.submission import checks

# A clone of mlcommons/inference with its tags.
VARIABLE = "MLPERF_INFERENCE_HISTORY"
# The commit at which a round was judged: its last tag; of 6.0 the day on which it was published.
COMMITS = {
    "2.0": "v2.0",
    "2.1": "v2.1",
    "3.0": "v3.0",
    "3.1": "v3.1",
    "4.0": "v4.0",
    "4.1": "v4.1",
    "5.0": "v5.0.1",
    "5.1": "v5.1.1",
    "6.0": "f8cc1844",
}
PLACES = (
    "tools/submission/submission_checker",
    "tools/submission/submission_checker.py",
    "tools/submission/submission-checker.py",
)
# Words in the checker by which a rule is known there.
WORDS = {
    "tree.root": "outside division",
    "tree.division": "outside submitter",
    "tree.names": "git unfriendly name",
    "tree.links": "symbolic links",
    "tree.size": "greater than 50 MB",
    "tree.empty-folder": "empty directories",
    "tree.calibration": "has not calibration file",
    "tree.system-without-results": "files with no results",
    "system.field-empty": "requires a meaningful response",
    "measurements.values": "is missing meaningful value",
    "power.meter": "analyzer_table",
}


@cache
def checker(folder: str, commit: str) -> str:
    """The text of the checker that decided: the modular one, where the round has it."""
    for place in PLACES:
        listed = _git(folder, "ls-tree", "-r", "--name-only", commit, "--", place)
        texts = [_git(folder, "show", f"{commit}:{name}") for name in listed.splitlines()]
        if texts:
            return "\n".join(texts)
    return ""


def _git(folder: str, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *words], capture_output=True, text=True, errors="replace", check=False
    )
    return done.stdout


@pytest.mark.parametrize("benchmark_round", COMMITS)
def test_rules_count_where_the_checker_has_them(benchmark_round: str) -> None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} names no clone of mlcommons/inference with its tags")
    told = checker(folder, COMMITS[benchmark_round])
    assert told
    known = {rule.id: rule for rule in checks.rules()}
    has = {name for name, words in WORDS.items() if words in told}
    assert {name for name in WORDS if known[name].counts_in(benchmark_round)} == has
