"""Quantizing the tiny model for real, and what it costs in accuracy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlperf_harness import backends, benchmarks, quantize, records
from mlperf_harness.errors import HarnessError
from mlperf_harness.settings import MAIN

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


def test_a_quantized_bert_reaches_its_target(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-bert-large-squad" / "tiny"
    changes = {"benchmark": "bert-99", "facts": str(folder / "model.json")}
    config = request(tmp_path, dataset=str(forms.features("train")), **changes)
    assert quantize.main(config) == 0
    facts = records.read_json(tmp_path / "model.json")
    model = quantize._spec(facts, tmp_path / facts["file"])
    benchmark = benchmarks.create("bert-99", forms.features(), model)
    opened = backends.create("onnxruntime", "cpu", "int8").open(
        model.graphs()[0], benchmark.outputs[MAIN], 1, 1
    )
    answers = forms.answers(benchmark, benchmark.solver({MAIN: opened[0]}, 8), 8)
    figure = benchmark.accuracy(answers, np.arange(benchmark.sample_count))
    assert figure.value >= facts["accuracy"]["target"]
    graph = onnx.load(tmp_path / facts["file"]).graph
    made = {name: node.op_type for node in graph.node for name in node.output}
    products = [node for node in graph.node if node.op_type == "MatMul"]
    whole = [n.name for n in products if "DequantizeLinear" not in [made.get(x) for x in n.input]]
    assert len(products) == 13
    attention = [f"/layers.{k}/attention/MatMul{part}" for k in (0, 1) for part in ("", "_1")]
    assert sorted(whole) == [*attention, "/spans/MatMul"]


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


# ---------------------------------------------------------------- which nodes stay float


def small_detector(opset: int = 13, tail: Sequence[Any] = ()) -> Any:
    """Two levels whose heads share weights and biases, boxes worked out, the best ones taken."""
    random = np.random.default_rng(2)

    def noise(name: str, *shape: int) -> Any:
        values = random.standard_normal(shape) * 0.3
        return onnx.numpy_helper.from_array(values.astype(np.float32), name)

    weights = [noise("w", 8, 3, 3, 3), noise("v", 8, 8, 1, 1), noise("b", 8)]
    weights += [noise("wb", 4, 8, 1, 1), noise("bb", 4), noise("wc", 32, 8, 1, 1), noise("bc", 32)]
    weights.append(noise("start", 1, 4, 1, 1))
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["image", "w", "b"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], ["l0"]),
        node("Conv", ["l0", "v", "b"], ["c"]),
        node("Add", ["c", "l0"], ["l1"]),
    ]
    for level in ("l0", "l1"):
        nodes += [
            node("Conv", [level, "wb", "bb"], [f"{level}m"], f"{level}/boxes"),
            node("Conv", [level, "wc", "bc"], [f"{level}s"], f"{level}/classes"),
            node("Add", [f"{level}m", "start"], [f"{level}b"], f"{level}/decode"),
        ]
    nodes += [
        node("Concat", ["l0b", "l1b"], ["boxes"], axis=2),
        node("Concat", ["l0s", "l1s"], ["logits"], axis=2),
        node("Sigmoid", ["logits"], ["scores"]),
        *tail,
    ]
    info = onnx.helper.make_tensor_value_info
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "detector",
        [info("image", floats, [1, 3, 16, 16])],
        [info("boxes", floats, [1, 4, 16, 8]), info("scores", floats, [1, 32, 16, 8])],
        weights,
    )
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=7)


def quantized(folder: Path, model: Any) -> tuple[Any, str]:
    """The model in int8, and the note about it."""
    random = np.random.default_rng(3)
    feeds = [{"image": random.standard_normal((1, 3, 16, 16), np.float32)} for _ in range(6)]
    onnx.save(model, folder / "float.onnx")
    counted = quantize.Counted(iter(feeds))
    note = quantize._quantize(folder / "float.onnx", folder / "int8.onnx", counted, ())
    assert sorted(path.name for path in folder.iterdir()) == ["float.onnx", "int8.onnx"]
    return onnx.load(folder / "int8.onnx"), note


def test_what_places_boxes_and_what_follows_the_last_layers_stays_float() -> None:
    graph = small_detector().graph
    stays = {"l0/decode", "l1/decode", "l0/boxes", "l1/boxes"}
    assert set(quantize.left_float(graph)) == stays


def test_a_classifier_keeps_no_layer_float() -> None:
    pytest.importorskip("onnxruntime")
    model = onnx.load(lab.MODEL / records.read_json(lab.MODEL / "model.json")["file"])
    layers = {node.name for node in model.graph.node if node.op_type in quantize.LAYERS}
    assert not layers.intersection(quantize.left_float(model.graph))


def test_heads_with_shared_weights_answer_nearly_as_in_float(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model, note = quantized(tmp_path, small_detector())
    assert note == (
        "quantized to int8: weights by channel, activations by tensor, 6 calibration samples"
    )
    made = {name: node for node in model.graph.node for name in node.output}
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    whole = {n.name for n in convs if n.input[1] not in made}
    assert whole == {"l0/boxes", "l1/boxes"}
    feeds = {"image": np.random.default_rng(4).standard_normal((1, 3, 16, 16), np.float32)}
    answers = [
        runtime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"]).run(
            None, feeds
        )
        for name in ("float.onnx", "int8.onnx")
    ]
    for exact, coarse in zip(*answers, strict=True):
        assert np.abs(exact - coarse).max() < 0.06 * np.ptp(exact)


def test_operators_of_an_old_version_are_converted(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, note = quantized(tmp_path, small_detector(11))
    assert model.opset_import[0].version == quantize.OPSET
    assert "by channel" in note


@pytest.mark.parametrize(("opset", "works"), [(11, True), (9, False)])
def test_where_they_cannot_be_converted_there_is_a_scale_for_each_tensor_or_a_refusal(
    opset: int, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")

    def fail(*_: Any) -> None:
        raise RuntimeError("no adapter for Loop")

    monkeypatch.setattr("onnx.version_converter.convert_version", fail)
    if works:
        model, note = quantized(tmp_path, small_detector(opset))
        assert (model.opset_import[0].version, "by tensor" in note) == (opset, True)
        return
    with pytest.raises(HarnessError, match=r"operators of version 9.*10.*no adapter for Loop"):
        quantized(tmp_path, small_detector(opset))


def test_called_alone_it_says_what_it_is_a_part_of() -> None:
    with pytest.raises(Error, match="there is nothing to quantize") as caught:
        customize.preprocess({"env": {"CM_QUANTIZE_SAMPLES": "8"}})
    assert "--precision=int8" in caught.value.hint
