"""BraTS: three regions inside of each other, judged by other ways to compute the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sklearn.metrics import f1_score

import benchmark_forms as forms
from mlperf import catalog
from mlperf.harness import records
from mlperf.harness.backends import registry as backends
from mlperf.harness.benchmarks import registry as benchmarks
from mlperf.harness.benchmarks import segmentation
from mlperf.harness.errors import HarnessError
from mlperf.harness.pipeline.inference import solvers
from mlperf.harness.session import session as sessions
from mlperf.harness.settings import ModelSpec, SessionSettings, WorkerShape

SCRIPT = forms.SCRIPT / "get-ml-model-3d-unet-brats19"
MODEL = SCRIPT / "tiny"
REGIONS = {"whole tumor": (1, 2, 3), "tumor core": (2, 3), "enhancing tumor": (3,)}
PADDING = 255


def spec(window: tuple[int, int, int], **options: Any) -> ModelSpec:
    """A model for volumes of this size; there is no file behind it."""
    facts = forms.model(MODEL)
    facts["inputs"][0]["shape"] = facts["outputs"][0]["shape"] = [4, *window]
    facts["options"] = {**facts["options"], **options}
    return records.decode(ModelSpec, facts)


def written(folder: Path, labels: Any) -> Path:
    """A data set with these labels [n, d, h, w] and images of zeros."""
    count, *window = labels.shape
    np.save(folder / "samples.npy", np.zeros(4 * labels.size, np.float32))
    np.save(folder / "labels.npy", labels.ravel())
    np.save(folder / "shapes.npy", np.tile([4, *window], (count, 1)))
    (folder / "dataset.json").write_text(json.dumps({"name": "noise", "count": count}))
    return folder


def drawn(random: np.random.Generator, count: int, window: tuple[int, int, int]) -> tuple[Any, Any]:
    """Labels with padding around some volumes and without some classes, and answers to them."""
    truth = random.integers(0, 4, (count, *window)).astype(np.uint8)
    for volume in truth:
        top = int(random.integers(0, 4))
        volume[volume > top] = 0
        if random.random() < 0.7:
            volume[: int(random.integers(0, 3))] = PADDING
            volume[:, :, window[2] - int(random.integers(0, 3)) :] = PADDING
    answers = np.where(random.random(truth.shape) < 0.4, random.integers(0, 4, truth.shape), truth)
    answers = np.where(answers == PADDING, random.integers(0, 4, truth.shape), answers)
    for number in range(0, count, 3):  # of these the highest class is not even found wrongly
        answers[number][answers[number] == 3] = 0
    return truth, answers.astype(np.uint8)


def as_the_rules_have_it(truth: Any, answers: Any) -> tuple[float, list[float]]:
    """The mean of three means; what is neither there nor found is left out of its mean."""
    each: dict[str, list[float]] = {name: [] for name in REGIONS}
    for real, found in zip(truth, answers, strict=True):
        judged = real != PADDING
        for name, labels in REGIONS.items():
            one, two = np.isin(real[judged], labels), np.isin(found[judged], labels)
            both = one.any() or two.any()
            each[name].append(f1_score(one, two, zero_division=0.0) if both else np.nan)
    means = [float(np.nanmean(values)) for values in each.values()]
    return sum(means) / 3, means


@pytest.mark.parametrize("seed", range(8))
def test_dice_is_that_of_the_rules_on_random_answers(tmp_path: Path, seed: int) -> None:
    truth, answers = drawn(np.random.default_rng(seed), 9, (5, 6, 4))
    benchmark = benchmarks.create("3d-unet-brats-99", written(tmp_path, truth), spec((5, 6, 4)))
    figure = benchmark.accuracy([each.tobytes() for each in answers], np.arange(9))
    mean, parts = as_the_rules_have_it(truth, answers)
    assert figure.value == pytest.approx(mean, abs=1e-6)
    told = ", ".join(f"{name} = {part:.4f}" for name, part in zip(REGIONS, parts, strict=True))
    assert figure.line == f"Accuracy: mean = {mean:.5f}, {told}"


def test_random_answers_hold_what_makes_the_rules_special() -> None:
    truth, answers = drawn(np.random.default_rng(0), 9, (5, 6, 4))
    absent = [
        not (t == 3).any() and not (a == 3).any() for t, a in zip(truth, answers, strict=True)
    ]
    assert 0 < sum(absent) < 9
    assert (truth == PADDING).any()
    assert set(np.unique(answers[truth == PADDING])) == {0, 1, 2, 3}


def test_what_fills_up_the_window_is_not_judged(tmp_path: Path) -> None:
    truth = np.full((1, 4, 4, 4), PADDING, np.uint8)
    truth[0, 1:3, 1:3, 1:3] = 3
    benchmark = benchmarks.create("3d-unet-brats-99", written(tmp_path, truth), spec((4, 4, 4)))
    everywhere = np.full(64, 3, np.uint8).tobytes()
    assert benchmark.accuracy([everywhere], np.arange(1)).value == pytest.approx(1)
    nowhere = bytes(64)
    assert benchmark.accuracy([nowhere], np.arange(1)).value == pytest.approx(0, abs=1e-6)


def test_a_region_that_no_volume_has_was_never_got_wrong(tmp_path: Path) -> None:
    truth = np.ones((2, 2, 2, 2), np.uint8)
    folder = written(tmp_path, truth)
    answers = [bytes(8), truth[0].tobytes()]
    for absent in ("left out", "right"):
        model = spec((2, 2, 2), absent_region=absent)
        figure = benchmarks.create("3d-unet-brats-99", folder, model).accuracy(
            answers, np.arange(2)
        )
        assert figure.value == pytest.approx((0.5 + 1 + 1) / 3, abs=1e-6)
    with pytest.raises(HarnessError, match="absent_region is 'odd'; it can be: right, left out"):
        benchmarks.create("3d-unet-brats-99", folder, spec((2, 2, 2), absent_region="odd"))


def test_left_out_and_right_differ_where_some_volumes_have_the_region(tmp_path: Path) -> None:
    truth = np.ones((2, 2, 2, 2), np.uint8)
    truth[0, 0] = 3
    folder = written(tmp_path, truth)
    answers = [np.ones(8, np.uint8).tobytes(), truth[1].tobytes()]
    values = {
        absent: benchmarks.create("3d-unet-brats-99", folder, spec((2, 2, 2), absent_region=absent))
        .accuracy(answers, np.arange(2))
        .value
        for absent in segmentation.ABSENT_REGIONS
    }
    assert values["left out"] == pytest.approx(1 / 3, abs=1e-6)
    assert values["right"] == pytest.approx((1 + 0.5 + 0.5) / 3, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "target"), [("3d-unet-brats-99", 0.84447), ("3d-unet-brats-99.9", 0.852147)]
)
def test_the_rules_are_those_of_round_1_1(name: str, target: float) -> None:
    found = catalog.benchmark(name)
    assert (found.dataset_size, found.loaded_samples, found.offline_minimum) == (67, 16, 24576)
    (metric,) = found.accuracy
    assert (metric.reference, metric.target) == (0.853, target)
    assert found.required("1.1", "edge") == ("SingleStream", "Offline")
    assert found.required("0.7", "datacenter") == ("Offline",)
    assert found.required("2.0", "edge,datacenter") == ()
    assert found.tests("1.1") == ("TEST01", "TEST04", "TEST05")


def test_loadgen_and_submissions_do_not_take_it_for_the_newer_one() -> None:
    for share in ("99", "99.9"):
        old, new = (
            catalog.benchmark(f"3d-unet-brats-{share}"),
            catalog.benchmark(f"3d-unet-{share}"),
        )
        # LoadGen's own rules for 3d-unet are those of KiTS19 since round 2.0.
        assert (old.loadgen_key, old.known_to_loadgen) == ("3d-unet-brats", False)
        assert old.checker_name != new.checker_name
        # Brains are all of one size: equal issue came with KiTS19.
        assert (old.equal_issue, new.equal_issue) == (False, True)


def test_each_benchmark_gets_its_own_model_and_data() -> None:
    path = forms.SCRIPT / "app-mlperf-inference" / "meta.yaml"
    variations = yaml.safe_load(path.read_text(encoding="utf-8"))["variations"]
    old, new = (
        [dep["tags"] for dep in variations[name]["deps"] if dep["tags"].startswith("get,")]
        for name in ("3d-unet-brats_", "3d-unet_")
    )
    assert all("brats19" in tags for tags in old)
    assert all("kits19" in tags for tags in new)


def test_the_shipped_model_does_as_well_as_its_facts_say() -> None:
    facts = forms.model(MODEL)
    model = records.decode(ModelSpec, facts)
    benchmark = benchmarks.create("3d-unet-brats-99", forms.brain_volumes(), model)
    backend = backends.create("onnxruntime", "cpu", "float32")
    (solver,) = solvers(backend, model, benchmark, WorkerShape(1, 1, 1))
    figure = benchmark.accuracy(forms.answers(benchmark, solver, 1), np.arange(67))
    assert figure.value == pytest.approx(facts["accuracy"]["reference"], abs=5e-4)
    assert 0.75 < figure.value < 0.99


def test_all_scenarios_are_valid_and_reach_the_target(tmp_path: Path) -> None:
    facts = forms.model(MODEL)
    # Ten cases stand for all 67, whose figure is held against the target above.
    facts["accuracy"]["target"] = 0.75
    wanted = forms.settings(
        tmp_path,
        "3d-unet-brats-99",
        MODEL,
        forms.brain_volumes(10),
        *catalog.benchmark("3d-unet-brats-99").all_scenarios(),
        attempts=10,
        overrides={"min_query_count": 64, "batch_size": 2},
    )
    settings = records.decode(SessionSettings, {**wanted, "model": facts})
    results = sessions.MeasurementSession(settings).run()
    assert [result.scenario for result in results.results] == ["SingleStream", "Offline"]
    for result in results.results:
        assert result.accuracy_reached, result
        assert result.validity == "VALID", result
    text = (Path(results.folder) / "summary.txt").read_text()
    assert f"{results.results[0].accuracy:.4f}" in text
