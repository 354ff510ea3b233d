"""What the benchmarks print: ratios of the figures beside them."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from support import ROOT

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import harness

    return harness


def test_a_ratio_is_that_of_the_figures_beside_it(harness):
    turns = [(harness.Ours(ours, 0, 0), theirs) for ours, theirs in ((80, 60), (90, 100), (70, 71))]
    ours, theirs = harness.middle(turns)
    assert (ours.value, theirs) == (70, 71)


def test_a_server_limit_that_one_call_breaks_is_no_failure(harness):
    point = SimpleNamespace(batch_s=0.030)
    stream = {harness.SINGLE_STREAM: SimpleNamespace(median_s=0.020)}
    found = SimpleNamespace(server=point, server_limit_s=0.015, streams=stream)
    (row,) = harness.server_rows(None, found, 100.0, "Server")
    assert row.good
    assert row.verdict.strip() == "not measurable here"
    assert (row.ours, row.against) == ("limit 15 ms", "a call 30 ms")


def test_without_numpy_the_command_that_brings_it_is_told():
    words = [sys.executable, "-S", str(BENCHMARKS / "harness.py")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make bench" in done.stderr
    assert "Traceback" not in done.stderr
