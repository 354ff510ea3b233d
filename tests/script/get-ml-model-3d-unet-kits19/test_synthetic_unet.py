"""3-D U-Net of real shape without knowledge, and volumes of noise for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.catalog import benchmark as rules_of
from mlperf.harness import records
from mlperf.harness.benchmarks.segmentation import Segmentation
from mlperf.harness.settings import ModelSpec
from modelzoo import synthetic
from support import LIB, run

ml_models = lab.hooks("ml_models")

SCRIPT = forms.SCRIPT / "get-ml-model-3d-unet-kits19"
VOLUMES = LIB / "modelzoo/volumes/noise.py"
customize = lab.module_of(SCRIPT / "customize.py")
FULL = ml_models.published(str(SCRIPT / "customize.py"))
(GRAPH,) = (SCRIPT / "synthetic").iterdir()
MODEL_FILE = GRAPH.stem


@pytest.fixture(scope="module")
def model() -> Any:
    return synthetic.fill(synthetic.read_graph(GRAPH))


def test_it_has_the_signature_and_the_size_of_the_real_one(model: Any) -> None:
    onnx.checker.check_model(model)
    for values, kind in ((model.graph.input, "inputs"), (model.graph.output, "outputs")):
        for value, tensor in zip(values, FULL[kind], strict=True):
            sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
            assert (value.name, sizes) == (tensor["name"], [0, *tensor["shape"]])
    data = sum(4 * int(np.prod(each.dims)) for each in model.graph.initializer)
    assert data == pytest.approx(125e6, rel=0.01), "bytes of the published file"


def test_it_keeps_the_size_of_the_window(model: Any) -> None:
    scores = forms.of_other_sides(model, (1, 1, 64, 64, 64))[0]
    assert scores.shape == (1, 3, 64, 64, 64)
    assert 0.1 < scores.std() < 10
    assert len(np.unique(scores.argmax(axis=1))) > 1, "it is not of one opinion everywhere"


def test_volumes_of_noise_are_filled_by_its_windows(tmp_path: Path) -> None:
    command = [sys.executable, str(VOLUMES), "--dataset", "kits19", "--window", "128"]
    run([*command, "--name", "noise", "--count", "1", "--out", str(tmp_path)]).ok()
    facts: dict[str, Any] = {**ml_models.synthetic(FULL), "path": "", "sha256": ""}
    del facts["file"]
    spec = records.decode(ModelSpec, facts)
    benchmark = Segmentation(tmp_path, spec, rules_of("3d-unet-99"))
    assert benchmark.sample_count == 1
    benchmark.load([0])
    volume = benchmark.volume(0)
    assert volume.shape == (1, 128, 256, 256)
    assert -2.35 < volume.min() < -2.3
    assert 2.6 < volume.max() < 2.65
    labels = np.load(tmp_path / "labels.npy", mmap_mode="r")
    assert set(np.unique(labels[:1000])) == {0, 1, 2}
    done = run([*command, "--name", "x", "--count", "6", "--out", "."])
    assert (done.status, done.stderr) == (
        1,
        "noise: --count: a number from 1 to 5 is needed\n",
    )


def test_the_synthetic_form_is_described_after_the_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / MODEL_FILE).write_bytes(b"weights")
    env: dict[str, Any] = {"CM_UNET_RETRAIN": "no", "CM_ML_MODEL_FORM": "synthetic"}
    customize.postprocess({"env": env})
    assert env["CM_ML_MODEL_FILE"] == MODEL_FILE
    assert env["CM_ML_MODEL_ACCURACY_TARGET"] == "0.0"
