"""Both checkers on one tree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import mlperf_endpoints_lab as lab
from common.problems import Problem
from mlperf.endpoints import official
from support import Home

CHECK = ("run", "script", "--tags=run,mlperf,endpoints-submission-checker", "--quiet")


def test_a_refused_tree_is_an_error_with_its_first_fault(home: Home, tmp_path: Path) -> None:
    made = lab.make_tree(tmp_path)
    made.edit("r22/point.yaml", seed_set="B")
    done = home.cm(*CHECK, "--official=no", f"--submission_dir={made.root}")
    assert done.status
    output = done.stdout + done.stderr
    assert "endpoints.seeds" in output
    assert "Endpoints rules 4.6" in output


def test_no_tree(home: Home, tmp_path: Path) -> None:
    done = home.cm(*CHECK, "--official=no", f"--submission_dir={tmp_path}")
    assert "has no results/SYSTEM/MODEL/rN/point.yaml" in done.stdout + done.stderr


def test_the_official_checker_s_own_words(tmp_path: Path) -> None:
    pytest.importorskip("endpoints_submission_cli")
    made = lab.make_tree(tmp_path, "Standardized")
    verdict = official.check(sys.executable, made.root)
    assert verdict.passed
    assert verdict.last_line.startswith("PASSED")
    made.edit("r22/point.yaml", seed_set="B")
    refused = official.check(sys.executable, made.root)
    assert ("seed-set-consistency") in {rule for rule, _ in refused.errors}
    assert refused.last_line.startswith("FAILED")


def test_a_python_without_the_official_checker(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="gave no report"):
        official.check(sys.executable + "-none", tmp_path)
