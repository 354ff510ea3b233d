"""The calibration list: either of the two layouts, 500 names, nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from cmbench.errors import Error

customize = lab.module_of(lab.SCRIPT / "get-dataset-imagenet-calibration" / "customize.py")
KEY = "CM_MLPERF_IMAGENET_CALIBRATION_LIST_FILE_WITH_PATH"
NAMES = [f"ILSVRC2012_val_{7 * number:08d}.JPEG" for number in range(1, 501)]


@pytest.mark.parametrize("option", ["mlperf.option1", "mlperf.option2"])
def test_the_list_is_fetched_and_checked(home: Any, tmp_path: Path, option: str) -> None:
    second = option.endswith("2")
    lines = [f"{name} {line}" if second else name for line, name in enumerate(NAMES)]
    path = tmp_path / "list.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = (
        *("run", "script", f"--tags=get,dataset,imagenet,calibration,_{option}"),
        *(f"--env.CM_PACKAGE_URL={path}", "--env.CM_PACKAGE_URL1=", "--quiet", "--out=json"),
    )
    assert home.cm(*words).json["code"] == "checksum-mismatch"
    checksum = hashlib.md5(path.read_bytes()).hexdigest()
    done = home.cm(*words, f"--env.CM_IMAGENET_CALIBRATION_CHECKSUM={checksum}").json
    assert done["return"] == 0, done
    assert Path(done["new_env"][KEY]).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (NAMES[:-1], "it names 499"),
        ([*NAMES[:-1], NAMES[0]], "it names 499"),
        ([*NAMES, "cat.JPEG"], 'line 501 says "cat.JPEG"'),
        (["<!DOCTYPE", "html>"], 'line 1 says "<!DOCTYPE"'),
    ],
)
def test_another_file_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text("\n".join(names), encoding="utf-8")
    with pytest.raises(Error, match=message):
        customize.postprocess({"env": {KEY: str(path)}})
