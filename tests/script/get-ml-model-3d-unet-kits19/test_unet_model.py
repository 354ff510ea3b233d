"""The shipped tiny 3-D U-Net is what its facts say; the full one is described by the rules."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from mlperf import catalog
from modelzoo.hooks import ml_models

SCRIPT = forms.SCRIPT / "get-ml-model-3d-unet-kits19"
FACTS: dict[str, Any] = json.loads((SCRIPT / "tiny" / "model.json").read_text())
customize = lab.module_of(SCRIPT / "customize.py")
FULL = ml_models.published(str(SCRIPT / "customize.py"))


def test_the_file_is_small_and_is_the_one_that_was_trained() -> None:
    data = (SCRIPT / "tiny" / FACTS["file"]).read_bytes()
    assert len(data) == FACTS["bytes"] <= 300_000
    assert hashlib.sha256(data).hexdigest() == FACTS["sha256"]


def test_it_was_scored_on_the_data_that_the_scripts_make() -> None:
    held_out = json.loads((forms.kidney_volumes() / "dataset.json").read_text())
    stated = FACTS["training"]["held_out"]
    assert (stated["cases"], stated["bytes"]) == (43, held_out["files"]["samples.npy"]["bytes"])
    assert FACTS["accuracy"]["target"] == pytest.approx(
        FACTS["accuracy"]["reference"] * 0.99, abs=1e-5
    )


def test_it_has_the_signature_of_the_full_one() -> None:
    for side in ("inputs", "outputs"):
        for tiny, full in zip(FACTS[side], FULL[side], strict=True):
            assert (tiny["name"], tiny["dtype"]) == (full["name"], full["dtype"])
            assert (len(tiny["shape"]), tiny["shape"][0]) == (4, full["shape"][0])
    assert FACTS["options"] == FULL["options"]


def test_the_full_one_has_the_accuracy_of_the_rules() -> None:
    (metric,) = catalog.benchmark("3d-unet-99").accuracy
    stated = FULL["accuracy"]
    assert (metric.reference, metric.target) == (stated["reference"], stated["target"])


def test_a_download_is_described_and_a_changed_file_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "3dunet.onnx"
    source.write_bytes(b"weights")
    entry = tmp_path / "entry"
    entry.mkdir()
    monkeypatch.chdir(entry)
    env: dict[str, Any] = {"CM_UNET_RETRAIN": "no"}
    customize.preprocess({"env": env})
    env["CM_UNET_DOWNLOADED"] = str(source)
    customize.postprocess({"env": env})
    facts = json.loads((entry / "model.json").read_text())
    assert facts["sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert env["CM_ML_MODEL_FILE_WITH_PATH"] == str(entry / "3dunet.onnx")
    tiny = tmp_path / "tiny"
    tiny.mkdir()
    (tiny / "model.json").write_text(json.dumps(FACTS))
    (tiny / FACTS["file"]).write_bytes(b"other")
    monkeypatch.chdir(tiny)
    with pytest.raises(Error, match="expected"):
        customize.postprocess({"env": {"CM_ML_MODEL_FORM": "tiny"}})
