"""Preprocessing of small cases laid out as BraTS 2019 is."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

import benchmark_lab as lab
from modelzoo.program import ProgramError
from modelzoo.volumes import arrays, brats
from support import LIB, Finished, run

SOURCE = LIB / "modelzoo/volumes"

CASE = "HGG/BraTS19_A_1"
WINDOW = (12, 14, 10)


def head(shape: tuple[int, int, int] = (9, 10, 8)) -> tuple[Any, Any]:
    """Images [4, d, h, w] of noise with an empty border of one voxel, and labels inside."""
    random = np.random.default_rng(4)
    images = np.zeros((4, *shape), dtype=np.int16)
    inner = images[:, 1:-1, 1:-1, 1:-1]
    inner[:] = random.integers(1, 900, inner.shape)
    labels = np.zeros(shape, dtype=np.uint8)
    labels[2:7, 3:6, 2:5] = 2
    labels[3:6, 4, 3] = [1, 4, 4]
    return images, labels


def write_case(folder: Path, case: tuple[Any, Any], spacing: float = 1.0) -> None:
    """The five files; the axes of arrays are turned round, as readers of NIfTI give them."""
    folder.mkdir(parents=True)
    affine = np.diag([spacing, spacing, spacing, 1.0])
    for name, array in zip((*brats.MODALITIES, "seg"), (*case[0], case[1]), strict=True):
        image = nibabel.Nifti1Image(array.T, affine)
        nibabel.save(image, folder / f"{folder.name}_{name}.nii.gz")


def preprocess(folder: Path, window: str = "12,14,10") -> Finished:
    """Run the program as its script does."""
    (folder / "out").mkdir(exist_ok=True)
    (folder / "cases.txt").write_text(f"{CASE}\n")
    command = [sys.executable, str(SOURCE / "preprocess.py"), "--dataset", "brats"]
    command += [
        "--cases",
        str(folder / "data"),
        "--list",
        str(folder / "cases.txt"),
        "--window",
        window,
        "--name",
        "small",
    ]
    return run([*command, "--out", str(folder / "out")])


def expected(images: Any, window: tuple[int, ...]) -> tuple[Any, tuple[slice, ...]]:
    """By the plain way, for a head without holes: what the window holds, and where the brain is."""
    places = np.argwhere(images.any(axis=0))
    low, high = places.min(axis=0), places.max(axis=0) + 1
    around = [(side - size) // 2 for side, size in zip(window, high - low, strict=True)]
    where = tuple(slice(a, a + s) for a, s in zip(around, high - low, strict=True))
    whole = np.zeros((4, *window))
    for number, image in enumerate(images.astype(float)):
        inside = image[tuple(map(slice, low, high))]
        whole[(number, *where)] = (inside - inside.mean()) / inside.std()
    return whole, where


def test_a_case_becomes_a_volume_of_the_window(tmp_path: Path) -> None:
    images, labels = head()
    write_case(tmp_path / "data" / CASE, (images, labels))
    preprocess(tmp_path).ok()
    out = tmp_path / "out"
    assert np.load(out / "shapes.npy").tolist() == [[4, *WINDOW]]
    whole, where = expected(images, WINDOW)
    found = np.load(out / "samples.npy").reshape(4, *WINDOW)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, whole, atol=1e-5)
    marks = np.load(out / "labels.npy").reshape(WINDOW)
    beside = np.ones(WINDOW, dtype=bool)
    beside[where] = False
    assert (marks[beside] == 255).all()
    classes = {0: 0, 1: 2, 2: 1, 4: 3}  # nothing, core, swelling, enhancing
    inner = labels[1:-1, 1:-1, 1:-1]
    np.testing.assert_array_equal(marks[where], np.vectorize(classes.get)(inner))
    facts = json.loads((out / "dataset.json").read_text())
    assert (facts["name"], facts["count"], facts["window"]) == ("small", 1, list(WINDOW))
    assert facts["cases"] == [CASE]


def test_holes_and_dark_spots_belong_to_the_brain() -> None:
    images, _ = head()
    images[:, 4, 4, 4] = 0  # a hole in all four
    images[2, 5, 5, 5] = 0  # dark in one of them only
    brain = brats.brain_of(images.astype(np.float32))
    assert brain.sum() == 7 * 8 * 6
    found = brats.normalised(images.astype(np.float32), brain)
    np.testing.assert_allclose(found[:, brain].mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(found[:, brain].std(axis=1), 1, atol=1e-5)
    assert (found[:, 4, 4, 4] < -1).all()
    assert not found[:, ~brain].any()


def test_an_image_without_contrast_and_values_that_are_no_numbers_do_no_harm() -> None:
    images = np.ones((4, 4, 4, 4), dtype=np.float32)
    images[1, 0, 0, 0] = np.nan
    found, _ = brats.preprocessed((images, np.zeros((4, 4, 4), np.uint8)), (4, 4, 4))
    assert np.isfinite(found).all()
    assert not found[0].any()


def test_an_odd_rest_lies_behind() -> None:
    assert brats.fitted(np.ones((2, 3, 4)), (2, 6, 7), 0)[0, :, 2].tolist() == [0, 1, 1, 1, 0, 0]
    assert brats.fitted(np.ones((1, 1, 4)), (1, 1, 7), 9).ravel().tolist() == [9, *[1] * 4, 9, 9]


def test_tumour_beside_the_brain_is_reported(tmp_path: Path) -> None:
    images, labels = head()
    labels[0, 0, :2] = 2
    write_case(tmp_path / "data" / CASE, (images, labels))
    assert "not counted: 2 voxels of tumour beside the brain" in preprocess(tmp_path).ok().stdout


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("label", "the segmentation has the label 3; BraTS has 0, 1, 2, 4"),
        ("window", "a brain of [7, 8, 6] voxels does not fit into the window [12, 7, 10]"),
        ("spacing", "voxels of 2 x 2 x 2 mm; BraTS 2019 has 1 mm"),
        ("empty", "the images are empty"),
        ("size", "the images are not all of one size: [9, 10, 8], [9, 10, 9]"),
        ("damage", "cannot read the case"),
        ("missing", "cannot read the case"),
    ],
)
def test_what_is_not_brats_is_refused(tmp_path: Path, change: str, told: str) -> None:
    images, labels = head()
    folder = tmp_path / "data" / CASE
    if change == "label":
        labels[5, 5, 5] = 3
    write_case(folder, (images * (change != "empty"), labels), 2.0 if change == "spacing" else 1.0)
    path = folder / "BraTS19_A_1_t2.nii.gz"
    if change == "size":
        nibabel.save(nibabel.Nifti1Image(np.ones((9, 10, 9), np.int16), np.eye(4)), path)
    elif change == "damage":
        path.write_bytes(path.read_bytes()[:60])
    elif change == "missing":
        path.unlink()
    answer = preprocess(tmp_path, "12,7,10" if change == "window" else "12,14,10")
    assert answer.status == 1
    assert told in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_full_disk_is_said_before_hours_of_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ProgramError, match=r"take 9\.1 GB, and 1\.0 GB are free"):
        arrays.check_room(tmp_path, [(4, 224, 224, 160)] * 67)
    assert not list(tmp_path.iterdir())


def noise(dataset: str, window: str, out: Path, *words: str) -> dict[str, Any]:
    """Write volumes of noise; returns their facts."""
    out.mkdir(exist_ok=True)
    command = [sys.executable, str(SOURCE / "noise.py"), "--dataset", dataset, "--window", window]
    run([*command, "--name", "noise", "--out", str(out), *words]).ok()
    facts: dict[str, Any] = json.loads((out / "dataset.json").read_text())
    return facts


def test_synthetic_volumes_are_few_and_repeated(tmp_path: Path) -> None:
    facts = noise("brats", "8,8,4", tmp_path)
    assert (facts["count"], facts["qsl_count"]) == (4, 67)
    assert np.load(tmp_path / "samples.npy").shape == (4 * 4 * 8 * 8 * 4,)
    assert abs(np.load(tmp_path / "samples.npy").std() - 1) < 0.05
    assert set(np.load(tmp_path / "labels.npy")) == {0, 1, 2, 3}


@pytest.mark.parametrize(("dataset", "window"), [("brats", "8,8,4"), ("kits19", "128")])
def test_synthetic_volumes_for_calibration_are_others_and_not_repeated(
    dataset: str, window: str, tmp_path: Path
) -> None:
    judged, own = (
        noise(dataset, window, tmp_path / part, "--part", part, "--count", "1")
        for part in ("validation", "training")
    )
    assert (judged["count"], own["count"]) == (1, 1)
    assert "qsl_count" in judged
    assert "qsl_count" not in own
    first, second = (
        np.load(tmp_path / part / "samples.npy", mmap_mode="r")[:1024]
        for part in ("validation", "training")
    )
    assert (first != second).mean() > 0.99


def test_the_path_for_calibration_leaves_that_of_the_test_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    customize = lab.module_of(lab.SCRIPT / "get-preprocessed-dataset-brats19" / "customize.py")
    (tmp_path / "dataset.json").write_text('{"count": 40}')
    monkeypatch.chdir(tmp_path)
    env = {"CM_DATASET_TYPE": "training", "CM_DATASET_PREPROCESSED_PATH": "judged"}
    customize.postprocess({"env": env})
    assert env["CM_DATASET_PREPROCESSED_TRAINING_PATH"] == str(tmp_path)
    assert env["CM_DATASET_PREPROCESSED_PATH"] == "judged"
