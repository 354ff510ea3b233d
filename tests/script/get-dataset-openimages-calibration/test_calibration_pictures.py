"""Calibration images of Open Images and of COCO: fetched by the rules' list, or the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import benchmark_lab as lab
from cmbench.errors import Error
from support import served

calibration_pictures = lab.hooks("calibration_pictures")

NAMES = [f"{number:012d}.jpg" for number in range(calibration_pictures.COUNT)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with the list and some of the images, and the address that serves it."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "list.txt").write_text("\n".join(NAMES))
    for name in NAMES[:3]:
        (folder / name).write_bytes(name.encode())
    with served(folder) as url:
        yield folder, url


@pytest.mark.parametrize("data", ["openimages", "coco"])
def test_what_the_list_names_is_downloaded_and_kept(
    data: str, home: Any, tmp_path: Path, site: tuple[Path, str]
) -> None:
    folder, url = site
    store = tmp_path / "store"
    store.mkdir()
    for name in NAMES[2:]:
        (store / name).write_bytes(b"mine")
    digest = hashlib.md5((folder / "list.txt").read_bytes()).hexdigest()
    words = (
        f"--tags=get,dataset,{data},calibration",
        f"--store={store}",
        f"--env.CM_CALIBRATION_URL={url}/",
        f"--env.CM_PACKAGE_URL={url}/list.txt",
        f"--env.CM_CALIBRATION_LIST_CHECKSUM={digest}",
        "--quiet",
        "--out=json",
    )
    done = home.cm("run", "script", *words).json
    assert done["return"] == 0, done
    assert done["new_env"]["CM_CALIBRATION_IMAGES_PATH"] == str(store)
    assert Path(done["new_env"]["CM_CALIBRATION_LIST_FILE_WITH_PATH"]).name == "list.txt"
    assert (store / NAMES[1]).read_bytes() == NAMES[1].encode()
    assert (store / NAMES[2]).read_bytes() == b"mine", "what is there is not fetched again"
    assert home.cm("run", "script", *words).json["cached"]


def test_a_folder_with_images_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAMES[0]).write_bytes(b"x")
    (tmp_path / NAMES[1]).write_bytes(b"")
    (tmp_path / "list.txt").write_text("\n".join(NAMES))
    env = {
        "CM_CALIBRATION_LIST_FILE_WITH_PATH": str(tmp_path / "list.txt"),
        "CM_CALIBRATION_GIVEN_IMAGES_PATH": str(tmp_path),
    }
    with pytest.raises(Error, match="499 of 500 calibration images are not in") as caught:
        calibration_pictures.provide({"env": env})
    assert f"--store={tmp_path}" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [("a.jpg\nb.jpg", "it names 2"), ("../a.jpg", 'line 1 says "../a.jpg"'), ("<p>", '"<p>"')],
)
def test_another_list_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(text)
    env = {"CM_CALIBRATION_LIST_FILE_WITH_PATH": str(tmp_path / "list.txt")}
    with pytest.raises(Error, match="is not a list of 500 images") as caught:
        calibration_pictures.provide({"env": env})
    assert said in caught.value.message
