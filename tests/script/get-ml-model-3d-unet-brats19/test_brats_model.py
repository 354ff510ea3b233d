"""The tiny 3-D U-Net for brains is what its facts say; the full and the synthetic one are real."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from mlperf import catalog
from support import LIB, run

SCRIPT = forms.SCRIPT / "get-ml-model-3d-unet-brats19"
FACTS: dict[str, Any] = json.loads((SCRIPT / "tiny" / "model.json").read_text())
customize = lab.module_of(SCRIPT / "customize.py")


def test_the_file_is_small_and_is_the_one_that_was_trained() -> None:
    data = (SCRIPT / "tiny" / FACTS["file"]).read_bytes()
    assert len(data) == FACTS["bytes"] <= 300_000
    assert hashlib.sha256(data).hexdigest() == FACTS["sha256"]


def test_it_was_scored_on_the_data_that_the_scripts_make() -> None:
    held_out = json.loads((forms.brain_volumes() / "dataset.json").read_text())
    stated = FACTS["training"]["held_out"]
    assert (stated["cases"], stated["bytes"]) == (67, held_out["files"]["samples.npy"]["bytes"])
    assert FACTS["accuracy"]["target"] == pytest.approx(
        FACTS["accuracy"]["reference"] * 0.99, abs=1e-5
    )


def test_it_has_the_signature_and_the_rules_of_the_full_one() -> None:
    for side in ("inputs", "outputs"):
        for tiny, full in zip(FACTS[side], customize.FULL[side], strict=True):
            assert (tiny["name"], tiny["dtype"]) == (full["name"], full["dtype"])
            assert (len(tiny["shape"]), tiny["shape"][0]) == (4, full["shape"][0])
    assert FACTS["options"] == customize.FULL["options"]


def test_the_full_one_has_the_accuracy_of_the_rules() -> None:
    (metric,) = catalog.benchmark("3d-unet-brats-99").accuracy
    stated = customize.FULL["accuracy"]
    assert (metric.reference, metric.target) == (stated["reference"], stated["target"])


def test_who_asks_for_a_3d_unet_does_not_get_this_one() -> None:
    tags = [
        yaml.safe_load((forms.SCRIPT / name / "meta.yaml").read_text(encoding="utf-8"))["tags"]
        for name in ("get-ml-model-3d-unet-kits19", "get-ml-model-3d-unet-brats19")
    ]
    assert "3d-unet" in tags[0]
    assert "3d-unet" not in tags[1]


def finished(source: Path, entry: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the script tells of a downloaded file."""
    entry.mkdir()
    monkeypatch.chdir(entry)
    env: dict[str, Any] = {"CM_BRATS_UNET_RETRAIN": "no"}
    customize.preprocess({"env": env})
    env["CM_BRATS_UNET_DOWNLOADED"] = str(source)
    customize.postprocess({"env": env})
    return env


def test_a_download_of_the_right_size_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(customize, "WEIGHTS_BYTES", 1000)
    monkeypatch.setattr(customize, "GRAPH_BYTES", 100)
    source = tmp_path / "224_224_160.onnx"
    source.write_bytes(b"w" * 1050)
    env = finished(source, tmp_path / "entry", monkeypatch)
    facts = json.loads((tmp_path / "entry" / "model.json").read_text())
    assert facts["sha256"] == hashlib.sha256(b"w" * 1050).hexdigest()
    assert facts["inputs"][0]["shape"] == [4, 224, 224, 160]
    assert env["CM_ML_MODEL_FILE_WITH_PATH"] == str(tmp_path / "entry" / "224_224_160.onnx")


@pytest.mark.parametrize("size", [999, 1101])
def test_a_page_in_place_of_the_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(customize, "WEIGHTS_BYTES", 1000)
    monkeypatch.setattr(customize, "GRAPH_BYTES", 100)
    source = tmp_path / "224_224_160.onnx"
    source.write_bytes(b"<" * size)
    with pytest.raises(Error, match=f"has {size} bytes; the full model has 1000") as caught:
        finished(source, tmp_path / "entry", monkeypatch)
    assert "--adr.dae.local_path=FILE" in caught.value.hint


WIDTHS = (32, 64, 128, 256, 320, 320)


def weights(widths: tuple[int, ...]) -> int:
    """How many weights such a network has, counted another way than it is built."""
    blocks = [(4, widths[0])]
    blocks += list(itertools.pairwise(widths)) + [(w, w) for w in widths]
    blocks += [(2 * w, w) for w in widths[:-1]] + [(w, w) for w in widths[:-1]]
    convolutions = sum(27 * before * after + 3 * after for before, after in blocks)
    up = sum(8 * above * below for below, above in itertools.pairwise(widths))
    return convolutions + up + sum(4 * w for w in widths[:-1])


def test_the_size_of_the_full_one_is_that_of_its_weights() -> None:
    assert 4 * weights(WIDTHS) == customize.WEIGHTS_BYTES


def test_the_synthetic_one_is_built_as_the_full_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (graph,) = (SCRIPT / "synthetic").iterdir()
    fill = LIB / "modelzoo/synthetic.py"
    run([sys.executable, str(fill), "--graph", str(graph), "--out", str(tmp_path)]).ok()
    monkeypatch.chdir(tmp_path)
    customize.postprocess({"env": {"CM_ML_MODEL_FORM": "synthetic"}})
    facts = json.loads((tmp_path / "model.json").read_text())
    assert facts["options"] == customize.FULL["options"]
    model: Any = onnx.load(tmp_path / facts["file"])
    onnx.checker.check_model(model)
    assert sum(int(np.prod(w.dims)) for w in model.graph.initializer) == weights(WIDTHS)
    # In MLPerf's file the scores come out of the node Conv_80, and 4 more outputs train it.
    assert (len(model.graph.node), model.graph.node[80].op_type) == (81, "Conv")
    assert model.graph.node[80].output[0] == "output"
    assert len(model.graph.output) == 5
    window = (64, 32, 32)
    found = forms.of_other_sides(model, (1, 4, *window))
    assert [each.shape[2:] for each in found] == [
        tuple(side >> level for side in window) for level in range(5)
    ]
    assert 0.1 < found[0].std() < 10, "values neither vanish nor explode on their way"
