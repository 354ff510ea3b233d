"""Quantizing the tiny model for real, and what it costs in accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlperf_harness import backends, quantize, records
from mlperf_harness.errors import HarnessError

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error

onnx = pytest.importorskip("onnx")
customize = lab.module_of(lab.SCRIPT / "quantize-ml-model" / "customize.py")


def request(folder: Path, **changes: Any) -> Path:
    words = {
        "benchmark": "resnet50",
        "facts": str(lab.MODEL / "model.json"),
        "dataset": str(lab.arrays("train")),
        "samples": 64,
        "folder": str(folder),
    }
    config = folder / "quantize.json"
    config.write_text(json.dumps(words | changes), encoding="utf-8")
    return config


def test_a_quantized_model_is_smaller_and_nearly_as_good(tmp_path: Path) -> None:
    assert quantize.main(request(tmp_path)) == 0
    facts = records.read_json(tmp_path / "model.json")
    whole = records.read_json(lab.MODEL / "model.json")
    assert facts["bytes"] < whole["bytes"] / 2
    assert facts["precision"] == "int8"
    assert facts["accuracy"] == whole["accuracy"], "the target stays that of the float model"
    assert "64 calibration samples" in facts["weight_transformations"]
    graph = quantize._spec(facts, tmp_path / facts["file"]).graphs()[0]
    (predictor,) = backends.create("onnxruntime", "cpu", "int8").open(graph, ["ArgMax:0"], 1, 1)
    (found,) = predictor.predict({"input_tensor:0": np.load(lab.arrays() / "samples.npy")})
    right = (found - 1 == np.load(lab.arrays() / "labels.npy")).mean()
    assert 100 * right >= facts["accuracy"]["target"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "model.json",
        "quantize.json",
        facts["file"],
    }


def test_the_model_is_fed_as_the_benchmark_feeds_it(tmp_path: Path) -> None:
    asked = records.read(quantize.Request, request(tmp_path, samples=5))
    facts = records.read_json(lab.MODEL / "model.json")
    model = quantize._spec(facts, lab.MODEL / facts["file"])
    feeds = list(quantize.calibration_feeds(asked, model))
    expected = np.load(lab.arrays("train") / "samples.npy")[:5]
    np.testing.assert_array_equal(np.concatenate([f["input_tensor:0"] for f in feeds]), expected)


def test_a_broken_model_is_one_clear_error(tmp_path: Path) -> None:
    facts = records.read_json(lab.MODEL / "model.json")
    (tmp_path / "model.json").write_text(json.dumps(facts), encoding="utf-8")
    (tmp_path / facts["file"]).write_bytes(b"not a model")
    with pytest.raises(HarnessError, match="onnxruntime cannot quantize"):
        quantize.main(request(tmp_path, facts=str(tmp_path / "model.json")))


def test_a_detector_keeps_what_places_its_boxes_in_float(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-ssd-mobilenet" / "tiny"
    whole = records.read_json(folder / "model.json")
    changes = {"benchmark": "ssd-mobilenet", "facts": str(folder / "model.json"), "samples": 32}
    pictures = forms.pictures("ssd-mobilenet")  # for ranges only: nothing is judged here
    assert quantize.main(request(tmp_path, dataset=str(pictures), **changes)) == 0
    facts = records.read_json(tmp_path / "model.json")
    assert facts["bytes"] < whole["bytes"] / 2
    model = onnx.load(tmp_path / facts["file"])
    made = {name: node for node in model.graph.node for name in node.output}
    before = {
        node.name: [made[name].op_type for name in node.input if name in made]
        for node in model.graph.node
    }
    assert "DequantizeLinear" in before["layer1/conv"]
    for name in whole["keep_float"]:
        assert "DequantizeLinear" not in before[name][1:], name


def test_called_alone_it_says_what_it_is_a_part_of() -> None:
    with pytest.raises(Error, match="there is nothing to quantize") as caught:
        customize.preprocess({"env": {"CM_QUANTIZE_SAMPLES": "8"}})
    assert "--precision=int8" in caught.value.hint
