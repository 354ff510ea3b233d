"""ONNX files of anybody: what is read out of them, and what is said of those that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import benchmark_lab as lab
from support import LIB

FOLDER = lab.SCRIPT / "get-ml-model-own"
describe = lab.module_of(LIB / "modelzoo/own_model" / "describe.py")


def model(folder: Path, *dims: Any, kind: int = TensorProto.FLOAT) -> Path:
    """A model that hands out its one input, with these dimensions."""
    node = helper.make_node("Identity", ["image"], ["same"])
    ends = [helper.make_tensor_value_info(name, kind, list(dims)) for name in ("image", "same")]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    path = folder / "mine.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def run(folder: Path, path: Path, *words: str) -> int:
    out = folder / "out"
    out.mkdir(exist_ok=True)
    status: int = describe.main(["--out", str(out), "--model", str(path), *words])
    return status


def facts(folder: Path, name: str = "model.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / name).read_text(encoding="utf-8"))
    return found


def test_a_model_is_described_and_fed_at_random(tmp_path: Path) -> None:
    assert run(tmp_path, model(tmp_path, "n", 3, 4), "--count", "7") == 0
    assert facts(tmp_path)["inputs"] == [{"name": "image", "dtype": "float32", "shape": [3, 4]}]
    assert facts(tmp_path)["options"] == {"fixed_batch": False}
    told = facts(tmp_path, "dataset.json")
    assert (told["count"], told["judged"]) == (7, False)
    assert np.load(tmp_path / "out" / "input-0.npy").shape == (7, 3, 4)


def test_samples_of_ones_own_are_laid_out_with_their_labels(tmp_path: Path) -> None:
    data = tmp_path / "mine.npz"
    np.savez(data, image=np.ones((5, 2)), labels=[1, 0, 1, 0, 1])
    assert run(tmp_path, model(tmp_path, 1, 2), "--data", str(data)) == 0
    assert facts(tmp_path)["options"] == {"fixed_batch": True}
    assert facts(tmp_path, "dataset.json")["judged"]
    assert np.load(tmp_path / "out" / "input-0.npy").dtype == np.float32


def test_open_dimensions_can_be_said(tmp_path: Path) -> None:
    path = model(tmp_path, "n", "length", kind=TensorProto.INT64)
    assert run(tmp_path, path, "--shapes", "image=6", "--count", "3") == 0
    drawn = np.load(tmp_path / "out" / "input-0.npy")
    assert drawn.shape == (3, 6)
    assert set(np.unique(drawn)) <= {0, 1}


def test_what_is_no_model_and_a_shape_of_no_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    assert run(tmp_path, empty) == 1
    assert f"{empty} has no output" in capsys.readouterr().err
    assert run(tmp_path, model(tmp_path, "n", "m"), "--shapes", "picture=6") == 1
    told = capsys.readouterr().err
    assert "has no input picture" in told
    assert "it has: image" in told


@pytest.mark.parametrize(
    ("dims", "words", "told"),
    [
        (("n", "length"), (), "--input_shapes=image=N"),
        (("n", -1), (), "--input_shapes=image=N"),
        ((8, 3), (), "export it with an open first dimension"),
        (("n", 3), ("--shapes", "image=0x3"), "is not a shape"),
        (("n", 3), ("--shapes", "image=5"), "takes image as [3], not [5]"),
        (("n", 3, "w"), ("--shapes", "image=4x7"), "takes image as [3, 'w'], not [4, 7]"),
        (("n", "w"), ("--shapes", "image=4x7"), "takes image as ['w'], not [4, 7]"),
    ],
)
def test_what_a_model_leaves_open_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dims: Any, words: Any, told: str
) -> None:
    assert run(tmp_path, model(tmp_path, *dims), *words) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"picture": np.ones((2, 3))}, "has no array image; it has picture"),
        ({"image": np.ones((2, 4))}, "takes float32 [3]"),
        ({"image": np.ones((2, 4))}, "next: save them as [samples, 3]"),
        ({"image": np.ones((2, 3), np.complex64)}, "next: convert them: array.astype('float32')"),
        ({"image": np.float32(1)}, "next: save them as [samples, 3]"),
        ({"image": np.ones((2, 3)), "labels": np.eye(2)}, "not one whole number for each sample"),
        ({"image": np.ones((2, 3)), "labels": [0.5, 1.0]}, "not one whole number for each sample"),
        ({"image": np.ones((2, 3)), "labels": np.ones(3)}, "not equally long: [2, 3]"),
    ],
)
def test_samples_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arrays: Any, told: str
) -> None:
    np.savez(tmp_path / "mine.npz", **arrays)
    assert run(tmp_path, model(tmp_path, "n", 3), "--data", str(tmp_path / "mine.npz")) == 1
    assert told in capsys.readouterr().err


def test_labels_may_stand_in_a_column(tmp_path: Path) -> None:
    data = tmp_path / "mine.npz"
    np.savez(data, image=np.ones((3, 2)), labels=np.array([[1.0], [0.0], [1.0]]))
    assert run(tmp_path, model(tmp_path, "n", 2), "--data", str(data)) == 0
    assert np.load(tmp_path / "out" / "labels.npy").tolist() == [1, 0, 1]


@pytest.mark.parametrize(("shapes", "status"), [("ids=8,mask=8", 0), ("ids=8,mask=4", 1)])
def test_shapes_that_the_graph_cannot_join_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shapes: str, status: int
) -> None:
    names = ("ids", "mask", "sum")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", "s"]) for n in names]
    node = helper.make_node("Add", names[:2], names[2:])
    made = helper.make_model(helper.make_graph([node], "g", ends[:2], ends[2:]))
    onnx.save(made, tmp_path / "mine.onnx")
    assert run(tmp_path, tmp_path / "mine.onnx", "--shapes", shapes) == status
    told = capsys.readouterr().err
    assert ("mine.onnx cannot take ids [8], mask [4]" in told) is bool(status)


@pytest.mark.parametrize("what", ["model", "data"])
def test_another_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    other = tmp_path / "other"
    other.write_text("<html>", encoding="utf-8")
    path = other if what == "model" else model(tmp_path, "n", 3)
    assert run(tmp_path, path, *(("--data", str(other)) if what == "data" else ())) == 1
    assert f"{other} " in capsys.readouterr().err


class Sum:
    """A backend that adds up each sample, as two scores."""

    def buffer(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    def predict(self, feeds: Any) -> Any:
        total = feeds["image"].sum(axis=1)
        return [np.stack([total, -total], axis=1)]


def test_the_strongest_class_is_held_against_the_labels(tmp_path: Path) -> None:
    data = tmp_path / "mine.npz"
    np.savez(data, image=[[1.0, 2], [-1, -2], [3, 0]], labels=[0, 1, 1])
    assert run(tmp_path, model(tmp_path, "n", 2), "--data", str(data)) == 0
    described = SimpleNamespace(
        inputs=[SimpleNamespace(**each) for each in facts(tmp_path)["inputs"]],
        outputs=[SimpleNamespace(name="same")],
    )
    own = lab.module_of(LIB / "mlperf/own_models/own_model.py")
    benchmark = own.OwnModel(tmp_path / "out", described, None)
    benchmark.load([2, 0, 1])
    results = benchmark.result.rows(3)
    benchmark.solver({"main": Sum()}, 3).solve([0, 1, 2], results, results)
    assert results.tolist() == [0, 1, 0]
    figure = benchmark.accuracy([row.tobytes() for row in results], np.arange(3))
    assert figure.value == pytest.approx(100 * 2 / 3)


def test_weights_beside_the_graph_come_along_or_are_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path, -1, 2)
    whole = onnx.load(path)
    weight = onnx.numpy_helper.from_array(np.ones(4096, np.float32), "w")
    whole.graph.initializer.append(weight)
    sizes = {"all_tensors_to_one_file": True, "location": "mine.data", "size_threshold": 1}
    onnx.save_model(whole, path, save_as_external_data=True, **sizes)
    assert run(tmp_path, path) == 0
    assert [each["file"] for each in facts(tmp_path)["data"]] == ["mine.data"]
    assert (tmp_path / "out" / "mine.data").stat().st_size >= 4096 * 4
    assert facts(tmp_path)["options"] == {"fixed_batch": False}
    (tmp_path / "out").rename(tmp_path / "first")
    (tmp_path / "mine.data").unlink()
    assert run(tmp_path, path) == 1
    assert "put it beside the ONNX file" in capsys.readouterr().err
