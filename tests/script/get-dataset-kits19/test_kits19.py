"""The made-up kidneys, and the check of a folder with the real cases."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from modelzoo.volumes import kidneys

SCRIPT = forms.SCRIPT / "get-dataset-kits19"
customize = lab.module_of(SCRIPT / "customize.py")


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
    cases = customize.shared.listed(str(SCRIPT))
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
        customize.check(folder, cases, "the benchmark")
    assert "starter_code.get_imaging" in caught.value.hint
    for case in cases[:2]:
        (tmp_path / "data" / case / "imaging.nii.gz").write_bytes(b"x")
    assert len(customize.check(folder, cases, "the benchmark")) == 4


def test_without_a_folder_it_says_where_the_data_is() -> None:
    env: dict[str, Any] = {"CM_DATASET_FORM": ""}
    with pytest.raises(Error, match="has to be fetched by you") as caught:
        customize.preprocess({"env": env})
    assert "neheller/kits19" in caught.value.hint


def test_calibration_takes_the_cases_of_the_rules_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [f"case_{number:05d}" for number in range(39, 0, -2)]
    for case in cases:
        (tmp_path / "data" / case).mkdir(parents=True)
        for name in customize.NAMES:
            (tmp_path / "data" / case / name).write_bytes(b"x")
    listing = tmp_path / "list.txt"
    listing.write_text("\n".join(cases))
    env: dict[str, Any] = {
        "CM_KITS19_PATH": str(tmp_path),
        "CM_DATASET_TYPE": "calibration",
        "CM_CALIBRATION_LIST_FILE_WITH_PATH": str(listing),
    }
    monkeypatch.chdir(tmp_path)
    assert len(customize.preprocess({"env": env})["relies_on"]) == 40
    customize.postprocess({"env": env})
    assert Path(env["CM_DATASET_CASES_FILE_PATH"]).read_text().split() == cases
    assert env["CM_CALIBRATION_DATASET_PATH"] == env["CM_DATASET_PATH"] == str(tmp_path / "data")
    for case in cases[:2]:
        (tmp_path / "data" / case / "imaging.nii.gz").unlink()
    with pytest.raises(Error, match="lacks 2 of the 40 files that calibration needs") as caught:
        customize.preprocess({"env": env})
    assert [Path(line).parent.name for line in caught.value.context] == cases[:2]
    listing.write_text("\n".join([*cases[:-1], "../case_00001"]))
    with pytest.raises(Error, match="is not a list of 20 cases: line 20"):
        customize.preprocess({"env": env})


def test_the_list_is_downloaded_and_checked(home: Any, tmp_path: Path) -> None:
    cases = [f"case_{number:05d}" for number in range(50, 70)]
    for case in cases:
        (tmp_path / "kits19" / case).mkdir(parents=True)
        for name in customize.NAMES:
            (tmp_path / "kits19" / case / name).write_bytes(b"x")
    listing = tmp_path / "list.txt"
    listing.write_text("\n".join(cases))
    words = (
        *("run", "script", "--tags=get,dataset,kits19,original,_calibration"),
        *(f"--kits19_path={tmp_path / 'kits19'}", f"--env.CM_PACKAGE_URL={listing}"),
        *("--env.CM_PACKAGE_URL1=", "--quiet", "--out=json"),
    )
    assert home.cm(*words).json["code"] == "checksum-mismatch", "it is not the list of the rules"
    checksum = hashlib.md5(listing.read_bytes()).hexdigest()
    done = home.cm(*words, f"--env.CM_CALIBRATION_LIST_CHECKSUM={checksum}").json
    assert done["return"] == 0, done
    assert done["new_env"]["CM_DATASET_SIZE"] == "20"
    assert done["new_env"]["CM_CALIBRATION_DATASET_PATH"] == str(tmp_path / "kits19")
