"""Our checks: all that is wrong is found, nothing that is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlperf_submission import checks
from mlperf_submission.checks.base import Finding

import submission_lab as lab
import submission_mutations as mutations
from support import ROOT

EXAMPLES = {
    "edge": lab.Example(),
    "edge 5.1": lab.Example("5.1"),
    "bert": lab.Example(benchmarks=("bert-99",), scenarios=("SingleStream", "Offline")),
    "open": lab.Example(division="open", benchmarks=("resnet", "bert-99"), scenarios=("Offline",)),
}


def broken(findings: list[Finding]) -> set[str]:
    return {finding.rule for finding in findings}


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_wrong_with_a_whole_tree(tmp_path: Path, name: str) -> None:
    assert checks.check(lab.make(tmp_path / "tree", EXAMPLES[name])) == []


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda each: each.name)
def test_what_is_wrong_is_found(tmp_path: Path, mutation: mutations.Mutation) -> None:
    tree = lab.make(tmp_path / "tree")
    mutation.apply(mutations.place(tree))
    assert mutation.rule in broken(checks.check(tree))


@pytest.mark.parametrize("mutation", mutations.ALLOWED, ids=lambda each: each.name)
def test_what_is_right_stays_right(tmp_path: Path, mutation: mutations.Mutation) -> None:
    tree = lab.make(tmp_path / "tree")
    mutation.apply(mutations.place(tree))
    assert checks.check(tree) == []


def test_every_rule_is_tested_by_a_change() -> None:
    other = {"tree.nothing", "tree.unknown-folder", "tree.model-mapping", "result.form"}
    other |= {"performance.inferred", "performance.latency", "system.unanswered"}
    other |= {"system.field-type", "accuracy.copied", "compliance.truncated"}
    tested = {mutation.rule for mutation in mutations.MUTATIONS}
    assert {rule.id for rule in checks.rules()} - tested == other


def test_findings_say_where_and_what_to_do(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    mutations.empty_run(mutations.place(tree))
    for finding in checks.check(tree):
        assert finding.where.startswith("closed/Tester/results/box-cpu/resnet/Offline")
        assert finding.mend
        assert finding.source


def test_the_page_lists_every_rule() -> None:
    page = (ROOT / "docs/reference/submission-checks.md").read_text(encoding="utf-8")
    for rule in checks.rules():
        assert f"| `{rule.id}` | {rule.title} | {rule.severity} | {rule.source} |" in page
