"""Which program measures, where a known command line asks for another one."""

from __future__ import annotations

import pytest

import benchmark_lab as lab

RUN = lab.module_of(lab.SCRIPT / "run-mlperf-inference-app/customize.py")


@pytest.mark.parametrize(("implementation", "says"), [("reference", True), ("cmbench", False)])
def test_a_run_says_that_it_is_not_the_reference_code(
    implementation: str, says: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    RUN.take_nvidia({"CM_MLPERF_IMPLEMENTATION": implementation})
    assert ("cmbench's own harness runs" in capsys.readouterr().out) is says
