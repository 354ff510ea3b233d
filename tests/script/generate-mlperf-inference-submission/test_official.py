"""Reading what official checkers print, and running them from a checkout."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import submission_lab as lab
from mlperf.submission import checks, official, steps
from mlperf.submission.errors import SubmissionError

WORDS = "[2026-01-01 10:00:00,000 performance_check.py:1 ERROR]"
OUTPUT = f"""
{WORDS} closed/T/x/mlperf_log_detail.txt qsl_rng_seed is wrong, expected=1, found=2
{WORDS} Test duration less than 600s in user config. expected=600000, found=1
[2026-01-01 10:00:00,000 main.py:236 ERROR] NoResults closed/T/results/x
[2026-01-01 10:00:00,000 main.py:361 ERROR] SUMMARY: submission has errors
"""
# Stands for a checkout: what a checker is told, and that it runs in its own folder.
CHECKER = """
import json, os, sys
print("INFO] SUMMARY: submission looks OK", os.path.basename(os.getcwd()))
if "--fail" in sys.argv:
    print("ERROR] x has no seed", sys.argv[1:])
    sys.exit(1)
"""


def test_complaints_are_mapped_to_our_rules() -> None:
    outcome = official.read("submission_checker", ("python",), 1, OUTPUT)
    assert not outcome.accepted
    assert not outcome.crashed
    assert [each.rule for each in outcome.complaints] == [
        "performance.seeds",
        "performance.duration",
    ]


FOLLOWING = f"""
{WORDS} closed/T/results/x/resnet/Offline/performance/run_1/log Required minimum samples per query
{WORDS} closed/T/results/x/resnet/Offline/performance/run_1 has issues
{WORDS} Some performance checks Checks failed for: closed/T/results/x/resnet/Offline/performance
{WORDS} Execution occurred in running check closed/T/x. Running performance_check in ComplianceCheck
{WORDS} closed/T/results/x/resnet does not have all required scenarios, missing {{'Offline'}}
{WORDS} NoResults closed/T/results/x
"""


def test_what_follows_from_one_cause_is_one_complaint() -> None:
    outcome = official.read("submission_checker", ("python",), 1, FOLLOWING)
    assert [each.rule for each in outcome.complaints] == ["performance.samples"]
    assert outcome.line == "submission_checker: refused for 1 reason"
    other = FOLLOWING + f"{WORDS} closed/T/results/x/resnet does not have all required scenarios, "
    outcome = official.read("submission_checker", ("python",), 1, other + "missing {'MultiStream'}")
    rules = [each.rule for each in outcome.complaints]
    assert rules == ["performance.samples", "benchmark.scenario-missing"]


def test_a_line_that_names_no_cause_is_kept_where_it_is_alone() -> None:
    words = f"{WORDS} Some accuracy checks Checks failed for: closed/T/x\n"
    (complaint,) = official.read("submission_checker", ("python",), 1, words).complaints
    assert complaint.rule == "accuracy.target"
    low = words.replace("ERROR", "WARNING").replace("Some", "x accuracy not met: expected=7, Some")
    (complaint,) = official.read("submission_checker", ("python",), 1, low + words).complaints
    assert "expected=7" in complaint.text
    assert official.read("submission_checker", ("python",), 0, low).complaints == ()


def test_every_meaning_is_a_rule_of_ours() -> None:
    known = {rule.id for rule in checks.rules()}
    assert {rule for _, rule in official.MEANINGS} <= known


def test_a_crash_is_no_acceptance() -> None:
    text = "Traceback (most recent call last):\n  File x\nTypeError: 'NoneType'"
    outcome = official.read("submission_checker", ("python",), 1, text)
    assert outcome.crashed
    assert "crashed, which counts as refused" in outcome.line


CRASH = "raise KeyError('vbench_score')\n"


def test_a_crash_of_the_older_file_counts_where_it_is_alone(source: Path, tmp_path: Path) -> None:
    tree, folder = lab.make(tmp_path / "tree"), source / "tools/submission"
    lab.put(folder / "submission_checker_old.py", CRASH)
    newer, older = official.run(sys.executable, source, tree.root, "6.1", tmp_path)
    assert newer.accepted
    assert older.crashed
    assert not older.refuses
    assert "does not know all of the round" in older.line
    lab.put(folder / "submission_checker/main.py", CRASH)
    assert all(
        each.refuses for each in official.run(sys.executable, source, tree.root, "6.1", tmp_path)
    )


REFUSAL = "print('ERROR] closed/Tester has no calibration file')\nraise SystemExit(1)\n"


def test_the_modular_checker_decides_where_it_is(source: Path, tmp_path: Path) -> None:
    tree, folder = lab.make(tmp_path / "tree"), source / "tools/submission"
    lab.put(folder / "submission_checker_old.py", REFUSAL)
    newer, older = official.run(sys.executable, source, tree.root, "6.1", tmp_path)
    assert not newer.refuses
    assert not older.accepted
    assert not older.refuses
    assert older.line.endswith("which does not count: submission_checker decides from v6.0 on")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "inference/tools/submission"
    # Without it, an installed package of this name is imported, as that of MLPerf Endpoints.
    lab.put(folder / "submission_checker/__init__.py", "")
    lab.put(folder / "submission_checker/main.py", CHECKER)
    lab.put(folder / "submission_checker_old.py", CHECKER)
    return tmp_path / "inference"


@pytest.mark.parametrize("name", official.OF_TAGS)
def test_the_checker_of_an_earlier_round_runs_by_its_name(tmp_path: Path, name: str) -> None:
    lab.put(tmp_path / "inference/tools/submission" / name, REFUSAL)
    (tmp_path / "tree").mkdir()
    told = (sys.executable, tmp_path / "inference", tmp_path / "tree", "2.1", tmp_path)
    (outcome,) = official.run(*told)
    assert outcome.checker == name.removesuffix(".py")
    assert [each.rule for each in outcome.complaints] == ["tree.calibration"]


def test_all_checkers_of_a_checkout_run_unpatched(source: Path, tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    report = tmp_path / "report"
    report.mkdir()
    before = (source / "tools/submission/submission_checker_old.py").read_bytes()
    outcomes = official.run(sys.executable, source, tree.root, "6.1", report)
    assert [each.checker for each in outcomes] == ["submission_checker", "submission_checker_old"]
    assert all(each.accepted for each in outcomes)
    assert "--submission-exceptions" in outcomes[0].command
    assert not any(word.startswith("--skip") for each in outcomes for word in each.command)
    assert (source / "tools/submission/submission_checker_old.py").read_bytes() == before
    assert (report / "submission_checker.txt").read_text().endswith("submission\n")


def test_a_refusal_is_shown_beside_our_checks(source: Path, tmp_path: Path) -> None:
    tree = lab.make(tmp_path / "tree")
    report = tmp_path / "report"
    report.mkdir()
    outcomes = official.run(sys.executable, source, tree.root, "6.1", report, more=["--fail"])
    answer = steps.check(tree.root, "6.1", "", outcomes)
    assert "submission_checker: refused for 1 reason" in answer.lines
    assert any("performance.seeds: not found by our checks" in line for line in answer.lines)


def test_a_checker_that_does_not_know_the_round(source: Path, tmp_path: Path) -> None:
    settings = 'MODEL_CONFIG = {\n    "v6.1": {\n    },\n}\n'
    lab.put(source / "tools/submission/submission_checker/constants.py", settings)
    (outcome,) = official.run(sys.executable, source, tmp_path, "4.1", tmp_path)
    assert not outcome.accepted
    assert "does not know round 4.1; give --round=4.1" in outcome.line


def test_a_folder_without_a_checker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="holds no submission checker"):
        official.home(tmp_path)
