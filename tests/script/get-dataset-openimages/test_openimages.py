"""Open Images: downloaded from a server, or the user's folder; counted either way."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import benchmark_forms as forms
import benchmark_lab as lab
from cmbench.errors import Error
from support import LIB, served

pictures = lab.hooks("pictures")

SCRIPT = forms.SCRIPT / "get-dataset-openimages"
customize = lab.module_of(SCRIPT / "customize.py")
fetching = lab.module_of(LIB / "modelzoo/datasets/openimages" / "fetch.py")
NAMES = [f"{number:016x}.jpg" for number in range(5)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address that serves it."""
    folder = tmp_path / "site"
    (folder / "validation").mkdir(parents=True)
    for name in NAMES:
        (folder / "validation" / name).write_bytes(name.encode() * 40)
    with served(folder) as url:
        yield folder, url


def listing(path: Path, count: int = len(NAMES)) -> Path:
    """A list in the layout of the benchmark's."""
    images = [
        {"id": k + 1, "file_name": name, "width": 8, "height": 8} for k, name in enumerate(NAMES)
    ]
    told = {"images": images[:count], "annotations": [], "categories": []}
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def test_images_and_list_are_downloaded_and_kept(
    home: Any, tmp_path: Path, site: tuple[Path, str]
) -> None:
    folder, url = site
    archive = folder / "openimages-mlperf_annotations_2.1.json.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(listing(tmp_path / "x.json"), "openimages-mlperf.json")
    store = tmp_path / "store"
    store.mkdir()
    (store / NAMES[1]).write_bytes(b"mine")
    done = home.cm(
        "run",
        "script",
        "--tags=get,dataset,openimages,original,_size.4",
        f"--store={store}",
        f"--env.CM_OPENIMAGES_URL={url}/validation/",
        f"--env.CM_PACKAGE_URL={url}/{archive.name}",
        f"--env.CM_OPENIMAGES_LIST_CHECKSUM={hashlib.md5(archive.read_bytes()).hexdigest()}",
        "--quiet",
        "--out=json",
    ).json
    assert done["return"] == 0, done
    env = done["new_env"]
    assert (env["CM_DATASET_SIZE"], env["CM_DATASET_IMAGES_PATH"]) == ("4", str(store))
    assert sorted(path.name for path in store.iterdir()) == NAMES[:4]
    assert (store / NAMES[0]).read_bytes() == (folder / "validation" / NAMES[0]).read_bytes()
    assert (store / NAMES[1]).read_bytes() == b"mine", "what is there is not fetched again"
    assert Path(env["CM_DATASET_ANNOTATIONS_FILE_PATH"]).name == "openimages-mlperf.json"


def test_an_image_that_the_server_lacks_is_named(
    tmp_path: Path, site: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"url": f"{site[1]}/validation/", "names": [*NAMES, "none.jpg"]}
    path = tmp_path / "list.json"
    path.write_text(json.dumps({**told, "folder": str(tmp_path / "to")}))
    assert fetching.main([str(path)]) == 1
    printed = capsys.readouterr().err
    assert "none.jpg: HTTP Error 404" in printed
    assert "of 6 files are in" in printed
    assert not list((tmp_path / "to").glob("*.part"))


def test_a_folder_with_images_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAMES[0]).write_bytes(b"x")
    (tmp_path / NAMES[1]).write_bytes(b"")
    with pytest.raises(Error, match="4 of 5 images are not in") as caught:
        pictures.check(str(tmp_path), NAMES, "images")
    assert f"--store={tmp_path}" in caught.value.hint
    assert caught.value.context[0].startswith(f"missing: {NAMES[1]}, {NAMES[2]}")


def test_another_list_is_refused(tmp_path: Path) -> None:
    path = str(listing(tmp_path / "list.json"))
    with pytest.raises(Error, match="lists 5 images with 0 boxes, the benchmark has 24781"):
        customize.file_names(path, 0)
    assert customize.file_names(path, 2) == NAMES[:2]
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(Error, match="has no annotations in COCO's format"):
        customize.file_names(path, 0)
    with pytest.raises(Error, match=r"has no openimages-mlperf\.json"):
        customize.find_annotations({}, str(tmp_path))
