"""The shipped tiny BERT, and the one of real size without knowledge."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from support import LIB

SCRIPT = forms.SCRIPT / "get-ml-model-bert-large-squad"
TINY = SCRIPT / "tiny"
customize = lab.module_of(SCRIPT / "customize.py")
INPUTS, OUTPUTS = (
    [tensor["name"] for tensor in customize.FULL[side]] for side in ("inputs", "outputs")
)


def session(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def names(found: Any) -> list[tuple[str, str]]:
    return [(each.name, each.type) for each in found]


def test_the_shipped_file_is_small_and_is_what_its_facts_say() -> None:
    facts = json.loads((TINY / "model.json").read_text(encoding="utf-8"))
    data = (TINY / facts["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == facts["sha256"]
    assert len(data) == facts["bytes"] <= 400_000


def test_its_signature_is_that_of_mlperfs_bert() -> None:
    found = session(TINY / "bert_tiny.onnx")
    assert names(found.get_inputs()) == [(name, "tensor(int64)") for name in INPUTS]
    assert names(found.get_outputs()) == [(name, "tensor(float)") for name in OUTPUTS]


def test_a_model_of_real_shape_is_built_from_a_seed(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    synthetic = lab.module_of(LIB / "modelzoo/bert" / "synthetic.py")
    words = ["--layers", "1", "--width", "128", "--out", str(tmp_path)]
    assert synthetic.main(words) == 0
    first = (tmp_path / synthetic.MODEL_FILE).read_bytes()
    assert synthetic.main(words) == 0
    assert (tmp_path / synthetic.MODEL_FILE).read_bytes() == first
    found = session(tmp_path / synthetic.MODEL_FILE)
    assert names(found.get_inputs()) == [(name, "tensor(int64)") for name in INPUTS]
    ids = np.array([[101, 2054, 102, 1996, 102, 0, 0]])
    mask, kinds = (ids > 0).astype(np.int64), np.array([[0, 0, 0, 1, 1, 0, 0]])
    fed = dict(zip(INPUTS, (ids, mask, kinds), strict=True))
    starts, ends = found.run(OUTPUTS, fed)
    assert starts.shape == ends.shape == (1, 7)
    shorter = {name: array[:, :5] for name, array in fed.items()}
    np.testing.assert_allclose(found.run(None, shorter)[0], starts[:, :5], atol=1e-5)


def test_a_downloaded_model_gets_its_facts(tmp_path: Path, monkeypatch: Any) -> None:
    source = tmp_path / "elsewhere" / "model.onnx"
    source.parent.mkdir()
    source.write_bytes(b"weights")
    entry = tmp_path / "entry"
    entry.mkdir()
    monkeypatch.chdir(entry)
    env = {"CM_BERT_DOWNLOAD": "yes", "CM_BERT_DOWNLOADED": str(source)}
    env["CM_ML_MODEL_PRECISION"] = "fp32"
    assert customize.postprocess({"env": env})["return"] == 0
    facts = json.loads((entry / "model.json").read_text(encoding="utf-8"))
    assert facts["accuracy"]["target"] == pytest.approx(89.96526)
    assert Path(env["CM_ML_MODEL_FILE_WITH_PATH"]).read_bytes() == b"weights"
    assert env["CM_ML_MODEL_OUTPUT_END_LOGITS_NAME"] == "output_end_logits"
