"""What stands in for TensorRT: a whole session on it, and the word in all that it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import benchmark_lab as lab
from mlperf.catalog import stand_in
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.stand_in import link_beside
from mlperf.harness.errors import HarnessError
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import GraphSpec, ModelSpec

WORD = "stand-in"
SIGNED = (
    "accuracy.txt",
    "measurements.json",
    "README.md",
    "report.html",
    "results.json",
    "summary.txt",
    "user.conf",
)


def graph(path: Path) -> GraphSpec:
    found = records.decode(ModelSpec, lab.model())
    return GraphSpec("main", str(path), found.sha256, found.inputs, found.outputs)


def test_a_session_says_everywhere_what_computed_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    asked = {"backend": WORD, "precision": "float16", "scenarios": ["Offline"]}
    config = tmp_path / "session.json"
    config.write_text(json.dumps(lab.settings(results, **asked)), encoding="utf-8")
    assert sessions.main(config) == 0
    told = json.loads(next(results.glob("**/results.json")).read_text("utf-8"))
    assert told["backend"] == WORD
    assert WORD in told["versions"]
    assert WORD in told["sut"]
    printed = capsys.readouterr().out
    assert "Offline performance: " in printed
    assert "Offline accuracy: 99.07 %" in printed, "float16 is as good as float32 here"
    assert f"-{WORD}-v" in printed, "the table"
    for name in ("summary.txt", "README.md"):
        for page in results.glob(f"**/{name}"):
            assert WORD in page.read_text("utf-8"), page
    assert not list(tmp_path.glob("**/*.plan"))
    for name in SIGNED:
        found = list(results.glob(f"**/{name}"))
        assert found, name
        for path in found:
            assert stand_in.find_replaced(path.read_text("utf-8")) == "TensorRT", path


def test_only_what_says_that_it_stands_in_is_opened(tmp_path: Path) -> None:
    backend = backends.create(WORD, "cpu", "float32")
    source = graph(lab.MODEL / "resnet50_tiny.onnx")
    with pytest.raises(HarnessError, match="its builder is unknown"):
        backend.open(source, ["ArgMax:0"], 1, 1)
    built = backend.build(source, tmp_path)
    assert backend.open(built, ["ArgMax:0"], 1, 1)
    assert backend.build(built, tmp_path / "again") == built, "one that is there is taken"
    with pytest.raises(HarnessError, match="precision float32, not float16"):
        backends.create(WORD, "cpu", "float16").open(built, ["ArgMax:0"], 1, 1)


def test_weights_beside_a_graph_come_along(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    source = tmp_path / "given" / "x.onnx"
    source.parent.mkdir()
    model = onnx.load(lab.MODEL / "resnet50_tiny.onnx")
    onnx.save(model, source, save_as_external_data=True, location="x.bin", size_threshold=0)
    folder = tmp_path / "made"
    folder.mkdir()
    link_beside(source, folder)
    assert (folder / "x.bin").read_bytes() == (source.parent / "x.bin").read_bytes()
