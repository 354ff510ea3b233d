"""Segmentation against other ways to compute the same, and its runs through LoadGen."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import windows
from sklearn.metrics import f1_score

import benchmark_forms as forms
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.backends.base import Predictor
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.benchmarks import segmentation
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import ModelSpec, SessionSettings, WorkerShape

MODEL = forms.SCRIPT / "get-ml-model-3d-unet-kits19" / "tiny"
KITS = {"kidney": [1], "tumor": [2]}
BRATS = {"whole tumor": [1, 2, 3], "tumor core": [2, 3], "enhancing tumor": [3]}


def written(folder: Path, shapes: Sequence[Sequence[int]], classes: int) -> Path:
    """A data set of noise with volumes of these shapes (channels, depth, height, width)."""
    random = np.random.default_rng(3)
    values = sum(int(np.prod(shape)) for shape in shapes)
    voxels = sum(int(np.prod(shape[1:])) for shape in shapes)
    np.save(folder / "samples.npy", random.normal(size=values).astype(np.float32))
    labels = random.integers(0, classes, size=voxels).astype(np.uint8)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "shapes.npy", np.asarray(shapes))
    facts = {"name": "noise", "count": len(shapes)}
    (folder / "dataset.json").write_text(json.dumps(facts))
    return folder


def spec(channels: int, window: Sequence[int], classes: int, **options: Any) -> ModelSpec:
    """A model for such a data set; there is no file behind it."""
    facts = forms.model(MODEL)
    facts["inputs"][0]["shape"] = [channels, *window]
    facts["outputs"][0]["shape"] = [classes, *window]
    facts["options"] = options
    return records.decode(ModelSpec, facts)


class Mixing(Predictor):
    """Scores that depend on each voxel and on where it lies in the window."""

    def __init__(self, channels: int, window: Sequence[int], classes: int) -> None:
        random = np.random.default_rng(5)
        self.mix = random.normal(size=(classes, channels)).astype(np.float32)
        self.place = random.normal(size=(classes, *window)).astype(np.float32)

    def predict(self, feeds: Any) -> list[Any]:
        """See ``backends.base.Predictor``."""
        (volumes,) = feeds.values()
        return [np.einsum("kc,ncdhw->nkdhw", self.mix, volumes) + self.place]


def expected(volume: Any, window: int, mixing: Mixing) -> Any:
    """Labels by the plain way: all scores at once, divided by the sums of the weights."""
    line = windows.gaussian(window, 0.125 * window)
    weights = np.cbrt(np.multiply.outer(np.multiply.outer(line, line), line))
    weights /= weights.max()
    scores = np.zeros((len(mixing.mix), *volume.shape[1:]))
    total = np.zeros(volume.shape[1:])
    stride = window // 2
    steps = [range(0, size - window + 1, stride) for size in volume.shape[1:]]
    for corner in itertools.product(*steps):
        place = tuple(slice(begin, begin + window) for begin in corner)
        (found,) = mixing.predict({"input": volume[(slice(None), *place)][None]})
        scores[(slice(None), *place)] += found[0] * weights
        total[place] += weights
    return (scores / total).argmax(axis=0)


@pytest.mark.parametrize("per_call", [1, 3])
def test_the_window_slides_as_the_rules_have_it(tmp_path: Path, per_call: int) -> None:
    shapes = [(2, 8, 8, 8), (2, 16, 8, 12), (2, 12, 20, 8), (2, 24, 12, 16)]
    folder = written(tmp_path, shapes, 3)
    model = spec(2, (8, 8, 8), 3, regions=KITS, windows_per_call=per_call)
    benchmark = benchmarks.create("3d-unet-99", folder, model)
    assert benchmark.costs is not None
    assert benchmark.costs.tolist() == [1, 6, 8, 30], "the number of windows"
    mixing = Mixing(2, (8, 8, 8), 3)
    answers = forms.answers(benchmark, benchmark.solver({"main": mixing}, 2), 2)
    for number, shape in enumerate(shapes):
        labels = np.frombuffer(answers[number], dtype=np.uint8).reshape(shape[1:])
        volume = segmentation.Segmentation.volume(benchmark, number)
        same = labels == expected(volume, 8, mixing)
        assert same.mean() > 0.999  # sums in another order may tie in another way


def test_a_volume_of_one_window_goes_through_whole(tmp_path: Path) -> None:
    shape = (4, 6, 10, 8)
    folder = written(tmp_path, [shape, shape], 4)
    benchmark = benchmarks.create("3d-unet-99", folder, spec(4, shape[1:], 4, regions=BRATS))
    mixing = Mixing(4, shape[1:], 4)
    answers = forms.answers(benchmark, benchmark.solver({"main": mixing}, 1), 1)
    for number, answer in enumerate(answers):
        (scores,) = mixing.predict({"input": benchmark.volume(number)[None]})
        np.testing.assert_array_equal(
            np.frombuffer(answer, np.uint8), scores[0].argmax(axis=0).ravel()
        )


@pytest.mark.parametrize(("classes", "regions"), [(3, KITS), (4, BRATS)])
def test_dice_is_the_mean_of_f1_over_volumes(
    tmp_path: Path, classes: int, regions: dict[str, list[int]]
) -> None:
    shapes = [(1, 4, 4, 4), (1, 8, 4, 6), (1, 6, 6, 4)]
    folder = written(tmp_path, shapes, classes)
    benchmark = benchmarks.create(
        "3d-unet-99", folder, spec(1, (4, 4, 4), classes, regions=regions)
    )
    random = np.random.default_rng(8)
    truth = np.split(np.load(folder / "labels.npy"), np.cumsum([64, 192]))
    answers = [np.where(random.random(t.size) < 0.3, 0, t).astype(np.uint8) for t in truth]
    figure = benchmark.accuracy([a.tobytes() for a in answers], np.arange(3))
    each = [
        np.mean(
            [f1_score(np.isin(t, r), np.isin(a, r)) for t, a in zip(truth, answers, strict=True)]
        )
        for r in regions.values()
    ]
    assert figure.value == pytest.approx(np.mean(each), abs=1e-6)
    told = ", ".join(f"{name} = {value:.4f}" for name, value in zip(regions, each, strict=True))
    assert figure.line == f"Accuracy: mean = {np.mean(each):.5f}, {told}"


def test_nothing_found_of_nothing_is_right() -> None:
    empty, full = np.zeros(9, np.uint8), np.ones(9, np.uint8)
    assert segmentation.dice(empty, empty, [1]) == 1.0
    assert segmentation.dice(full, full, [1]) == 1.0
    assert segmentation.dice(full, empty, [1]) == pytest.approx(0, abs=1e-6)


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    folder = written(tmp_path, [(1, 8, 8, 8), (1, 8, 10, 8)], 3)
    with pytest.raises(HarnessError, match=r"volume 1 of .* is \[1, 8, 10, 8\]; windows of"):
        benchmarks.create("3d-unet-99", folder, spec(1, (8, 8, 8), 3, regions=KITS))
    with pytest.raises(HarnessError, match="lack 'regions'"):
        benchmarks.create("3d-unet-99", folder, spec(1, (8, 8, 8), 3))
    np.save(folder / "labels.npy", np.zeros(100, np.uint8))
    with pytest.raises(HarnessError, match="is damaged: 2 volumes with 1152 values and 100 labels"):
        benchmarks.create("3d-unet-99", folder, spec(1, (8, 8, 8), 3, regions=KITS))


def test_answers_of_another_size_and_unloaded_samples_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, [(1, 8, 8, 8)], 3)
    benchmark = benchmarks.create("3d-unet-99", folder, spec(1, (8, 8, 8), 3, regions=KITS))
    with pytest.raises(HarnessError, match="answered with 3 labels, its volume has 512 voxels"):
        benchmark.accuracy([b"abc"], np.arange(1))
    with pytest.raises(IndexError, match="sample 0 was issued but never loaded"):
        benchmark.volume(0)


def test_the_shipped_model_does_as_well_as_its_facts_say() -> None:
    facts = forms.model(MODEL)
    model = records.decode(ModelSpec, facts)
    benchmark = benchmarks.create("3d-unet-99", forms.kidney_volumes(), model)
    backend = backends.create("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, model, benchmark, WorkerShape(1, 1, 1))
    figure = benchmark.accuracy(forms.answers(benchmark, solver, 1), np.arange(43))
    assert figure.value == pytest.approx(facts["accuracy"]["reference"], abs=5e-4)
    assert 0.75 < figure.value < 0.99


def test_both_scenarios_are_valid_and_reach_the_target(tmp_path: Path) -> None:
    facts = forms.model(MODEL)
    # Five cases stand for all 43, whose figure is held against the target above.
    facts["accuracy"]["target"] = 0.8
    wanted = forms.settings(
        tmp_path,
        "3d-unet-99",
        MODEL,
        forms.kidney_volumes(*forms.SMALL_KIDNEYS),
        "SingleStream",
        "Offline",
        attempts=10,
        overrides={"min_query_count": 64, "batch_size": 2},
    )
    settings = records.decode(SessionSettings, {**wanted, "model": facts})
    results = sessions.MeasurementSession(settings).run()
    for result in results.results:
        assert result.accuracy_reached, result
        assert result.validity == "VALID", result
    text = (Path(results.folder) / "summary.txt").read_text()
    assert "on cpu, float32" in text
    assert f"{results.results[0].accuracy:.4f}" in text
    assert "0.8000" in text, "a share of 1 needs more than two digits"
