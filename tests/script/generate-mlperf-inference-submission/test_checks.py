"""Our checks: all that is wrong is found, nothing that is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mlperf_submission import checks, truncate
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


def test_nothing_to_check_is_no_pass(tmp_path: Path) -> None:
    assert broken(checks.check(lab.Tree(tmp_path, lab.layouts.of_round("6.1")))) == {"tree.nothing"}


def test_a_tree_of_another_layout(tmp_path: Path) -> None:
    """The measurements of 5.1 are no folder of 6.1, where they belong to the results."""
    old = lab.make(tmp_path / "tree", lab.Example("5.1"))
    found = broken(checks.check(lab.Tree(old.root, lab.layouts.of_round("6.1"))))
    assert {"tree.unknown-folder", "measurements.files", "performance.seeds"} <= found


def test_a_mapping_to_no_benchmark(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["open"])
    lab.put(tree.root / "open/Tester/model_mapping.json", '{"mine": "resnext"}')
    assert broken(checks.check(tree)) == {"tree.model-mapping"}


def test_an_own_name_in_the_open_division(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree", EXAMPLES["open"])
    root = tree.root / "open/Tester"
    (root / "results/box-cpu/resnet").rename(root / "results/box-cpu/mine")
    (root / "src/resnet").rename(root / "src/mine")
    assert "benchmark.unknown" in broken(checks.check(tree))
    lab.put(root / "model_mapping.json", '{"mine": "resnet", "bert-99": "bert-99"}')
    assert checks.check(tree) == []


def test_the_form_of_a_result_is_its_nature(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    readme = mutations.place(tree).offline.measurements / "README.md"
    lab.put(readme, "# resnet50 (tiny form), Offline\n")
    (finding,) = checks.check(tree)
    assert (finding.rule, finding.severity) == ("result.form", "nature")


def test_an_inferred_result_is_told(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    place = mutations.place(tree)
    for one, other in (
        (place.stream.run, place.offline.run),
        (place.stream.accuracy, place.offline.accuracy),
    ):
        for path in one.iterdir():
            (other / path.name).write_bytes(path.read_bytes())
    found = [each for each in checks.check(tree) if "TEST" not in each.where]
    assert {(each.rule, each.severity) for each in found} == {("performance.inferred", "notice")}


def test_the_limit_of_a_server(tmp_path: Path) -> None:
    example = lab.Example("5.0", scenarios=("Server", "Offline"), category="datacenter")
    tree = lab.make(tmp_path / "tree", example)
    assert checks.check(tree) == []
    log = mutations.place(tree).cells["Server"].run / mutations.DETAIL
    mutations.value(log, "effective_target_latency_ns", 30_000_000)
    # A test under another limit cannot be compared either.
    assert broken(checks.check(tree)) == {"performance.latency", "compliance.speed"}


def test_fields_are_texts_and_questions_are_told(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    system = mutations.place(tree).system
    mutations.field(system, "cooling", "N/A")
    mutations.field(system, "host_processor_core_count", 2)
    found = checks.check(tree)
    assert broken(found) == {"system.unanswered", "system.field-type"}


def test_a_log_cannot_stand_in_two_places(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    place = mutations.place(tree)
    twin = place.system.with_name("twin.json")
    lab.put(twin, place.system.read_text(encoding="utf-8"))
    shutil.copytree(place.root / "results/box-cpu", place.root / "results/twin")
    assert broken(checks.check(tree)) == {"accuracy.copied"}


def test_a_long_log_of_a_test(tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    log = mutations.place(tree).offline.compliance("TEST01") / "accuracy" / mutations.ACCURACY
    mutations.longer(log)
    assert broken(checks.check(tree)) == {"compliance.truncated"}


def test_answers_may_be_longer_than_what_is_kept(tmp_path: Path) -> None:
    """BERT's are: a cut log then shows not one of them whole."""
    tree = lab.make(tmp_path / "tree", EXAMPLES["bert"])
    for folder in tree.root.rglob("accuracy"):
        log = folder / mutations.ACCURACY
        lab.put(log, lab.answers(range(20)).replace(lab.ANSWER, "00" * 3072))
        truncate.truncate(folder)
        assert log.stat().st_size < truncate.LIMIT
    assert checks.check(tree) == []
