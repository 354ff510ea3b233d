"""Places that a user names are looked at before anything is begun."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench.lib.named_paths import KINDS, is_cached, linked_entry, require_place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").touch()
    (tmp_path / "images").mkdir()
    return tmp_path


def refused(path: Path | str, kind: str) -> Error:
    with pytest.raises(Error) as problem:
        require_place(str(path), "option", kind)
    return problem.value


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("model.onnx", {"file", "file-or-folder", "file-to-write"}),
        ("images", {"folder", "file-or-folder", "folder-to-write", "folder-or-new"}),
        ("new", {"folder-to-write", "file-to-write", "folder-or-new"}),
        ("new/below", {"folder-to-write", "file-to-write", "folder-or-new"}),
        ("model.onnx/below", set()),
    ],
)
def test_what_a_place_can_be(folder: Path, name: str, kinds: set[str]) -> None:
    for kind in KINDS:
        if kind in kinds:
            require_place(str(folder / name), "option", kind)
        else:
            error = refused(folder / name, kind)
            assert error.code in ("file-not-found", "not-writable")
            assert "--option" in error.hint
            assert str(folder / name) in error.message


def test_a_near_name_is_told_and_how_far_a_path_leads(folder: Path) -> None:
    error = refused(folder / "modle.onnx", "file")
    assert error.message == f"there is no file {folder / 'modle.onnx'}"
    assert error.context == (f"did you mean {folder / 'model.onnx'}?",)
    error = refused(folder / "none" / "model.onnx", "file-or-folder")
    assert error.context == (f"there is no folder {folder / 'none'}",)


def test_a_link_that_leads_nowhere_is_told_as_that(folder: Path) -> None:
    (folder / "python3").symlink_to("/nowhere/python3")
    error = refused(folder / "python3", "file-or-folder")
    assert error.message == f"{folder / 'python3'} leads to /nowhere/python3, which is missing"
    assert error.context == ()


def test_a_program_is_near_where_its_bare_name_was_typed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    shell = shutil.which("sh")
    assert refused("sh", "file-or-folder").context == (f"did you mean {shell}?",)


def test_the_wrong_kind_is_told_as_that(folder: Path) -> None:
    error = refused(folder / "images", "file")
    assert error.message.endswith("images is a folder; --option needs a file")


@pytest.mark.parametrize("place", ["/proc/none", "/sys/none"])
def test_places_that_cannot_be(place: str) -> None:
    assert refused(place, "folder-to-write").code == "not-writable"


def test_what_may_not_be_read_is_no_place_either(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root, as which tests may run, may read all.
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.R_OK)
    assert refused(folder / "model.onnx", "file").code == "file-error"


def test_home_and_relative_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    require_place("~/model.onnx", "option", "file")
    monkeypatch.chdir(folder)
    require_place("images", "option", "folder")


def test_a_folder_that_is_there_is_read_and_one_that_is_not_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_place(str(folder / "new" / "models"), "option", "folder-or-new")
    assert refused(folder / "model.onnx" / "new", "folder-or-new").code == "not-writable"
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    require_place(str(folder / "images"), "option", "folder-or-new")
    assert refused(folder / "new", "folder-or-new").code == "not-writable"


# ---- links into a cache


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    path = tmp_path / "CM" / "cmbench" / "v1" / "store" / "get-data_1"
    (path / "val").mkdir(parents=True)
    (path / "val" / "one.jpg").touch()
    return path


def test_what_leads_into_a_cache_by_a_link_is_not_written(entry: Path, tmp_path: Path) -> None:
    user = tmp_path / "scratch"
    user.mkdir()
    (user / "images").symlink_to(entry / "val")
    (user / "second").symlink_to("images")
    (user / "file").symlink_to(entry / "val" / "one.jpg")
    (user / "gone").symlink_to(entry / "no" / "more")
    for name in ("images", "images/new", "second", "file", "gone"):
        for kind in ("folder-to-write", "file-to-write"):
            with pytest.raises(Error):
                require_place(str(user / name), "option", kind)
    problem = refused(user / "images" / "new", "folder-to-write")
    assert problem.code == "not-writable"
    assert str(entry) in problem.message
    assert "--option" in problem.hint
    require_place(str(user / "images"), "option", "folder")
    require_place(str(user / "own"), "option", "folder-to-write")


def test_a_folder_of_entries_that_is_a_link_itself_is_seen(tmp_path: Path) -> None:
    disk, home = tmp_path / "disk", tmp_path / "CM" / "cmbench" / "v1"
    (disk / "get-data_1").mkdir(parents=True)
    home.mkdir(parents=True)
    (home / "store").symlink_to(disk)
    (tmp_path / "images").symlink_to(home / "store" / "get-data_1")
    assert linked_entry(str(tmp_path / "images")) == str(home / "store" / "get-data_1")


def test_a_step_writes_into_its_own_entry(entry: Path, tmp_path: Path) -> None:
    require_place(str(entry / "val"), "option", "folder-to-write")
    assert is_cached(str(entry / "val"))
    assert linked_entry(str(entry / "val")) == ""
    assert not is_cached(str(tmp_path))


def test_links_in_a_circle_are_no_cache(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    assert not is_cached(str(tmp_path / "one"))
