"""The shipped tiny model: what its facts say is true, and training it again gives its like."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import benchmark_lab as lab
from cmbench.errors import Error
from support import LIB, run

TRAIN = LIB / "modelzoo/resnet50" / "train.py"
FACTS: dict[str, Any] = json.loads((lab.MODEL / "model.json").read_text(encoding="utf-8"))
customize = lab.module_of(lab.SCRIPT / "get-ml-model-resnet50" / "customize.py")


def session() -> Any:
    return onnxruntime.InferenceSession(
        str(lab.MODEL / FACTS["file"]), providers=["CPUExecutionProvider"]
    )


def test_the_file_is_small_and_is_the_one_that_was_trained() -> None:
    data = (lab.MODEL / FACTS["file"]).read_bytes()
    assert len(data) == FACTS["bytes"] <= 300_000
    assert hashlib.sha256(data).hexdigest() == FACTS["sha256"]


def test_it_was_trained_on_the_data_that_the_scripts_make() -> None:
    for name, part in (("training", "train"), ("held_out", "val")):
        digest = hashlib.sha256((lab.arrays(part) / "samples.npy").read_bytes()).hexdigest()
        assert FACTS["training"]["data"][name]["sha256"] == digest


def test_its_signature_is_that_of_mlperfs_resnet50() -> None:
    model = session()
    (given,) = model.get_inputs()
    assert (given.name, given.type) == ("input_tensor:0", "tensor(float)")
    assert given.shape[1:] == [3, 28, 28]
    kinds = [(output.name, output.type) for output in model.get_outputs()]
    assert kinds == [("ArgMax:0", "tensor(int64)"), ("softmax_tensor:0", "tensor(float)")]


def test_its_held_out_accuracy_is_the_stated_one() -> None:
    labels = np.load(lab.arrays() / "labels.npy")
    found, scores = session().run(None, {"input_tensor:0": np.load(lab.arrays() / "samples.npy")})
    right = int((found - 1 == labels).sum())
    assert 100 * right / len(labels) == pytest.approx(FACTS["accuracy"]["reference"], abs=1e-4)
    assert FACTS["accuracy"]["reference"] >= 97.5
    assert FACTS["accuracy"]["target"] == pytest.approx(0.99 * FACTS["accuracy"]["reference"], 1e-5)
    np.testing.assert_array_equal(scores.argmax(axis=1), found)
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
    assert found.min() > 0, "the background class is never the answer"


def test_a_batch_gives_what_its_samples_give_alone() -> None:
    samples = np.load(lab.arrays() / "samples.npy")[:16]
    model = session()
    (together,) = model.run(["ArgMax:0"], {"input_tensor:0": samples})
    alone = [model.run(["ArgMax:0"], {"input_tensor:0": one[None]})[0][0] for one in samples]
    assert together.tolist() == alone


def step() -> dict[str, Any]:
    script = lab.SCRIPT / "get-ml-model-resnet50"
    env = {
        "CM_ML_MODEL_FORM": "tiny",
        "CM_RESNET50_RETRAIN": "no",
        "CM_TMP_CURRENT_SCRIPT_PATH": str(script),
    }
    return {"env": env}


def test_customize_verifies_and_describes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    i = step()
    customize.preprocess(i)
    customize.postprocess(i)
    env = i["env"]
    assert Path(env["CM_ML_MODEL_FILE_WITH_PATH"]).parent == tmp_path
    assert env["CM_ML_MODEL_INPUT_LAYER_NAME"] == "input_tensor:0"
    assert float(env["CM_ML_MODEL_ACCURACY_TARGET"]) == FACTS["accuracy"]["target"]


def test_a_changed_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    i = step()
    customize.preprocess(i)
    with (tmp_path / FACTS["file"]).open("ab") as file:
        file.write(b"x")
    with pytest.raises(Error, match="expected " + FACTS["sha256"]):
        customize.postprocess(i)


@pytest.mark.slow
def test_training_again_gives_a_model_as_good(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs PyTorch: pip install torch")
    pytest.importorskip("onnx", reason="training needs onnx: pip install onnx")
    out = tmp_path / "model"
    out.mkdir()
    parts = ["--training", str(lab.arrays("train")), "--held-out", str(lab.arrays())]
    program = shutil.copytree(TRAIN.parent, tmp_path / "src") / TRAIN.name
    run([sys.executable, str(program), *parts, "--out", str(out)], timeout=300).ok()
    again = json.loads((out / "model.json").read_text(encoding="utf-8"))
    # Another processor rounds differently: seeds differ by up to 1.3 points on the 540 images.
    assert again["accuracy"]["reference"] >= 97.5
    assert abs(again["accuracy"]["reference"] - FACTS["accuracy"]["reference"]) <= 1.5
