"""ImageNet's validation images: found in every layout, unpacked, counted, what lacks is named."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from cmbench.errors import Error

customize = lab.module_of(lab.SCRIPT / "get-dataset-imagenet-val" / "customize.py")
COUNT = 6
NAMES = [f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, COUNT + 1)]


def images(folder: Path, names: list[str] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        (folder / name).write_bytes(name.encode())
    return folder


def archive(path: Path) -> Path:
    with tarfile.open(path, "w") as file:
        for image in sorted(images(path.parent / "packed").iterdir()):
            file.add(image, image.name)
    return path


def found(home: Any, *words: str) -> dict[str, Any]:
    tags = f"--tags=get,dataset,imagenet,original,val,_size.{COUNT}"
    done: dict[str, Any] = home.cm("run", "script", tags, *words, "--quiet", "--out=json").json
    return done


@pytest.mark.parametrize("inside", ["", "val", "ILSVRC2012_img_val", "ILSVRC/Data/CLS-LOC/val"])
def test_images_are_found_where_the_sources_put_them(tmp_path: Path, inside: str) -> None:
    folder = images(tmp_path / inside)
    assert customize.find(str(tmp_path), COUNT) == str(folder)


def test_images_in_folders_of_their_classes_are_found(tmp_path: Path) -> None:
    images(tmp_path / "val" / "n01440764", NAMES[:3])
    images(tmp_path / "val" / "n01443537", NAMES[3:])
    images(tmp_path / "train" / "n01440764", ["n01440764_18.JPEG"])
    assert customize.find(str(tmp_path), COUNT) == str(tmp_path / "val")


def test_what_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    images(tmp_path, NAMES[:4])
    (tmp_path / NAMES[1]).write_bytes(b"")
    with pytest.raises(Error, match="3 of the 6 images are missing or empty in") as caught:
        customize.find(str(tmp_path), COUNT)
    assert caught.value.context[0] == f"missing: {NAMES[1]}, {NAMES[4]}, {NAMES[5]}"
    with pytest.raises(Error, match=r"has no image ILSVRC2012_val_00000001\.JPEG and so on"):
        customize.find(str(images(tmp_path / "else", ["cat.JPEG"])), COUNT)


def test_all_50000_are_counted(tmp_path: Path) -> None:
    images(tmp_path, [customize.NAME.format(50000), *NAMES])
    with pytest.raises(Error, match="49993 of the 50000 images are missing"):
        customize.find(str(tmp_path), 50000)


def test_a_folder_is_taken_and_watched(home: Any, tmp_path: Path) -> None:
    folder = images(tmp_path / "imagenet")
    done = found(home, f"--imagenet_path={folder}")
    env = done["new_env"]
    assert env["CM_DATASET_IMAGENET_VAL_PATH"] == env["CM_DATASET_PATH"] == str(folder)
    assert (env["CM_DATASET_SIZE"], env["CM_DATASET_VER"]) == (str(COUNT), "2012")
    assert found(home, f"--imagenet_path={folder}")["cached"]
    (folder / NAMES[2]).unlink()
    assert found(home, f"--imagenet_path={folder}")["code"] == "data-incomplete"


@pytest.mark.parametrize("given", ["ILSVRC2012_img_val.tar", ""])
def test_the_archive_is_checked_and_unpacked(home: Any, tmp_path: Path, given: str) -> None:
    (tmp_path / "data").mkdir()
    path = archive(tmp_path / "data" / "ILSVRC2012_img_val.tar")
    words = [f"--imagenet_path={tmp_path / 'data' / given}"]
    assert found(home, *words)["code"] == "checksum-mismatch"
    checksum = hashlib.md5(path.read_bytes()).hexdigest()
    done = found(home, *words, f"--env.CM_IMAGENET_ARCHIVE_CHECKSUM={checksum}")
    folder = Path(done["new_env"]["CM_DATASET_IMAGENET_VAL_PATH"])
    assert sorted(each.name for each in folder.iterdir()) == NAMES
    assert folder.is_relative_to(home.cm_repos)


def test_a_few_images_need_no_registration(home: Any, tmp_path: Path) -> None:
    path = archive(tmp_path / "sample.tar")
    checksum = hashlib.md5(path.read_bytes()).hexdigest()
    done = found(
        home,
        f"--env.CM_IMAGENET_SAMPLE_URL=file://{path}",
        "--env.CM_IMAGENET_SAMPLE_URL1=",
        f"--env.CM_IMAGENET_SAMPLE_CHECKSUM={checksum}",
    )
    assert done["new_env"]["CM_DATASET_SIZE"] == str(COUNT)


@pytest.mark.parametrize(
    ("env", "code", "message"),
    [
        ({"CM_IMAGENET_COUNT": "50000"}, "data-needed", "may be used after a registration"),
        ({"CM_IMAGENET_COUNT": "501"}, "data-needed", "has to be fetched by you"),
        ({"CM_IMAGENET_COUNT": "0"}, "bad-value", "_size.0: a number from 1 to 50000"),
        ({"CM_IMAGENET_COUNT": "50001"}, "bad-value", "_size.50001"),
        ({"CM_IMAGENET_COUNT": "few"}, "bad-value", "_size.few"),
        (
            {"CM_IMAGENET_COUNT": "5", "IMAGENET_PATH": "/nowhere/at/all"},
            "file-not-found",
            "there is no /nowhere/at/all",
        ),
    ],
)
def test_what_cannot_be(env: dict[str, str], code: str, message: str) -> None:
    with pytest.raises(Error, match=message) as caught:
        customize.preprocess({"env": dict(env)})
    assert caught.value.code == code
    if code == "data-needed":
        assert any("https://image-net.org/download.php" in line for line in caught.value.context)
