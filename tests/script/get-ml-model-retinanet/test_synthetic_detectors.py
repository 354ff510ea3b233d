"""Detectors of real shape without knowledge: what goes in, what comes out, and how much of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from mlperf.catalog import benchmark as rules_of
from mlperf.harness import records
from mlperf.harness.backends.base import Predictor
from mlperf.harness.benchmarks.detection import ObjectDetection
from mlperf.harness.settings import MAIN, ModelSpec
from modelzoo import synthetic
from shared_files import make_once
from support import LIB, run

ml_models = lab.hooks("ml_models")

FILL = LIB / "modelzoo/synthetic.py"
PICTURES = LIB / "modelzoo/preprocessing/openimages" / "synthetic.py"
SIDES = {"retinanet": 800, "ssd-mobilenet": 300, "ssd-resnet34": 1200}
# Weights in millions, as the published files have them.
WEIGHTS = {"retinanet": 37.6, "ssd-mobilenet": 6.8, "ssd-resnet34": 20.0}
# What the last step allows of overlap among boxes of a class.
OVERLAPS = {"retinanet": 0.5, "ssd-mobilenet": 0.6, "ssd-resnet34": 0.5}
# Boxes of an image.
FOUND = {"retinanet": (150, 300), "ssd-mobilenet": (5, 100), "ssd-resnet34": (100, 200)}
each_detector = pytest.mark.parametrize("name", SIDES)

Array = npt.NDArray[Any]


def graph_file(name: str) -> Path:
    """The graph without weights that the script of a detector ships."""
    (file,) = (forms.SCRIPT / f"get-ml-model-{name}" / "synthetic").iterdir()
    return file


@cache
def folder(name: str) -> Path:
    """Model and images of a detector; removed with the other data of the tests."""
    count = "2" if name == "ssd-mobilenet" else "1"
    side = ("--side", str(SIDES[name]), "--count", count, "--qsl_count", "5000")
    words = ("--input", forms.DETECTOR_INPUTS[name], *side, "--name", "clouds")

    def write(out: Path) -> None:
        for command in ((FILL, "--graph", graph_file(name)), (PICTURES, *words)):
            run([sys.executable, *map(str, command), "--out", str(out)]).ok()

    return make_once(f"synthetic-{name}", write)


def full(name: str) -> dict[str, Any]:
    return ml_models.published(str(forms.SCRIPT / f"get-ml-model-{name}" / "customize.py"))


class Session:
    """The model as the harness calls it."""

    def __init__(self, name: str) -> None:
        self.path = folder(name) / ml_models.synthetic(full(name))["file"]
        self.names = [each["name"] for each in full(name)["outputs"]]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(self.path), options, providers=["CPUExecutionProvider"]
        )

    def predict(self, feeds: Mapping[str, Array], names: Sequence[str] = ()) -> list[Array]:
        found: list[Array] = self._session.run(list(names or self.names), dict(feeds))
        return found


@pytest.fixture(scope="module", params=list(SIDES))
def detector(request: pytest.FixtureRequest) -> tuple[str, Session]:
    """Opened once for all tests: that takes as long as an image."""
    return request.param, Session(request.param)


def test_it_has_the_signature_and_the_size_of_the_real_one(detector: tuple[str, Session]) -> None:
    name, session = detector
    model = onnx.load(str(session.path))
    onnx.checker.check_model(model)
    told = full(name)
    for values, tensors in (
        (model.graph.input, told["inputs"]),
        (model.graph.output, told["outputs"]),
    ):
        assert [value.name for value in values] == [tensor["name"] for tensor in tensors]
        for value, tensor in zip(values, tensors, strict=True):
            about = value.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(about.elem_type)
            sizes = [size.dim_value or -1 for size in about.shape.dim]
            assert str(dtype) == tensor["dtype"]
            batch = len(sizes) - len(tensor["shape"])
            assert sizes[batch:] == tensor["shape"]
    weights = sum(int(np.prod(each.dims)) for each in model.graph.initializer)
    assert weights / 1e6 == pytest.approx(WEIGHTS[name], abs=0.1)


def overlap(one: Array, others: Array) -> Array:
    """Common area by joint area of a box and each of some."""
    low, high = np.maximum(one[:2], others[:, :2]), np.minimum(one[2:], others[:, 2:])
    common = np.clip(high - low, 0, None).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1)
    found: Array = common / ((one[2:] - one[:2]).prod() + areas - common + 1e-9)
    return found


def test_it_finds_as_much_in_clouds_as_a_trained_one_in_photographs(
    detector: tuple[str, Session],
) -> None:
    """Through the harness: boxes that are apart, surest first, a figure that means nothing."""
    name, session = detector
    facts = {**ml_models.synthetic(full(name)), "path": "", "sha256": ""}
    del facts["file"]
    benchmark = ObjectDetection(folder(name), records.decode(ModelSpec, facts), rules_of(name))

    class Ordered(Predictor):
        def predict(self, feeds: Mapping[str, Array]) -> Sequence[Array]:
            return session.predict(feeds, benchmark.outputs[MAIN])

    answers = forms.answers(benchmark, benchmark.solver({MAIN: Ordered()}, 2), 2)
    classes = len(json.loads((folder(name) / "annotations.json").read_text())["categories"])
    for answer in answers:
        rows = np.frombuffer(answer, dtype=np.float32).reshape(-1, 7)
        least, most = FOUND[name]
        assert least <= len(rows) <= most
        boxes, scores, labels = rows[:, 1:5], rows[:, 5], rows[:, 6]
        assert (np.diff(scores) <= 0).all()
        assert scores.min() > 0.05
        assert (labels == np.rint(labels)).all()
        assert ((labels >= 0) & (labels <= 90)).all() or name == "retinanet"
        assert len(np.unique(labels)) > 1
        assert labels.max() < 91 or classes == 264
        for place, box in enumerate(boxes[:50]):
            same = boxes[:place][labels[:place] == labels[place]]
            assert not len(same) or overlap(box, same).max() <= OVERLAPS[name] + 1e-3


def test_mobilenet_answers_each_image_of_a_batch_as_it_does_alone() -> None:
    session = Session("ssd-mobilenet")
    pictures = np.load(folder("ssd-mobilenet") / "samples.npy", mmap_mode="r")
    together = session.predict({"image_tensor:0": pictures[:2]})
    for row in range(2):
        alone = session.predict({"image_tensor:0": pictures[row : row + 1]})
        for both, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(both[row], one[0], rtol=1e-3, atol=1e-4)
    counts, boxes, scores, labels = together
    for count, found in zip(
        counts.astype(int), zip(boxes, scores, labels, strict=True), strict=True
    ):
        assert all((each[count:] == 0).all() for each in found), "filled up with nothing"
        assert (found[2][:count] >= 1).all()


def constants(name: str, width: int) -> list[Array]:
    """The tables of numbers in the graph of a detector whose rows have ``width`` of them."""
    tensors = synthetic.read_graph(graph_file(name)).graph.initializer
    return [
        onnx.numpy_helper.to_array(tensor)
        for tensor in tensors
        if len(tensor.dims) > 1 and tensor.dims[-1] == width and tensor.raw_data
    ]


def test_a_graph_stripped_of_its_weights_is_the_one_that_was_filled(tmp_path: Path) -> None:
    model = folder("ssd-mobilenet") / "ssd_mobilenet_synthetic.onnx"
    run([sys.executable, str(FILL), "--strip", str(model), "--out", str(tmp_path)]).ok()
    (file,) = tmp_path.iterdir()
    assert file.name == graph_file("ssd-mobilenet").name
    assert file.stat().st_size < 20_000
    own, shipped = synthetic.read_graph(file), synthetic.read_graph(graph_file("ssd-mobilenet"))
    assert own.graph.node == shipped.graph.node
    for one, two in zip(own.graph.initializer, shipped.graph.initializer, strict=True):
        assert (one.name, one.dims, one.raw_data) == (two.name, two.dims, two.raw_data)
        (measured, stated) = (synthetic.SCALE.fullmatch(each.doc_string) for each in (one, two))
        assert (measured is None) == (stated is None)
        if measured and stated and np.prod(one.dims) > 1000:
            (mean, deviation), (center, width) = (
                map(float, each.groups()) for each in (measured, stated)
            )
            assert mean == pytest.approx(center, abs=0.1 * width)
            assert deviation == pytest.approx(width, rel=0.1)


def test_boxes_begin_where_the_papers_say() -> None:
    found = constants("retinanet", 4)
    assert [len(each) for each in found] == [90000, 22500, 5625, 1521, 441]
    # Twice as wide as high, 32 x 32 pixels large, around the first place.
    assert found[0][0].tolist() == [-23, -11, 23, 11]
    assert found[4][-1, :2].tolist() < [6 * 128, 6 * 128]
    large = np.concatenate(constants("ssd-resnet34", 2), axis=2)[0]
    assert large.shape == (15130, 4)
    np.testing.assert_allclose(large[0], [0.01, 0.01, 0.07, 0.07], rtol=1e-6)
    small = np.concatenate(constants("ssd-mobilenet", 2), axis=2)[0]
    assert small.shape == (1917, 4)
    np.testing.assert_allclose(small[0], [0.5 / 19, 0.5 / 19, 0.1, 0.1], rtol=1e-6)


def test_the_synthetic_form_comes_out_of_the_engine(home: Any) -> None:
    tags = "--tags=get,ml-model,ssd-mobilenet,raw,_synthetic,_onnx,_fp32"
    done = home.cm("run", "script", tags, "--quiet", "--out=json").json
    assert done["return"] == 0, done
    env = done["new_env"]
    told = json.loads(Path(env["CM_ML_MODEL_FACTS_FILE_WITH_PATH"]).read_text())
    expected = ml_models.synthetic(full("ssd-mobilenet"))
    assert {key: told[key] for key in expected} == expected
    assert told["accuracy"]["target"] == 0
    data = Path(env["CM_ML_MODEL_FILE_WITH_PATH"]).read_bytes()
    assert (folder("ssd-mobilenet") / told["file"]).read_bytes() == data, "the seed decides"
