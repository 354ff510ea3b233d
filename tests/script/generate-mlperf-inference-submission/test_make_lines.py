"""Advice of the checks where results are made with make."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import submission_lab as lab
from mlperf.submission import make_lines
from mlperf.submission.checks import accuracy, benchmarks, compliance, performance, power, systems
from mlperf.submission.checks.base import Finding
from mlperf.submission.errors import SubmissionError
from nvidia_flow_lab import a_flow
from support import Home

FOLDER = make_lines.MakeFolder("run_harness")
EXACT = "--benchmarks=bert --scenarios=server --config_ver=high_accuracy"
TREE = "make update_results"


@pytest.mark.parametrize(
    ("mend", "typed"),
    [
        (
            performance.RERUN,
            f'make run_harness RUN_ARGS="{EXACT} --test_mode=PerformanceOnly", then {TREE}',
        ),
        (
            accuracy.RERUN,
            f'make run_harness RUN_ARGS="{EXACT} --test_mode=AccuracyOnly", then {TREE}',
        ),
        (compliance.RERUN, f'make run_audit_harness RUN_ARGS="{EXACT}", then {TREE}'),
        (
            benchmarks.RUN_ALL,
            (
                'make run_harness RUN_ARGS="--benchmarks=bert --config_ver=high_accuracy '
                '--test_mode=SubmissionRun", then make run_audit_harness '
                f'RUN_ARGS="--benchmarks=bert --config_ver=high_accuracy", then {TREE}'
            ),
        ),
        (
            benchmarks.DESCRIBE,
            (
                'make run_harness RUN_ARGS="--benchmarks=bert --scenarios=server '
                f'--config_ver=high_accuracy", then {TREE}'
            ),
        ),
        (performance.FULL, "set execution_mode: valid in flow.yaml"),
        (systems.MEND, f"add --system_file=FILE to the cm command that {TREE} prints"),
        (power.MEND, f"add --system_file=FILE to the cm command that {TREE} prints"),
        ("generate again with the right --category", f"set category in flow.yaml, then {TREE}"),
        ("give --category=edge or datacenter", "set category: edge or datacenter in flow.yaml"),
        ("truncate it: `cm run script --tags=truncate,accuracy-log`", "make truncate_results"),
    ],
)
def test_advice_names_what_can_be_typed_in_the_folder(mend: str, typed: str) -> None:
    told = FOLDER.advice(mend, "bert-99.9", "Server")
    assert typed in told
    assert "cm run" not in told


@pytest.mark.parametrize("benchmark", ["resnet", "bert-99", "bert-99.9", "3d-unet-99.9"])
@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_run_args_are_those_of_the_flow(tmp_path: Path, benchmark: str, scenario: str) -> None:
    from nvidia_mlperf.make import work

    where = f"closed/Me/results/A100-PCIe-80GBx1_TRT/{benchmark}/{scenario}"
    found = Finding("performance.valid", "error", where, "INVALID", "rules", performance.RERUN)
    mend = FOLDER.finding(found).mend
    run_args = next(word for word in shlex.split(mend) if word.startswith("RUN_ARGS="))
    typed = run_args.removeprefix("RUN_ARGS=").rstrip(",") + " --system_name=A100-PCIe-80GBx1"
    (item,) = work.plan(a_flow(tmp_path, typed, vendor_round="v2.0")).items
    assert (item.ours.removesuffix("50"), str(item.config.scenario)) == (benchmark, scenario)


def test_a_place_above_the_scenarios_has_no_scenario() -> None:
    found = Finding("structure.empty", "error", "closed/Me", "empty", "rules", benchmarks.RUN_ALL)
    assert "RUN_ARGS" in FOLDER.finding(found).mend
    assert "--scenarios" not in FOLDER.finding(found).mend


def test_without_results_the_target_that_measures_is_named() -> None:
    told = SubmissionError("no finished results", "give the --results_dir of ...", "no-results")
    assert FOLDER.error(told).hint == f"make run_harness, then {TREE}"


def test_the_checker_of_the_flow_names_make(home: Home) -> None:
    tree = lab.make(home.path / "tree")
    next(tree.root.rglob("TEST04/verify_performance.txt")).unlink()
    done = home.cm(
        *("run", "script", "--tags=run,mlperf,inference,submission,checker", "--quiet"),
        *(f"--submission_dir={tree.root}", "--official=no", "--make_target=run_harness"),
    )
    assert done.status == 1
    assert "make run_audit_harness RUN_ARGS=" in " ".join(done.stdout.split())
    assert "cm run" not in done.stdout + done.stderr
