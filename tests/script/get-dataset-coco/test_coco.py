"""COCO's validation part: downloaded, in archives, or unpacked; counted each way."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error

SCRIPT = forms.SCRIPT / "get-dataset-coco"
customize = lab.module_of(SCRIPT / "customize.py")


def unpacked(root: Path, listed: int, there: int) -> Path:
    """The layout of COCO with small files."""
    (root / "annotations").mkdir(parents=True)
    (root / "val2017").mkdir()
    names = [f"{number:012d}.jpg" for number in range(listed)]
    images = [{"id": k, "file_name": name, "width": 2, "height": 2} for k, name in enumerate(names)]
    told = {"images": images, "annotations": [], "categories": []}
    (root / "annotations" / "instances_val2017.json").write_text(json.dumps(told))
    for name in names[:there]:
        (root / "val2017" / name).write_bytes(b"jpg")
    return root


def test_a_copy_of_the_user_is_counted(home: Any, tmp_path: Path) -> None:
    root = unpacked(tmp_path / "coco", 5000, 5000)
    words = ("--tags=get,dataset,coco,original", f"--coco_path={root}", "--quiet", "--out=json")
    done = home.cm("run", "script", *words).json
    assert done["return"] == 0, done
    env = done["new_env"]
    assert env["CM_DATASET_SIZE"] == "5000"
    assert env["CM_DATASET_IMAGES_PATH"] == str(root / "val2017")
    assert home.cm("run", "script", *words).json["cached"]
    (root / "val2017" / "000000004999.jpg").unlink()
    again = home.cm("run", "script", *words).json
    assert again["code"] == "data-incomplete"
    assert "1 of 5000 images are not in" in again["error"]


def test_archives_are_checked_and_unpacked(home: Any, tmp_path: Path) -> None:
    root = unpacked(tmp_path / "coco", 5000, 5000)
    source = tmp_path / "archives"
    source.mkdir()
    sums = {}
    for name, part in (("val2017", "val2017"), ("annotations_trainval2017", "annotations")):
        with zipfile.ZipFile(source / f"{name}.zip", "w") as file:
            for path in sorted((root / part).iterdir()):
                file.write(path, f"{part}/{path.name}")
        sums[part] = hashlib.md5((source / f"{name}.zip").read_bytes()).hexdigest()
    words = ("--tags=get,dataset,coco,original", f"--from={source}", "--quiet", "--out=json")
    wrong = home.cm("run", "script", *words).json
    assert wrong["code"] == "checksum-mismatch", wrong
    done = home.cm(
        "run",
        "script",
        *words,
        f"--env.CM_COCO_CHECKSUM_DATA={sums['val2017']}",
        f"--env.CM_COCO_CHECKSUM_ANNOTATIONS={sums['annotations']}",
    ).json
    assert done["return"] == 0, done
    folder = Path(done["new_env"]["CM_DATASET_IMAGES_PATH"])
    assert folder.is_relative_to(home.cm_repos)
    assert len(list(folder.iterdir())) == 5000


def test_what_is_not_cocos_validation_part_is_refused(tmp_path: Path) -> None:
    root = unpacked(tmp_path / "coco", 10, 10)
    path = str(root / "annotations" / "instances_val2017.json")
    with pytest.raises(Error, match="lists 10 images with 0 boxes, COCO's validation part has"):
        customize.file_names(path)
    with pytest.raises(Error, match="is not a list of COCO") as caught:
        customize.file_names(str(tmp_path / "none.json"))
    assert "--coco_path must name the folder above" in caught.value.hint
    with pytest.raises(Error, match=r"there is no file .*val2017\.zip") as caught:
        customize.preprocess({"env": {"CM_COCO_FROM": str(tmp_path)}})
    assert "--from" in caught.value.hint
