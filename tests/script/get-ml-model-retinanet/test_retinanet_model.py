"""The tiny detectors are what their facts say; full ones are downloaded and described."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf import catalog
from mlperf.harness import records
from mlperf.harness.benchmarks.detection import BoxFormat
from mlperf.harness.settings import ModelSpec
from modelzoo.hooks import ml_models
from support import LIB, served

NAMES = ("retinanet", "ssd-mobilenet", "ssd-resnet34")
each_detector = pytest.mark.parametrize("name", NAMES)


def script(name: str) -> Path:
    return forms.SCRIPT / f"get-ml-model-{name}"


def facts(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((script(name) / "tiny" / "model.json").read_text())
    return found


def full(name: str) -> dict[str, Any]:
    return ml_models.published(str(script(name) / "customize.py"))


def session(name: str) -> onnxruntime.InferenceSession:
    path = script(name) / "tiny" / facts(name)["file"]
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@each_detector
def test_the_file_is_small_and_is_the_one_that_was_trained(name: str) -> None:
    told = facts(name)
    data = (script(name) / "tiny" / told["file"]).read_bytes()
    assert len(data) == told["bytes"] <= 300_000
    assert hashlib.sha256(data).hexdigest() == told["sha256"]
    held_out = json.loads((forms.pictures(name) / "dataset.json").read_text())
    stated = told["training"]["data"]["held_out"]["sha256"]
    assert stated == held_out["files"]["samples.npy"]["sha256"]
    target = told["accuracy"]["reference"] * 0.99
    assert told["accuracy"]["target"] == pytest.approx(target, abs=1e-3)


@each_detector
def test_the_tiny_form_has_the_signature_of_the_full_one(name: str) -> None:
    """Names, types and ranks; only sizes differ."""

    def signature(told: dict[str, Any]) -> list[Any]:
        tensors = [*told["inputs"], *told["outputs"]]
        return sorted((each["name"], each["dtype"], len(each["shape"])) for each in tensors)

    assert signature(facts(name)) == signature(full(name))
    options, wanted = facts(name)["options"], full(name)["options"]
    same = ("boxes", "labels", "scores", "count", "order", "classes")
    assert {key: options.get(key) for key in same} == {key: wanted.get(key) for key in same}


@each_detector
def test_the_full_model_has_the_bounds_of_the_rules(name: str) -> None:
    (metric,) = catalog.benchmark(name).accuracy
    stated = full(name)["accuracy"]
    assert (stated["reference"], stated["target"]) == (metric.reference, metric.target)
    described = {**full(name), "path": "", "sha256": ""}
    assert BoxFormat.of(records.decode(ModelSpec, described)).most >= 100


def test_retinanet_gives_what_it_found_in_one_image() -> None:
    pictures = np.load(forms.pictures("retinanet") / "samples.npy", mmap_mode="r")
    boxes, labels, scores = session("retinanet").run(None, {"images": pictures[:1]})
    assert boxes.shape == (len(scores), 4)
    assert labels.shape == scores.shape
    assert (np.diff(scores) <= 0).all()
    assert scores.min() > 0.05
    assert (boxes >= 0).all()
    assert (boxes <= 96).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()


def test_the_count_of_ssd_mobilenet_is_that_of_sure_boxes() -> None:
    pictures = np.load(forms.pictures("ssd-mobilenet") / "samples.npy", mmap_mode="r")
    counts, boxes, scores, classes = session("ssd-mobilenet").run(
        ["num_detections:0", "detection_boxes:0", "detection_scores:0", "detection_classes:0"],
        {"image_tensor:0": pictures[:4]},
    )
    assert (boxes.shape, scores.shape, classes.shape) == ((4, 100, 4), (4, 100), (4, 100))
    assert counts.tolist() == (scores > 0.05).sum(axis=1).tolist()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "site"
    folder.mkdir()
    with served(folder) as url:
        yield folder, url


def stand_in(name: str, path: Path) -> None:
    """A file with the signature of the full model, which finds nothing."""
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}

    def info(tensor: dict[str, Any]) -> onnx.ValueInfoProto:
        sizes = ["n", *("m" if size < 0 else size for size in tensor["shape"])]
        return helper.make_tensor_value_info(tensor["name"], kinds[tensor["dtype"]], sizes)

    told = full(name)
    nodes, weights = [], []
    for tensor in told["outputs"]:
        zeros = np.zeros([1, *(max(1, size) for size in tensor["shape"])], tensor["dtype"])
        weights.append(onnx.numpy_helper.from_array(zeros, tensor["name"] + " zeros"))
        nodes.append(helper.make_node("Identity", [tensor["name"] + " zeros"], [tensor["name"]]))
    graph = helper.make_graph(
        nodes, "x", [info(told["inputs"][0])], [info(each) for each in told["outputs"]], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    path.write_bytes(model.SerializeToString())


@each_detector
def test_the_full_model_is_downloaded_and_described(
    home: Any, site: tuple[Path, str], name: str
) -> None:
    folder, url = site
    stand_in(name, folder / "full.onnx")
    data = (folder / "full.onnx").read_bytes()
    words = (f"--tags=get,ml-model,{name},raw", f"--env.CM_PACKAGE_URL={url}/full.onnx")
    checked = (
        f"--env.CM_DOWNLOAD_CHECKSUM={hashlib.sha256(data).hexdigest()}",
        f"--env.CM_DOWNLOAD_SIZE={len(data)}",
    )
    done = home.cm("run", "script", *words, *checked, "--quiet", "--out=json").json
    assert done["return"] == 0, done
    told = json.loads(Path(done["new_env"]["CM_ML_MODEL_FACTS_FILE_WITH_PATH"]).read_text())
    assert told["sha256"] == hashlib.sha256(data).hexdigest()
    described = {key: told[key] for key in full(name)}
    assert described == {**full(name)}


def test_another_file_than_the_pinned_one_is_refused(home: Any, site: tuple[Path, str]) -> None:
    folder, url = site
    (folder / "full.onnx").write_bytes(b"no model")
    for name in ("retinanet", "ssd-resnet34"):
        words = (f"--tags=get,ml-model,{name},raw", f"--env.CM_PACKAGE_URL={url}/full.onnx")
        extra = ("--env.CM_DOWNLOAD_URL1=", "--env.CM_DOWNLOAD_SIZE=")
        done = home.cm("run", "script", *words, *extra, "--quiet", "--out=json").json
        assert done["code"] == "checksum-mismatch", done


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="training needs torch")
def test_the_exported_graph_decodes_what_the_network_predicts() -> None:
    import torch

    network = lab.module_of(LIB / "modelzoo/detectors" / "network.py")
    torch.manual_seed(0)
    detector = network.TinyDetector().eval()
    torch.nn.init.normal_(detector.head.weight, std=0.5)
    form = network.forms((1, 2, 4, 7, 8, 11))["ssd-resnet34"]
    model = network.to_onnx(detector, form).SerializeToString()
    picture = torch.randn(1, 3, network.SIDE, network.SIDE)
    found = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(
        ["bboxes", "labels", "scores"], {"image": picture.numpy()}
    )
    with torch.no_grad():
        logits, reaches = detector(picture)
    sure = torch.sigmoid(logits)
    peaks = sure * (torch.nn.functional.max_pool2d(sure, 3, 1, 1) == sure)
    best = int(peaks.flatten().argmax())
    kind, cell = divmod(best, network.GRID**2)
    line, column = divmod(cell, network.GRID)
    reach = reaches[0, :, line, column].exp().numpy()
    centre = np.asarray([column, line, column, line]) + 0.5
    box = np.clip((centre + reach * [-1, -1, 1, 1]) / network.GRID, 0, 1)
    np.testing.assert_allclose(found[0][0, 0], box, atol=1e-5)
    assert found[1][0, 0] == kind + 1
    assert found[2][0, 0] == pytest.approx(float(peaks.max()), abs=1e-5)
