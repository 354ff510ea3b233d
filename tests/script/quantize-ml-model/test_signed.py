"""Models for TensorRT: signed symmetric integers, and scales in its calibration cache."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.errors import HarnessError
from mlperf.harness.quantization import calibration, calibration_cache, quantize, ranges

SAMPLES = 8
onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny ResNet-50, quantized for TensorRT on a few samples."""
    folder = tmp_path_factory.mktemp("signed")
    return quantized(folder, "resnet50", lab.MODEL, lab.arrays("train"), SAMPLES)


def quantized(folder: Path, name: str, model: Path, data: Path, samples: int) -> Path:
    config = folder / "quantize.json"
    words = {"benchmark": name, "facts": str(model / "model.json"), "dataset": str(data)}
    asked = {**words, "samples": samples, "folder": str(folder), "signed": True, "weight_bits": 7}
    config.write_text(json.dumps(asked), encoding="utf-8")
    assert quantize.main(config) == 0
    facts = records.read_json(folder / "model.json")
    return folder / str(facts["file"])


def test_all_is_signed_around_zero_and_biases_stay_float(signed: Path) -> None:
    graph = onnx.load(signed).graph
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    pairs = [node for node in graph.node if node.op_type.endswith("QuantizeLinear")]
    assert len(pairs) > 20
    for node in pairs:
        zero = weights[node.input[2]]
        assert zero.dtype == np.int8, node.name
        assert not zero.any(), node.name
    assert not any(array.dtype == np.int32 for array in weights.values()), "no int32 biases"
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    made = {name: node for node in graph.node for name in node.output}
    for node in convolutions:
        assert made[node.input[1]].op_type == "DequantizeLinear"
        assert node.input[1] not in weights, "a pair of operators stands behind each weight"


def test_it_is_nearly_as_good_as_the_float_model(signed: Path) -> None:
    facts = records.read_json(signed.parent / "model.json")
    assert "ranges by entropy" in facts["weight_transformations"]
    graph = quantize._spec(facts, signed).graphs()[0]
    (predictor,) = backends.create("onnxruntime", "cpu", "int8").open(graph, ["ArgMax:0"], 1, 1)
    (found,) = predictor.predict({"input_tensor:0": np.load(lab.arrays() / "samples.npy")})
    right = (found - 1 == np.load(lab.arrays() / "labels.npy")).mean()
    assert 100 * right >= facts["accuracy"]["target"]


def test_scales_are_those_of_the_entropy_calibrater_on_the_same_data(
    signed: Path, tmp_path: Path
) -> None:
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator
    from onnxruntime.quantization.shape_inference import quant_pre_process

    mine = calibration_cache.read(calibration_cache.path_for(signed))
    facts = records.read_json(lab.MODEL / "model.json")
    model = quantize._spec(facts, lab.MODEL / facts["file"])
    benchmark = benchmarks.create("resnet50", lab.arrays("train"), model)
    prepared = tmp_path / "prepared.onnx"
    quant_pre_process(model.path, str(prepared), skip_symbolic_shape=True)
    with ranges.lean():
        calibrater = create_calibrator(
            prepared,
            augmented_model_path=str(tmp_path / "augmented.onnx"),
            calibrate_method=CalibrationMethod.Entropy,
            extra_options={"symmetric": True},
        )
        calls = calibration.CalibrationFeeds(calibration.calls_of(benchmark, model, SAMPLES))
        calibrater.collect_data(calls)
        found = calibrater.compute_data()
    # What a Relu cuts is given the range of what it leaves.
    cut = {n.input[0]: n.output[0] for n in onnx.load(prepared).graph.node if n.op_type == "Relu"}
    names = set(mine) & set(found.keys())
    assert len(names) >= 10
    for name in names:
        least, greatest = (abs(float(each)) for each in found[cut.get(name, name)].range_value)
        assert mine[name] == pytest.approx(max(least, greatest) / 127.5, rel=0.005), name


def test_texts_of_many_lengths_are_calibrated(tmp_path: Path) -> None:
    folder = lab.SCRIPT / "get-ml-model-bert-large-squad" / "tiny"
    model = quantized(tmp_path, "bert-99", folder, forms.features("train"), 8)
    scales = calibration_cache.read(calibration_cache.path_for(model))
    assert scales == pytest.approx(calibration_cache.scales_of(model))
    assert min(scales.values()) > 0


# ---------------------------------------------------------------- the format


def test_scales_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    scales = {"input: 0": 1.0, "/a/b(Unnamed Layer* 3)": 0.007874016, "é": 3.4e38}
    calibration_cache.write(path, scales)
    assert path.read_text("utf-8").splitlines()[:2] == [
        "TRT-8501-EntropyCalibration2",
        "input: 0: 3f800000",
    ]
    found = calibration_cache.read(path)
    assert list(found) == list(scales)
    assert found == pytest.approx(scales, rel=1e-6)


@pytest.mark.parametrize("head", ["TRT-7200-EntropyCalibration2", "TRT-100900-MinMaxCalibration"])
def test_caches_of_other_releases_are_read(head: str, tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    path.write_text(f"{head}\ndata: 3c010a14\n", "utf-8")
    assert calibration_cache.read(path)["data"] == pytest.approx(1 / 127, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begins with ''"),
        ("hello\n", "begins with 'hello'"),
        ("TRT-8501-EntropyCalibration2\nx: 3f80\n", ":2: expected NAME: 8 digits"),
        ("TRT-8501-EntropyCalibration2\nx: 3f800000\nx\n", ":3: "),
    ],
)
def test_what_is_no_cache_is_one_error(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    path.write_text(text, "utf-8")
    with pytest.raises(HarnessError, match=r"expected|not a calibration cache") as caught:
        calibration_cache.read(path)
    assert said in str(caught.value)


def test_a_binary_file_and_no_file_are_one_error(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    for content in (b"\xff\xfe\x00", None):
        if content:
            path.write_bytes(content)
        else:
            path.unlink()
        with pytest.raises(HarnessError, match="cannot read the calibration cache"):
            calibration_cache.read(path)
