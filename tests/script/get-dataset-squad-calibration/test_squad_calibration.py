"""The rules' two lists for BERT: fetched, and taken only when they are what they should be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from cmbench.errors import Error
from support import served

customize = lab.module_of(lab.SCRIPT / "get-dataset-squad-calibration" / "customize.py")
KEY = "CM_MLPERF_SQUAD_CALIBRATION_LIST_FILE_WITH_PATH"
FEATURES = [str(number) for number in range(0, 10833, 109)]
QUESTIONS = [f"56be{number:020x}" for number in range(100)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder for lists, and the address that serves it."""
    folder = tmp_path / "site"
    folder.mkdir()
    with served(folder) as url:
        yield folder, url


@pytest.mark.parametrize(
    ("option", "lines", "kind"),
    [("mlperf.option1", FEATURES, "one"), ("mlperf.option2", QUESTIONS, "two")],
)
def test_the_list_is_fetched_from_the_second_address_and_checked(
    home: Any, site: tuple[Path, str], option: str, lines: Sequence[str], kind: str
) -> None:
    folder, url = site
    path = folder / "list.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = (
        *("run", "script", f"--tags=get,dataset,squad,calibration,_{option}"),
        *(f"--env.CM_PACKAGE_URL={url}/none.txt", f"--env.CM_PACKAGE_URL1={url}/list.txt"),
        *("--quiet", "--out=json"),
    )
    refused = home.cm(*words).json
    assert refused["code"] == "checksum-mismatch"
    checksum = hashlib.md5(path.read_bytes()).hexdigest()
    done = home.cm(*words, f"--env.CM_SQUAD_CALIBRATION_CHECKSUM={checksum}").json
    assert done["return"] == 0, done
    assert Path(done["new_env"][KEY]).read_bytes() == path.read_bytes()
    assert done["new_env"]["CM_DATASET_SQUAD_CALIBRATION_SET"] == kind


@pytest.mark.parametrize(
    ("kind", "lines", "message"),
    [
        ("one", FEATURES[:-1], "not a list of 100 numbers of features: it names 99"),
        ("one", [*FEATURES[:-1], FEATURES[0]], "it names 99"),
        ("one", [*FEATURES, "-1"], 'line 101 says "-1"'),
        ("one", ["007", *FEATURES[1:]], 'line 1 says "007"'),
        ("one", QUESTIONS, 'line 1 says "56be'),
        ("two", QUESTIONS[1:], "not a list of 100 ids of questions: it names 99"),
        ("two", FEATURES, 'line 1 says "0"'),
        ("two", ["<!DOCTYPE html>"], 'line 1 says "<!DOCTYPE"'),
    ],
)
def test_another_file_is_refused(
    tmp_path: Path, kind: str, lines: Sequence[str], message: str
) -> None:
    path = tmp_path / "list.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    env = {KEY: str(path), "CM_DATASET_SQUAD_CALIBRATION_SET": kind}
    with pytest.raises(Error) as caught:
        customize.postprocess({"env": env})
    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert "--env.CM_PACKAGE_URL=FILE" in caught.value.hint
