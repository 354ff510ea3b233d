"""ResNet-50 of real shape without knowledge, and images of noise for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from support import LIB, run

onnx = pytest.importorskip("onnx")

MODEL = LIB / "modelzoo/resnet50" / "synthetic.py"
IMAGES = LIB / "modelzoo/preprocessing/imagenet" / "synthetic.py"


def test_a_model_of_real_shape_takes_images_of_noise(tmp_path: Path) -> None:
    run([sys.executable, str(MODEL), "--out", str(tmp_path)]).ok()
    facts = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert 100_000_000 < facts["bytes"] < 105_000_000, "25.6 million weights of 4 bytes"
    images = tmp_path / "images"
    images.mkdir()
    run([sys.executable, str(IMAGES), "--out", str(images), "--count", "3"]).ok()
    samples = np.load(images / "samples.npy")
    assert samples.shape == (3, 3, 224, 224)
    assert abs(samples.mean()) < 30
    assert json.loads((images / "dataset.json").read_text(encoding="utf-8"))["count"] == 3
    session = onnxruntime.InferenceSession(
        str(tmp_path / facts["file"]), providers=["CPUExecutionProvider"]
    )
    labels, scores = session.run(["ArgMax:0", "softmax_tensor:0"], {"input_tensor:0": samples})
    assert (labels.dtype, scores.shape) == (np.int64, (3, 1001))
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-4)


def test_a_narrow_model_is_as_deep_and_has_the_same_signature(tmp_path: Path) -> None:
    run([sys.executable, str(MODEL), "--out", str(tmp_path), "--width", "8"]).ok()
    facts = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert facts["name"] == "resnet50_synthetic_8"
    assert facts["bytes"] < 3_000_000
    model = onnx.load(tmp_path / facts["file"])
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 53
    assert [tensor.name for tensor in model.graph.output] == ["ArgMax:0", "softmax_tensor:0"]
