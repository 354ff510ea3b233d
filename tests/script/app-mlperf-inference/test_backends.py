"""Every backend gives the same answers on the same model, or says why it cannot."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_lab as lab
from common.problems import Problem
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.errors import HarnessError
from mlperf.harness.settings import ModelSpec
from support import python_env

OUTPUTS = ("ArgMax:0", "softmax_tensor:0")
NEEDS = {"onnxruntime": "onnxruntime", "openvino": "openvino", "pytorch": "onnx2torch"}


def create(name: str, precision: str = "float32", device: str = "cpu") -> Any:
    if importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{name} needs: pip install {NEEDS[name]}")
    return backends.create(name, device, precision)


def graph(**changes: Any) -> Any:
    return records.decode(ModelSpec, lab.model(**changes)).graphs()[0]


def openvino_abilities() -> list[str]:
    openvino = pytest.importorskip("openvino")
    found: list[str] = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return found


def samples() -> Any:
    return np.load(lab.arrays() / "samples.npy")


@pytest.mark.parametrize(("workers", "threads"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("name", ["openvino", "pytorch"])
def test_a_backend_answers_like_onnx_runtime(name: str, workers: int, threads: int) -> None:
    (reference,) = create("onnxruntime").open(graph(), OUTPUTS, 1, 1)
    labels, scores = reference.predict({"input_tensor:0": samples()})
    predictors = create(name).open(graph(), OUTPUTS, workers, threads)
    assert len(predictors) == workers
    for predictor in predictors:
        found = predictor.predict({"input_tensor:0": samples()})
        np.testing.assert_array_equal(found[0], labels)
        np.testing.assert_allclose(found[1], scores, atol=1e-4)
        few = predictor.predict({"input_tensor:0": samples()[:3]})
        assert few[0].shape == (3,)


@pytest.mark.parametrize("name", sorted(NEEDS))
@pytest.mark.parametrize("batch", [1, 4])
def test_batches_of_one_size_and_a_shorter_one_have_the_same_answers(name: str, batch: int) -> None:
    (free,) = create(name).open(graph(), OUTPUTS, 1, 1)
    for fixed in create(name).open_fixed(graph(), OUTPUTS, 2, 1, batch):
        for count in (batch, 1, batch):
            some = {"input_tensor:0": samples()[:count]}
            wanted = [np.array(array) for array in free.predict(some)]
            labels, scores = fixed.predict(some)
            np.testing.assert_array_equal(labels, wanted[0])
            np.testing.assert_allclose(scores, wanted[1], atol=1e-5)


def test_a_model_whose_rows_are_not_its_samples_keeps_its_free_shape(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    from onnx import TensorProto, helper, save

    names = [("x", TensorProto.FLOAT, ["N", 2]), ("y", TensorProto.FLOAT, ["M"])]
    tensors = [helper.make_tensor_value_info(*one) for one in names]
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [-1])
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    path = tmp_path / "flat.onnx"
    save(
        helper.make_model(
            helper.make_graph([node], "flat", *([t] for t in tensors), [shape]),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        ),
        path,
    )
    flat = graph(
        path=str(path),
        inputs=[{"name": "x", "dtype": "float32", "shape": [2]}],
        outputs=[{"name": "y", "dtype": "float32", "shape": []}],
    )
    (predictor,) = create("openvino").open_fixed(flat, ("y",), 1, 1, 4)
    for count in (4, 3):
        (found,) = predictor.predict({"x": np.ones((count, 2), np.float32)})
        assert found.shape == (2 * count,)


@pytest.mark.parametrize("name", ["openvino", "pytorch"])
def test_bfloat16_keeps_the_labels(name: str) -> None:
    if name == "openvino" and "BF16" not in openvino_abilities():
        with pytest.raises(HarnessError, match="does not compute in bfloat16"):
            create(name, "bfloat16")
        return
    (predictor,) = create(name, "bfloat16").open(graph(), OUTPUTS, 1, 1)
    labels, scores = predictor.predict({"input_tensor:0": samples()})
    assert scores.dtype == np.float32
    truth = np.load(lab.arrays() / "labels.npy")
    assert (labels - 1 == truth).mean() > 0.98


@pytest.mark.parametrize("name", ["openvino", "pytorch"])
def test_outputs_come_in_the_asked_order(name: str) -> None:
    (predictor,) = create(name).open(graph(), OUTPUTS[::-1], 1, 1)
    scores, labels = predictor.predict({"input_tensor:0": samples()[:4]})
    assert (scores.shape, labels.shape) == ((4, 11), (4,))


@pytest.mark.parametrize("name", sorted(NEEDS))
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"inputs": [{"name": "image", "dtype": "float32", "shape": [3, 28, 28]}]},
            "the model has no input image",
        ),
        (
            {"outputs": [{"name": "ArgMax:0", "dtype": "int32", "shape": []}]},
            "output ArgMax:0 of the model is int64",
        ),
    ],
)
def test_another_signature_is_refused(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        create(name).open(graph(**change), OUTPUTS[:1], 1, 1)


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_a_file_that_is_no_model_is_refused(name: str, tmp_path: Any) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(HarnessError, match=r"cannot (open|read) .*broken\.onnx"):
        create(name).open(graph(path=str(path)), OUTPUTS, 1, 1)


@pytest.mark.parametrize(
    ("name", "precision", "device", "message"),
    [
        ("onnxruntime", "bfloat16", "cpu", "onnxruntime has no precision bfloat16"),
        ("onnxruntime", "float32", "tpu", "onnxruntime has no device tpu"),
        ("openvino", "float16", "cpu", "openvino has no precision float16"),
        ("openvino", "float32", "cuda", "openvino has no device cuda"),
        ("pytorch", "int8", "cpu", "pytorch has no precision int8"),
        ("pytorch", "float16", "cpu", "no precision float16; there are: float32, bfloat16"),
    ],
)
def test_what_a_backend_does_not_do_is_named(
    name: str, precision: str, device: str, message: str
) -> None:
    with pytest.raises(Problem, match=message):
        create(name, precision, device)


@pytest.mark.parametrize("name", ["onnxruntime", "pytorch"])
def test_a_device_that_is_not_there_is_never_replaced_by_the_processor(name: str) -> None:
    if list(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this machine has such a device")
    with pytest.raises(HarnessError, match="CUDA"):
        create(name, device="cuda").open(graph(), OUTPUTS, 1, 1)


SIGNAL_AFTER_TWO = """
import gc, signal
from mlperf.harness.backends import registry as backends
first, second = (backends.create("openvino", "cpu", "float32") for _ in range(2))
del first
gc.collect()
del second
gc.collect()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("alive")
"""


def test_a_signal_finds_a_stack_when_backends_have_ended() -> None:
    pytest.importorskip("openvino")
    words = [sys.executable, "-c", SIGNAL_AFTER_TWO]
    done = subprocess.run(words, env=python_env(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n")
