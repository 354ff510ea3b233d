"""Models whose weights lie in other files: every layout runs on every backend that is here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

import benchmark_lab as lab
from mlperf.harness.backends import registry as backends
from mlperf.harness.settings import GraphSpec, TensorSpec
from serving.repository import writing
from serving.repository.plan import ModelArtefact, ModelTensor, RepositoryPlan

describe = lab.module_of(lab.LIB / "modelzoo/own_model/describe.py")

ROWS = np.arange(64 * 10, dtype=np.float32).reshape(64, 10) / 640
BIAS = np.arange(10, dtype=np.float32)


def write_model(path: Path, *locations: str, constant: bool = False) -> Path:
    """Write a product and a sum whose weights lie in the files ``locations``, in turn.

    With ``constant`` the second one is a node's.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = [numpy_helper.from_array(ROWS, "rows"), numpy_helper.from_array(BIAS, "bias")]
    for number, tensor in enumerate(weights):
        location = locations[number % len(locations)]
        file = path.parent / location
        file.parent.mkdir(parents=True, exist_ok=True)
        offset = file.stat().st_size if file.exists() else 0
        with file.open("ab") as data:
            data.write(tensor.raw_data)
        set_external_data(tensor, location, offset, len(tensor.raw_data))
        tensor.ClearField("raw_data")
    nodes = [helper.make_node("MatMul", ["x", "rows"], ["m"])]
    if constant:
        nodes.append(helper.make_node("Constant", [], ["bias"], value=weights.pop()))
    nodes.append(helper.make_node("Add", ["m", "bias"], ["y"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("x", 64), ("y", 10))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def flat(folder: Path) -> Path:
    return write_model(folder / "net.onnx", "net.onnx.data")


def sub_folder(folder: Path) -> Path:
    return write_model(folder / "net.onnx", "weights/of it/net.data")


def several(folder: Path) -> Path:
    return write_model(folder / "net.onnx", "a.data", "w/a.data")


def blanks(folder: Path) -> Path:
    return write_model(folder / "my models ä" / "the net.onnx", "the net.onnx.data")


def in_a_constant(folder: Path) -> Path:
    return write_model(folder / "net.onnx", "net.data", constant=True)


def beside_the_target(folder: Path) -> Path:
    """A link in a folder of its own; the weights stay where the model is."""
    target = write_model(folder / "real" / "net.onnx", "net.data")
    link = folder / "links" / "latest.onnx"
    link.parent.mkdir()
    link.symlink_to(target)
    return link


def hugging_face_cache(folder: Path) -> Path:
    """Both files are links to blobs, whose names are sums."""
    made = write_model(folder / "made" / "model.onnx", "model.onnx_data")
    snapshot, blobs = folder / "snapshots" / "abc", folder / "blobs"
    for each in (snapshot, blobs):
        each.mkdir(parents=True)
    for name, blob in ((made.name, "aa11"), ("model.onnx_data", "bb22")):
        made.with_name(name).rename(blobs / blob)
        (snapshot / name).symlink_to(Path("../../blobs") / blob)
    return snapshot / made.name


LAYOUTS = (
    flat, sub_folder, several, blanks, in_a_constant, beside_the_target, hugging_face_cache,
)  # fmt: skip


@pytest.fixture(params=LAYOUTS, ids=lambda layout: layout.__name__)
def described(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A cache entry with the model in one of the layouts."""
    layout: Callable[[Path], Path] = request.param
    out = tmp_path / "entry"
    out.mkdir()
    assert describe.main(["--out", str(out), "--model", str(layout(tmp_path)), "--count", "2"]) == 0
    return out


def predicted(entry: Path, backend: str) -> Any:
    """What a backend computes for the first samples of an entry."""
    facts = json.loads((entry / "model.json").read_text(encoding="utf-8"))
    sides = [
        tuple(TensorSpec(t["name"], t["dtype"], tuple(t["shape"])) for t in facts[side])
        for side in ("inputs", "outputs")
    ]
    graph = GraphSpec("main", str(entry / facts["file"]), facts["sha256"], *sides)
    predictor = backends.create(backend, "cpu", "float32").open(graph, ["y"], 1, 1)[0]
    return predictor.predict({"x": np.load(entry / "input-0.npy")})[0]


@pytest.mark.parametrize(
    ("backend", "library"),
    [("onnxruntime", "onnxruntime"), ("openvino", "openvino"), ("pytorch", "onnx2torch")],
)
def test_each_layout_runs_on_each_backend(described: Path, backend: str, library: str) -> None:
    pytest.importorskip(library)
    wanted = np.load(described / "input-0.npy") @ ROWS + BIAS
    np.testing.assert_allclose(predicted(described, backend), wanted, rtol=1e-4, atol=1e-4)


def test_an_onnxruntime_that_takes_no_graph_alone_opens_the_file(
    described: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = onnxruntime.InferenceSession

    def refuse_bytes(model: str | bytes, *rest: Any, **more: Any) -> Any:
        if isinstance(model, bytes):
            raise RuntimeError("no such option")
        return real(model, *rest, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse_bytes)
    if "hugging" in str(described):
        pytest.skip("a release that refuses links takes the graph alone")
    assert predicted(described, "onnxruntime").shape == (2, 10)


def test_triton_is_given_each_file_under_its_name(
    described: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing.config_text, "check", lambda plan, text: None)
    facts = json.loads((described / "model.json").read_text(encoding="utf-8"))
    plan = RepositoryPlan(
        name="net",
        runtime="onnxruntime",
        inputs=(ModelTensor("x", "float32", (64,)),),
        outputs=(ModelTensor("y", "float32", (10,)),),
        artefact=ModelArtefact(str(described / facts["file"])),
        max_batch=8,
    )
    version = writing.write(plan, described.parent / "models").folder / "1"
    for name in (facts["file"], *(each["file"] for each in facts["data"])):
        assert not (version / name).is_symlink()
    session = onnxruntime.InferenceSession(str(version / facts["file"]))
    assert session.run(None, {"x": np.ones((1, 64), np.float32)})[0].shape == (1, 10)


@pytest.mark.parametrize(
    ("location", "size", "told"),
    [
        ("net.data", 100, "is cut off: 100 of 2600 bytes"),
        ("net.data", None, "put it beside the ONNX file"),
        ("../above.data", None, "outside of its folder"),
    ],
)
def test_weights_that_cannot_be_taken_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], location: str, size: int | None, told: str
) -> None:
    path = write_model(tmp_path / "in" / "net.onnx", "net.data")
    data = path.with_name("net.data")
    if size is None:
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[:size])
    if location != "net.data":
        model = onnx.load(path, load_external_data=False)
        for tensor in model.graph.initializer:
            tensor.external_data[0].value = location
        path.write_bytes(model.SerializeToString())
    (tmp_path / "out").mkdir()
    assert describe.main(["--out", str(tmp_path / "out"), "--model", str(path)]) == 1
    assert told in capsys.readouterr().err
