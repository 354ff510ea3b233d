"""Preprocessing of small cases laid out as KiTS19 is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest

from modelzoo.volumes import kits19
from support import LIB, Finished, run

PROGRAM = LIB / "modelzoo/volumes/preprocess.py"


def write_case(folder: Path, shape: tuple[int, ...], spacing: tuple[float, ...]) -> None:
    """A case whose values rise along the first axis, and whose lower half is kidney."""
    folder.mkdir(parents=True)
    values = np.broadcast_to(np.arange(shape[0])[:, None, None] * 10.0, shape)
    labels = np.zeros(shape, dtype=np.uint8)
    labels[shape[0] // 2 :] = 1
    affine = np.diag([*spacing, 1.0])
    for name, array in (("imaging", values.astype(np.int16)), ("segmentation", labels)):
        nibabel.save(nibabel.Nifti1Image(array, affine), folder / f"{name}.nii.gz")


def preprocess(folder: Path, *cases: str) -> Finished:
    """Run the program as its script does."""
    (folder / "out").mkdir(exist_ok=True)
    (folder / "cases.txt").write_text("\n".join(cases))
    command = [sys.executable, str(PROGRAM), "--dataset", "kits19", "--window", "16"]
    command += ["--cases", str(folder / "cases"), "--list", str(folder / "cases.txt")]
    return run([*command, "--name", "small", "--out", str(folder / "out")])


def test_voxels_are_resampled_and_values_normalised(tmp_path: Path) -> None:
    write_case(tmp_path / "cases" / "case_00001", (8, 16, 16), (3.2, 1.2, 1.2))
    assert preprocess(tmp_path, "case_00001").status == 0
    assert np.load(tmp_path / "out" / "shapes.npy").tolist() == [[1, 16, 16, 16]]
    samples = np.load(tmp_path / "out" / "samples.npy").reshape(16, 16, 16)
    # Twice as many slices, the first and the last where they were, the others between them.
    line = np.linspace(0, 70, 16)
    np.testing.assert_allclose(samples[:, 3, 3], (line - 101) / 76.9, atol=1e-5)
    labels = np.load(tmp_path / "out" / "labels.npy").reshape(16, 16, 16)
    assert labels.sum() == 8 * 256
    facts = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert (facts["count"], facts["window"]) == (1, 16)
    assert facts["cases"] == ["case_00001"]


def test_values_that_do_not_matter_are_clipped() -> None:
    values = kits19.normalised(np.array([-1000.0, -79.0, 101.0, 304.0, 3000.0]))
    expected = [(-79 - 101) / 76.9] * 2 + [0.0] + [(304 - 101) / 76.9] * 2
    np.testing.assert_allclose(values, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "expected"),
    # 16 is a window, 8 half of one, 4 a quarter: below it a rest is cropped.
    [(5, 16), (16, 16), (19, 16), (20, 24), (23, 24), (24, 24), (27, 24), (28, 32)],
)
def test_windows_with_half_overlap_fill_every_volume(size: int, expected: int) -> None:
    image = np.random.default_rng(1).normal(size=(size, 16, 16)).astype(np.float32)
    wide, labels = kits19.fitted((image, np.ones(image.shape, np.uint8)), (16, 16, 16))
    assert wide.shape == labels.shape == (expected, 16, 16)
    if size < 16:  # continued with its edge
        np.testing.assert_array_equal(wide[0], image[0])
        assert labels.all()
    elif expected > size:  # filled up
        assert (wide[-1] == np.float32(-2.2)).all()
        assert not labels[-1].any()
    else:  # cropped on both sides
        low = (size - expected) // 2
        np.testing.assert_array_equal(wide, image[low : low + expected])


def test_the_case_that_the_rules_have_twice_is_taken_from_its_original(tmp_path: Path) -> None:
    write_case(tmp_path / "cases" / "case_00185", (16, 16, 16), (1.6, 1.2, 1.2))
    assert preprocess(tmp_path, "case_00185", "case_00400").status == 0
    samples = np.load(tmp_path / "out" / "samples.npy").reshape(2, -1)
    np.testing.assert_array_equal(samples[0], samples[1])


def test_damaged_and_missing_cases_are_named(tmp_path: Path) -> None:
    case = tmp_path / "cases" / "case_00007"
    write_case(case, (16, 16, 16), (1.6, 1.2, 1.2))
    answer = preprocess(tmp_path, "case_00007", "case_00008")
    assert "case_00008/imaging.nii.gz and 1 more files" in answer.stderr
    path = case / "imaging.nii.gz"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    answer = preprocess(tmp_path, "case_00007")
    assert answer.status == 1
    assert "cannot read the case" in answer.stderr
    assert not (tmp_path / "out" / "dataset.json").exists()
