"""The labels of ImageNet: from the first mirror that has them, and all of them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from cmbench.errors import Error
from support import served

customize = lab.module_of(lab.SCRIPT / "get-dataset-imagenet-aux" / "customize.py")
LINES = [f"ILSVRC2012_val_{number:08d}.JPEG {number % 1000}" for number in range(1, 50001)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address that serves it."""
    folder = tmp_path / "site"
    folder.mkdir()
    with served(folder) as url:
        yield folder, url


def archive(path: Path, lines: list[str]) -> str:
    """An archive laid out like Caffe's; returns its MD5."""
    with tarfile.open(path, "w:gz", compresslevel=1) as file:
        for name, text in (("synsets.txt", "n01440764\n"), ("val.txt", "\n".join(lines))):
            about = tarfile.TarInfo(name)
            about.size = len(text)
            file.addfile(about, io.BytesIO(text.encode()))
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_a_mirror_that_packed_it_anew_is_taken_by_its_own_checksum(
    home: Any, site: tuple[Path, str]
) -> None:
    folder, url = site
    (folder / "first.tar.gz").write_bytes(b"an error page")
    checksum = archive(folder / "second.tar.gz", LINES)
    done = home.cm(
        "run",
        "script",
        "--tags=get,dataset-aux,imagenet-aux",
        f"--env.CM_PACKAGE_URL={url}/first.tar.gz",
        f"--env.CM_PACKAGE_URL1={url}/second.tar.gz",
        "--env.CM_PACKAGE_URL2=",
        f"--env.CM_IMAGENET_AUX_CHECKSUM1={checksum}",
        "--quiet",
        "--out=json",
    ).json
    assert done["return"] == 0, done
    labels = Path(done["new_env"]["CM_DATASET_AUX_LABELS_FILE_WITH_PATH"])
    assert labels.read_text().splitlines() == LINES
    assert labels.parent == Path(done["new_env"]["CM_DATASET_AUX_PATH"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (LINES[:-1], "has labels for 49999 images, not 50000"),
        ([*LINES[:-1], LINES[0]], "has labels for 49999 images"),
        ([*LINES[:-1], "ILSVRC2012_val_00050000.JPEG 1000"], ":50000: .* is not an image with its"),
        (["<html>"], ':1: "<html>" is not an image with its label'),
    ],
)
def test_a_list_that_is_not_whole_is_refused(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    path = tmp_path / "val.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(Error, match=message):
        customize.check(str(path))


def test_the_list_is_found_in_a_folder_of_the_archive(tmp_path: Path) -> None:
    inside = tmp_path / "caffe" / "data"
    inside.mkdir(parents=True)
    with pytest.raises(Error, match=r"has no val\.txt"):
        customize.find(str(tmp_path))
    (inside / "val_map.txt").write_text("")
    assert customize.find(str(tmp_path)) == (str(inside), str(inside / "val_map.txt"))
