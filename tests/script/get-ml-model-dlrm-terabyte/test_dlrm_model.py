"""The shipped tiny DLRMs are what their facts say; what the full ones need is said."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import onnxruntime
import pytest

import benchmark_forms as forms
import benchmark_lab as lab

SCRIPT = forms.SCRIPT / "get-ml-model-dlrm-terabyte"
customize = lab.module_of(SCRIPT / "customize.py")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_file_is_small_and_was_scored_on_the_data_that_the_scripts_make(version: str) -> None:
    folder = SCRIPT / "tiny" / version
    facts = json.loads((folder / "model.json").read_text())
    data = (folder / facts["file"]).read_bytes()
    assert len(data) == facts["bytes"] <= 300_000
    assert hashlib.sha256(data).hexdigest() == facts["sha256"]
    held_out = json.loads((forms.clicks(version) / "dataset.json").read_text())
    assert facts["training"]["held_out"]["sha256"] == held_out["files"]["indices.npy"]["sha256"]


def test_the_first_dlrm_has_the_inputs_of_mlperfs_export() -> None:
    session = onnxruntime.InferenceSession(
        str(SCRIPT / "tiny" / "v1" / "dlrm_v1_tiny.onnx"), providers=["CPUExecutionProvider"]
    )
    kinds = {given.name: (given.type, len(given.shape)) for given in session.get_inputs()}
    assert kinds == {
        "dense_x": ("tensor(float)", 2),
        "offsets": ("tensor(int64)", 2),
        "indices": ("tensor(int64)", 2),
    }
    assert [given.name for given in session.get_outputs()] == ["pred"]


def test_an_extracted_export_is_described(tmp_path: Path) -> None:
    (tmp_path / "tb00_40M.onnx").write_bytes(b"graph")
    (tmp_path / "emb_l.0.weight").write_bytes(b"weights")
    env = {
        "CM_DLRM_CONVERT": "no",
        "CM_DLRM_EXTRACTED": str(tmp_path),
        "CM_DLRM_VERSION": "v1",
        "CM_ML_MODEL_FRAMEWORK": "onnx",
    }
    assert customize.postprocess({"env": env}) == {"return": 0}
    assert env["CM_ML_MODEL_FILE_WITH_PATH"] == str(tmp_path / "tb00_40M.onnx")
    assert env["CM_ML_MODEL_ACCURACY"] == "80.25"
    facts = json.loads((tmp_path / "model.json").read_text())
    assert [(each["file"], each["bytes"]) for each in facts["data"]] == [("emb_l.0.weight", 7)]
