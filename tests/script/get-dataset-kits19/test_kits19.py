"""The made-up kidneys, and the check of a folder with the real cases."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error

SCRIPT = forms.SCRIPT / "get-dataset-kits19"
customize = lab.module_of(SCRIPT / "customize.py")
if str(SCRIPT / "src") not in sys.path:
    sys.path.insert(0, str(SCRIPT / "src"))
import kidneys  # noqa: E402


def test_the_layout_is_that_of_kits19() -> None:
    folders = sorted((forms.kidneys() / "data").iterdir())
    assert len(folders) == json.loads((forms.kidneys() / "dataset.json").read_text())["count"] == 43
    image = nibabel.load(folders[0] / "imaging.nii.gz")
    labels = np.asarray(nibabel.load(folders[0] / "segmentation.nii.gz").dataobj)
    assert image.shape == labels.shape
    assert set(np.unique(labels)) == {0, 1, 2}
    first = next(kidneys.cases(1, 19))
    np.testing.assert_allclose(image.header["pixdim"][1:4], first.spacing, rtol=1e-6)


def test_a_seed_makes_the_same_cases_however_many() -> None:
    some, more = list(kidneys.cases(2, 5)), list(kidneys.cases(3, 5))
    np.testing.assert_array_equal(some[1].image, more[1].image)
    other = next(kidneys.cases(1, 6))
    assert other.image.shape != some[0].image.shape or (other.image != some[0].image).any()
    assert all((case.labels == kidneys.TUMOR).any() for case in more)


def test_the_rules_have_43_cases_one_of_them_twice() -> None:
    cases = customize.listed(str(SCRIPT))
    assert len(set(cases)) == 43
    assert "case_00185" in cases
    assert customize.COPIES == {"case_00400": "case_00185"}


def test_a_checkout_without_its_images_is_refused(tmp_path: Path) -> None:
    cases = ["case_00003", "case_00185", "case_00400"]
    for case in cases[:2]:
        (tmp_path / "data" / case).mkdir(parents=True)
        (tmp_path / "data" / case / "segmentation.nii.gz").write_bytes(b"x")
    folder = customize.cases_folder(str(tmp_path))
    with pytest.raises(Error, match="lacks 2 of the 4 files") as caught:
        customize.check(folder, cases)
    assert "starter_code.get_imaging" in caught.value.hint
    for case in cases[:2]:
        (tmp_path / "data" / case / "imaging.nii.gz").write_bytes(b"x")
    assert len(customize.check(folder, cases)) == 4


def test_without_a_folder_it_says_where_the_data_is() -> None:
    env: dict[str, Any] = {"CM_DATASET_FORM": ""}
    with pytest.raises(Error, match="has to be fetched by you") as caught:
        customize.preprocess({"env": env})
    assert "neheller/kits19" in caught.value.hint
