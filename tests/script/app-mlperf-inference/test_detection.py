"""Object detection: mAP as pycocotools counts it, what is logged, short runs of three detectors."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_forms as forms
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.base import Predictor, check_signature, empty_batch
from mlperf.harness.benchmarks import average_precision, detection
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.benchmarks.average_precision import Detections
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import ModelSpec, SessionSettings, TensorSpec, WorkerShape

NAMES = ("retinanet", "ssd-mobilenet", "ssd-resnet34")
each_detector = pytest.mark.parametrize("name", NAMES)


def model_folder(name: str) -> Path:
    return forms.SCRIPT / f"get-ml-model-{name}" / "tiny"


def created(name: str, dataset: Path | None = None, **changes: Any) -> tuple[Any, Any, ModelSpec]:
    model = records.decode(ModelSpec, {**forms.model(model_folder(name)), **changes})
    benchmark = benchmarks.create(name, dataset or forms.pictures(name), model)
    backend = backends.create("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, model, benchmark, WorkerShape(1, 1, 32))
    return benchmark, solver, model


def row(index: int, *fields: float) -> bytes:
    return np.asarray([index, *fields], dtype=np.float32).tobytes()


# Two images, 200 x 100 and 50 x 80 pixels, and categories with a gap between them.
SCENE: dict[str, Any] = {
    "images": [
        {"id": 70, "file_name": "a", "width": 200, "height": 100},
        {"id": 71, "file_name": "b", "width": 50, "height": 80},
    ],
    "annotations": [
        {"id": 0, "image_id": 70, "category_id": 3, "bbox": [20, 10, 100, 50], "area": 5000},
        {"id": 1, "image_id": 71, "category_id": 9, "bbox": [10, 20, 30, 40], "area": 1200},
    ],
    "categories": [{"id": 3, "name": "x"}, {"id": 9, "name": "y"}],
}
for annotation in SCENE["annotations"]:
    annotation["iscrowd"] = 0


def scene(folder: Path, **options: Any) -> Any:
    """The scene as a benchmark whose model is never called."""
    np.save(folder / "samples.npy", np.zeros((2, 3, 8, 8), dtype=np.float32))
    (folder / "annotations.json").write_text(json.dumps(SCENE))
    (folder / "dataset.json").write_text('{"name": "scene", "count": 2}')
    facts = forms.model(model_folder("retinanet"))
    facts["inputs"] = [{"name": "images", "dtype": "float32", "shape": [3, 8, 8]}]
    facts["options"] = {**facts["options"], **options}
    return benchmarks.create("retinanet", folder, records.decode(ModelSpec, facts))


def test_what_is_logged_is_in_shares_of_the_image_top_before_left(tmp_path: Path) -> None:
    benchmark = scene(tmp_path)
    # Exactly the two objects, worked out by hand: 10/100, 20/200, 60/100, 120/200 and so on.
    first, second = row(0, 0.1, 0.1, 0.6, 0.6, 0.9, 3), row(1, 0.25, 0.2, 0.75, 0.8, 0.8, 9)
    both = np.arange(2)
    assert benchmark.accuracy([first, second], both).value == pytest.approx(100)
    assert benchmark.accuracy([first, second], both).line == "mAP=100.000%, images=2, boxes=2"
    assert benchmark.accuracy([first, b""], both).value == pytest.approx(50)
    assert benchmark.accuracy([b"", b""], both).value == 0
    # Left before top finds nothing in the second image.
    turned = row(1, 0.2, 0.25, 0.8, 0.75, 0.8, 9)
    assert benchmark.accuracy([first, turned], both).value < 100
    # The other category is another thing.
    assert benchmark.accuracy([first, second[:-4] + np.float32(3).tobytes()], both).value < 60
    # 46 of 50 rows: an overlap of 0.92 counts for the nine thresholds from 0.5 to 0.9.
    near = row(0, 0.1, 0.1, 0.56, 0.6, 0.9, 3)
    assert benchmark.accuracy([near], np.asarray([0])).value == pytest.approx(90)


def test_labels_may_be_places_in_the_list_of_categories(tmp_path: Path) -> None:
    benchmark = scene(tmp_path, classes="position")
    answers = [row(0, 0.1, 0.1, 0.6, 0.6, 0.9, 1), row(1, 0.25, 0.2, 0.75, 0.8, 0.8, 2)]
    assert benchmark.accuracy(answers, np.arange(2)).value == pytest.approx(100)
    with pytest.raises(HarnessError, match="labels 3 to 3 were given, there are 2 classes"):
        benchmark.accuracy([row(0, 0, 0, 1, 1, 1, 3)], np.asarray([0]))


def test_answers_of_another_kind_are_refused(tmp_path: Path) -> None:
    benchmark = scene(tmp_path)
    with pytest.raises(HarnessError, match="sample 1 was answered with 27 bytes"):
        benchmark.accuracy([b"x" * 27], np.asarray([1]))
    with pytest.raises(HarnessError, match="answer for sample 0 says it is for sample 1"):
        benchmark.accuracy([row(1, 0, 0, 1, 1, 1, 3)], np.asarray([0]))
    with pytest.raises(HarnessError, match="show no object"):
        average_precision.mean_average_precision({**SCENE, "annotations": []}, SCENE["images"], [])


def test_an_image_counts_as_often_as_it_is_asked(tmp_path: Path) -> None:
    benchmark = scene(tmp_path)
    right, wrong = row(0, 0.1, 0.1, 0.6, 0.6, 0.9, 3), row(0, 0.8, 0.8, 0.9, 0.9, 0.8, 3)
    same = benchmark.accuracy([right] * 3, np.zeros(3, dtype=int))
    assert (same.value, same.samples) == (pytest.approx(100), 3)
    assert same.line == "mAP=100.000%, images=1, boxes=1", "all alike: judged once"
    # 6 of 7 found, and all of these before the wrong one: 86 of the 101 points of recall.
    once_wrong = benchmark.accuracy([*[right] * 6, wrong], np.zeros(7, dtype=int))
    assert once_wrong.value == pytest.approx(100 * 86 / 101)
    # The second image is asked three times, and twice found: 67 of the points.
    other = row(1, 0.25, 0.2, 0.75, 0.8, 0.8, 9)
    uneven = benchmark.accuracy([right, other, other, b""], np.asarray([0, 1, 1, 1]))
    assert uneven.value == pytest.approx(50 + 50 * 67 / 101)


@pytest.mark.parametrize("seed", range(6))
def test_the_mean_is_that_of_pycocotools_on_the_same_boxes(seed: int) -> None:
    """Our image numbers and boxes against a plain call with those of the data set."""
    random = np.random.default_rng(seed)
    told, found = random_scene(random, 12)
    mine = average_precision.mean_average_precision(told, told["images"], found)
    assert mine == pytest.approx(plain(told, found), abs=1e-12)
    # Where every image comes twice, the mean does not change.
    twice = average_precision.mean_average_precision(told, told["images"] * 2, found * 2)
    assert twice == pytest.approx(mine, abs=0.01)


def random_scene(random: np.random.Generator, count: int) -> tuple[dict[str, Any], list[Any]]:
    images = [{"id": 900 - 7 * k, "width": 120, "height": 90} for k in range(count)]
    annotations, found = [], []
    for image in images:
        objects = random.integers(0, 5)
        boxes = np.stack(
            [random.uniform(0, 60, objects), random.uniform(0, 40, objects)]
            + [random.uniform(5, 50, objects) for _ in range(2)],
            axis=1,
        )
        kinds = random.choice([2, 3, 5], objects)
        annotations += [
            {
                "id": len(annotations) + k + 1,
                "image_id": image["id"],
                "category_id": int(kind),
                "bbox": box.tolist(),
                "area": float(box[2] * box[3]),
                "iscrowd": int(random.random() < 0.1),
            }
            for k, (box, kind) in enumerate(zip(boxes, kinds, strict=True))
        ]
        kept = random.random(objects) < 0.8
        moved = boxes[kept] + random.normal(0, 3, (kept.sum(), 4))
        found.append(Detections(np.abs(moved), random.random(kept.sum()), kinds[kept]))
    categories = [{"id": number, "name": str(number)} for number in (2, 3, 5)]
    return {"images": images, "annotations": annotations, "categories": categories}, found


def plain(told: dict[str, Any], found: list[Any]) -> float:
    coco = pytest.importorskip("pycocotools.coco")
    judge = pytest.importorskip("pycocotools.cocoeval")
    results = [
        [image["id"], *box, score, kind]
        for image, each in zip(told["images"], found, strict=True)
        for box, score, kind in zip(each.boxes, each.scores, each.categories, strict=True)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO()
        truth.dataset = told
        truth.createIndex()
        judged = judge.COCOeval(truth, truth.loadRes(np.asarray(results, dtype=float)), "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    return float(judged.stats[0])


class Fixed(Predictor):
    """A model that finds what it was told to, in whatever it sees."""

    def __init__(self, *outputs: Any) -> None:
        self.outputs = [np.asarray(each) for each in outputs]
        self.calls = 0

    def predict(self, feeds: dict[str, Any]) -> list[Any]:
        self.calls += 1
        return self.outputs


def solved(benchmark: Any, fixed: Fixed, count: int) -> list[np.ndarray]:
    benchmark.load(range(count))
    results, sizes = benchmark.result.rows(count), np.zeros(count, dtype=np.int64)
    benchmark.solver({"main": fixed}, count).solve(range(count), results, sizes)
    return [
        np.frombuffer(each.tobytes()[:size], dtype=np.float32).reshape(-1, 7)
        for each, size in zip(results, sizes, strict=True)
    ]


def test_boxes_in_pixels_of_one_image_become_shares(tmp_path: Path) -> None:
    benchmark = scene(tmp_path, extent=[100, 200])
    boxes = np.asarray([[20, 10, 120, 60], [0, 0, 200, 100], [1, 1, 2, 2]], dtype=np.float32)
    scores = np.asarray([0.9, 0.06, 0.04], dtype=np.float32)
    fixed = Fixed(boxes, np.asarray([3, 9, 9]), scores)
    first, second = solved(benchmark, fixed, 2)
    assert fixed.calls == 2  # it takes one image at a time
    expected = [[0.1, 0.1, 0.6, 0.6, 0.9, 3], [0, 0, 1, 1, 0.06, 9]]
    np.testing.assert_allclose(first[:, 1:], expected, rtol=1e-6)
    assert first[:, 0].tolist() == [0, 0]
    assert second[:, 0].tolist() == [1, 1]


def test_the_surest_boxes_are_kept_where_there_are_too_many(tmp_path: Path) -> None:
    benchmark = scene(tmp_path, most=2, images_per_call=0)
    scores = np.asarray([[0.2, 0.9, 0.5]] * 2, dtype=np.float32)
    fixed = Fixed(np.zeros((2, 3, 4), np.float32), np.asarray([[7, 8, 9]] * 2), scores)
    for answer in solved(benchmark, fixed, 2):
        assert answer[:, 6].tolist() == [8, 9]
    assert fixed.calls == 1


def test_only_as_many_boxes_count_as_the_model_says(tmp_path: Path) -> None:
    names = {"count": "scores", "images_per_call": 0, "order": "yxyx", "extent": [1, 1]}
    benchmark = scene(tmp_path, **names)
    boxes = np.tile(np.asarray([0.1, 0.2, 0.3, 0.4], np.float32), (2, 3, 1))
    fixed = Fixed(boxes, np.ones((2, 3)), np.full((2, 3), 0.5, np.float32), [2.0, 0.0])
    first, second = solved(benchmark, fixed, 2)
    assert (len(first), len(second)) == (2, 0)
    np.testing.assert_allclose(first[0, 1:5], [0.1, 0.2, 0.3, 0.4])


def test_a_model_that_answers_for_another_number_of_images_is_refused(tmp_path: Path) -> None:
    benchmark = scene(tmp_path, images_per_call=0)
    fixed = Fixed(np.zeros((3, 4)), np.zeros(3), np.zeros(3))
    with pytest.raises(HarnessError, match="answered 2 images with boxes"):
        solved(benchmark, fixed, 2)


@each_detector
def test_the_held_out_figure_is_the_stated_one_in_any_batch(name: str) -> None:
    benchmark, solver, model = created(name)
    answers = forms.answers(benchmark, solver, 32)
    figure = benchmark.accuracy(answers, np.arange(benchmark.sample_count))
    assert figure.value == pytest.approx(model.accuracy.reference, abs=0.05)
    assert 50 < figure.value < 95
    results, sizes = benchmark.result.rows(1), np.zeros(1, dtype=np.int64)
    for sample in (0, 17, 499):
        solver.solve([sample], results, sizes)
        alone = np.frombuffer(results[0].tobytes()[: sizes[0]], dtype=np.float32)
        batched = np.frombuffer(answers[sample], dtype=np.float32)
        np.testing.assert_allclose(alone, batched, atol=1e-3)


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"uint8 \[96, 96, 3\], the images of .* float32"):
        created("ssd-mobilenet", forms.pictures("retinanet"))
    with pytest.raises(HarnessError, match="do not describe boxes"):
        created("retinanet", options={"boxes": "boxes"})
    with pytest.raises(HarnessError, match="has no output other, which its options name"):
        options = forms.model(model_folder("retinanet"))["options"]
        created("retinanet", options={**options, "boxes": "other"})
    benchmark, solver, _ = created("retinanet")
    with pytest.raises(IndexError, match="sample 3 was issued but never loaded"):
        solver.solve([3], benchmark.result.rows(1), np.zeros(1))


def test_without_pycocotools_the_accuracy_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pycocotools.coco", None)
    with pytest.raises(HarnessError, match="needs the package pycocotools"):
        scene(tmp_path).accuracy([row(0, 0, 0, 1, 1, 1, 3)], np.asarray([0]))


def test_sizes_that_are_not_fixed_fit_every_size() -> None:
    wanted = [TensorSpec("boxes", "float32", (-1, 4))]
    check_signature("output", wanted, [TensorSpec("boxes", "float32", (200, 4))])
    with pytest.raises(HarnessError, match=r"\[N, \?, 5\]"):
        check_signature("output", wanted, [TensorSpec("boxes", "float32", (-1, 5))])
    assert empty_batch(wanted, 3)["boxes"].shape == (3, 1, 4)


# What the others have of their own is what they answer, alone and in a batch.
SCENARIOS = {
    "retinanet": ("SingleStream", "MultiStream", "Server", "Offline"),
    "ssd-mobilenet": ("SingleStream", "Offline"),
    "ssd-resnet34": ("SingleStream", "Offline"),
}


@each_detector
def test_scenarios_run_and_agree_on_the_accuracy(name: str, tmp_path: Path) -> None:
    wanted = forms.settings(
        tmp_path,
        name,
        model_folder(name),
        forms.pictures(name, "--count", 100),
        *SCENARIOS[name],
        attempts=10,
        division="open",  # the target is that of all 500 images
        overrides={"batch_size": 8, "server_target_qps": 50},
    )
    results = sessions.MeasurementSession(records.decode(SessionSettings, wanted)).run()
    assert [r.scenario for r in results.results] == list(SCENARIOS[name])
    figures = [result.accuracy for result in results.results]
    assert all(figure == pytest.approx(figures[0], abs=0.2) for figure in figures)
    assert 50 < figures[0] < 95
    log = next(Path(results.folder).rglob("mlperf_log_accuracy.json"))
    assert next(r for r in results.results if r.scenario == "Offline").validity == "VALID"
    logged = json.loads(log.read_text())
    assert len(logged) >= 100
    for entry in logged[:20]:
        boxes = np.frombuffer(bytes.fromhex(entry["data"]), np.float32).reshape(
            -1, detection.FIELDS
        )
        assert (boxes[:, 0] == entry["qsl_idx"]).all()
