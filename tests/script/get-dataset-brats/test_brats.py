"""The made-up heads, and the look at a folder with the real BraTS 2019."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from modelzoo.volumes import brains, made_cases
from support import LIB

SCRIPT = forms.SCRIPT / "get-dataset-brats"
customize = lab.module_of(SCRIPT / "customize.py")
KITS19 = forms.SCRIPT / "get-dataset-kits19/customize.py"

CASES = ("HGG/BraTS19_A_1", "LGG/BraTS19_B_1")


def written(root: Path, *cases: str, suffix: str = ".nii.gz") -> Path:
    """A folder laid out as BraTS 2019 is, with files that hold nothing of use."""
    for grade in ("HGG", "LGG"):
        (root / grade).mkdir(parents=True, exist_ok=True)
    for case in cases:
        (root / case).mkdir()
        for part in customize.PARTS:
            name = f"{Path(case).name}_{part}{suffix}"
            (root / case / name).write_bytes(b"x")
    return root


def refusal(folder: Path, cases: tuple[str, ...] = CASES) -> Error:
    with pytest.raises(Error) as caught:
        customize.check(customize.cases_folder(str(folder)), cases, "the benchmark")
    return caught.value


def test_the_layout_is_that_of_brats() -> None:
    data, facts = forms.brains() / "data", json.loads((forms.brains() / "dataset.json").read_text())
    cases = (forms.brains() / "cases.txt").read_text().split()
    assert len(cases) == facts["count"] == 67
    assert sum(case.startswith("LGG/") for case in cases) == 13
    found = customize.survey(str(data), cases)
    assert (found.counts, found.lacking) == ({"HGG": 54, "LGG": 13}, [])
    first = next(brains.cases(1, 19))
    for number, name in enumerate((*brains.MODALITIES, "seg")):
        image: Any = nibabel.load(data / cases[0] / f"{Path(cases[0]).name}_{name}.nii.gz")
        np.testing.assert_allclose(image.header["pixdim"][1:4], 1.0)
        expected = first.labels if name == "seg" else first.images[number]
        np.testing.assert_array_equal(np.asarray(image.dataobj), expected.T)


def test_a_seed_makes_the_same_cases_however_many() -> None:
    some, more = list(brains.cases(2, 5)), list(brains.cases(5, 5))
    np.testing.assert_array_equal(some[1].images, more[1].images)
    assert (next(brains.cases(1, 6)).images != some[0].images).any()
    assert [case.grade for case in more] == ["HGG"] * 4 + ["LGG"]


def test_tumours_have_the_parts_and_the_labels_of_brats() -> None:
    rimless = 0
    for case in brains.cases(20, 19):
        assert set(np.unique(case.labels)) <= {0, 1, 2, 4}
        assert (case.labels == brains.SWELLING).any()
        assert not case.labels[(case.images == 0).all(axis=0)].any(), "nothing beside the brain"
        rimless += not (case.labels == brains.ENHANCING).any()
        assert case.grade == "LGG" or (case.labels == brains.ENHANCING).any()
    assert 0 < rimless < 4, "some cases of low grade have no rim"


def test_the_benchmark_has_the_67_cases_of_fold_1() -> None:
    cases = customize.shared.listed(str(SCRIPT))
    assert len(set(cases)) == 67
    assert sum(case.startswith("LGG/") for case in cases) == 14
    assert (cases[0], cases[-1]) == ("HGG/BraTS19_2013_13_1", "LGG/BraTS19_TCIA13_630_1")
    assert sum(customize.GRADES.values()) == 335


def test_whole_cases_are_counted_and_their_files_relied_on(tmp_path: Path) -> None:
    archive = written(tmp_path / customize.ARCHIVE, *CASES, "HGG/BraTS19_C_1")
    (archive / "HGG/BraTS19_C_1/BraTS19_C_1_t2.nii.gz").unlink()
    folder = customize.cases_folder(str(tmp_path))
    assert folder == str(archive), "the folder above it will do"
    assert customize.check(folder, CASES, "the benchmark").line(2, "the benchmark") == (
        "3 of 335 cases (2 HGG, 1 LGG); the 2 that the benchmark needs are whole; "
        "files that others lack: 1, not needed here"
    )
    assert len(customize.files(folder, CASES[0])) == 5


def test_what_is_missing_is_counted_and_named(tmp_path: Path) -> None:
    written(tmp_path, CASES[0])
    (tmp_path / CASES[0] / "BraTS19_A_1_flair.nii.gz").write_bytes(b"")
    error = refusal(tmp_path)
    assert "lacks 6 of the 10 files that the benchmark needs" in error.message
    assert error.context[0] == "found 1 of 335 cases: 1 HGG, 0 LGG"
    assert error.context[1].endswith("HGG/BraTS19_A_1/BraTS19_A_1_flair.nii.gz")
    assert error.context[-1] == "..."
    assert "register at https://www.med.upenn.edu/cbica/brats2019" in error.hint


def listing(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """The env of a run for calibration, with a list of ``names`` in the rules' way of writing."""
    path = folder / "list.txt"
    path.write_text("".join(f"{name.replace('/', '__')}\n" for name in names))
    return {
        "CM_BRATS_PATH": str(folder),
        "CM_DATASET_TYPE": "calibration",
        "CM_CALIBRATION_LIST_FILE_WITH_PATH": str(path),
    }


def test_calibration_takes_the_cases_of_the_rules_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [
        f"{'LGG' if number % 4 == 3 else 'HGG'}/BraTS19_2013_{number}_1" for number in range(40)
    ]
    written(tmp_path, *cases, "HGG/BraTS19_A_1")
    env = listing(tmp_path, cases)
    monkeypatch.chdir(tmp_path)
    assert len(customize.preprocess({"env": env})["relies_on"]) == 5 * 40
    assert "(31 HGG, 10 LGG); the 40 that calibration needs are whole" in capsys.readouterr().out
    customize.postprocess({"env": env})
    assert Path(env["CM_DATASET_CASES_FILE_PATH"]).read_text().split() == cases
    assert (env["CM_CALIBRATION_DATASET_PATH"], env["CM_DATASET_SIZE"]) == (str(tmp_path), "40")
    (tmp_path / cases[3] / f"{Path(cases[3]).name}_t2.nii.gz").unlink()
    with pytest.raises(Error, match="lacks 1 of the 200 files that calibration needs") as caught:
        customize.preprocess({"env": env})
    assert caught.value.context[1].endswith(f"{Path(cases[3]).name}_t2.nii.gz")


@pytest.mark.parametrize(
    ("line", "told"),
    [("", "it names 39"), ("HGG/BraTS19_B_1", "line 40 says"), ("HGG__../../etc", "line 40 says")],
)
def test_another_list_of_calibration_cases_is_refused(tmp_path: Path, line: str, told: str) -> None:
    env = listing(written(tmp_path), [f"HGG__BraTS19_A_{number}" for number in range(39)])
    with open(env["CM_CALIBRATION_LIST_FILE_WITH_PATH"], "a", encoding="utf-8") as file:
        file.write(line)
    with pytest.raises(Error, match=f"is not a list of 40 cases: .*{told}"):
        customize.preprocess({"env": env})


def test_the_list_is_downloaded_and_checked(home: Any, tmp_path: Path) -> None:
    cases = [f"HGG/BraTS19_B_{number}" for number in range(40)]
    path = Path(listing(written(tmp_path, *cases), cases)["CM_CALIBRATION_LIST_FILE_WITH_PATH"])
    words = (
        *("run", "script", "--tags=get,dataset,brats,original,_calibration"),
        *(f"--brats_path={tmp_path}", f"--env.CM_PACKAGE_URL={path}"),
        *("--env.CM_PACKAGE_URL1=", "--quiet", "--out=json"),
    )
    assert home.cm(*words).json["code"] == "checksum-mismatch", "it is not the list of the rules"
    checksum = hashlib.md5(path.read_bytes()).hexdigest()
    done = home.cm(*words, f"--env.CM_CALIBRATION_LIST_CHECKSUM={checksum}").json
    assert done["return"] == 0, done
    assert done["new_env"]["CM_CALIBRATION_DATASET_PATH"] == str(tmp_path)
    assert Path(done["new_env"]["CM_DATASET_CASES_FILE_PATH"]).read_text().split() == cases


def test_images_that_were_unpacked_are_recognised(tmp_path: Path) -> None:
    written(tmp_path, *CASES, suffix=".nii")
    assert "pack them again, gzip -r HGG LGG" in refusal(tmp_path).hint


@pytest.mark.parametrize(
    ("folders", "told"),
    [((), "neither HGG nor LGG in it"), (("HGG",), "no LGG in it"), (None, "there is no folder")],
)
def test_another_folder_is_refused(tmp_path: Path, folders: Any, told: str) -> None:
    given = tmp_path / "given"
    if folders is not None:
        given.mkdir()
        for name in folders:
            (given / name).mkdir()
    assert told in refusal(given).message


def test_without_a_folder_it_says_where_the_data_is() -> None:
    env: dict[str, Any] = {"CM_DATASET_FORM": ""}
    with pytest.raises(Error, match="has to be fetched by you") as caught:
        customize.preprocess({"env": env})
    assert "--adr.original-dataset.brats_path=DIR" in caught.value.hint


def test_the_users_folder_and_the_list_are_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(tmp_path / "data", *customize.shared.listed(str(SCRIPT)))
    monkeypatch.chdir(tmp_path)
    env: dict[str, Any] = {"CM_BRATS_PATH": str(data), "CM_TMP_CURRENT_SCRIPT_PATH": str(SCRIPT)}
    env["CM_DATASET_TYPE"] = "validation"
    assert len(customize.preprocess({"env": env})["relies_on"]) == 5 * 67
    assert "67 of 335 cases (53 HGG, 14 LGG)" in capsys.readouterr().out
    assert customize.postprocess({"env": env})["version"] == "2019"
    assert (env["CM_DATASET_PATH"], env["CM_DATASET_SIZE"]) == (str(data), "67")
    assert Path(env["CM_DATASET_CASES_FILE_PATH"]).read_text().split()[0] == "HGG/BraTS19_2013_13_1"


@pytest.mark.parametrize(
    ("name", "script"), [("brats", customize.BRATS), ("kits19", lab.module_of(KITS19).KITS19)]
)
def test_made_up_cases_for_calibration_are_others(name: str, script: Any, tmp_path: Path) -> None:
    parts = made_cases.DATASETS[name].parts
    words = ["--dataset", name, "--part", "calibration", "--count", "1"]
    assert made_cases.main([*words, "--out", str(tmp_path)]) == 0
    own = json.loads((tmp_path / "dataset.json").read_text())
    text = (LIB / "modelzoo/volumes/train.py").read_text(encoding="utf-8")
    trained = re.findall(r"seeds=\((\d+), (\d+)\)", text)
    assert len(trained) == 2
    judged, _ = parts["validation"]
    assert own["seed"] not in (judged, *(int(seed) for pair in trained for seed in pair))
    assert parts["calibration"] == (own["seed"], script.calibration_cases)
