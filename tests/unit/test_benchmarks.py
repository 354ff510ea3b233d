"""What the benchmarks print: ratios of the figures beside them."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
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


def test_benchmark_app_is_given_the_batches_that_ours_would_be(harness, tmp_path):
    app = harness.benchmark_app
    peer = app.Peer(tmp_path / "model.onnx", "int8", tmp_path)
    pictures = [{"x:0": np.zeros((2, 3, 4, 4), np.float32)}] * 2
    texts = [{"ids": np.zeros((2, n), int), "mask": np.zeros((2, n), int)} for n in (9, 3, 6)]
    (hint, one) = peer.prepare([*pictures, {"x:0": pictures[0]["x:0"][:1]}], 2)
    assert hint.words[2:4] == ("-shape", "x:0[2,3,4,4]")
    assert hint.words[1].count(".npy") == 2, "a batch that is not full is left out"
    assert (hint.label, one.label) == ("(hint, b2)", "(one stream, b2)")
    mixed, _, usual, _ = peer.prepare(texts, 2)
    assert mixed.label == "(hint, b2, lengths)"
    assert "ids[2,6],mask[2,6]" in usual.words, "the one of the mean length"
    assert peer.prepare(pictures, 4) == []


def test_benchmark_app_that_fails_tells_why(harness):
    app = harness.benchmark_app
    assert app.throughput("[ INFO ] Throughput:   236.50 FPS") == 236.5
    with pytest.raises(app.NotRunnableError, match="no such option"):
        app.throughput("", "x\nno such option")


def test_without_numpy_the_command_that_brings_it_is_told():
    words = [sys.executable, "-S", str(BENCHMARKS / "harness.py")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make bench" in done.stderr
    assert "Traceback" not in done.stderr
