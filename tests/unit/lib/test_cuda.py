"""Toolkits and runtimes of CUDA: which is taken, what is said of the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cmbench.lib.cuda import find_runtime, find_toolkit, toolkit_folders
from cmbench.lib.pythons import Bounds
from cuda_lab import library, nvcc
from steps import tool

ANY = Bounds()


def test_the_root_is_where_nvcc_says_and_not_where_it_lies(tmp_path: Path) -> None:
    root = tmp_path / "site/nvidia/cu13"
    (root / "include").mkdir(parents=True)
    (root / "include/cuda_runtime_api.h").touch()
    (root / "lib").mkdir()
    (root / "lib/libcudart.so.13").touch()
    wrapper = nvcc(tmp_path / "bin/nvcc", "13.0.88", root / "bin/..")
    found = find_toolkit([str(wrapper.parent)], ANY).chosen
    assert found is not None
    assert (found.root, found.release, found.build) == (str(root), "13.0", "13.0.88")
    assert (found.include, found.library) == (f"{root}/include", f"{root}/lib")


def test_a_toolkit_is_named_by_its_folder_its_bin_or_its_nvcc(tmp_path: Path) -> None:
    path = nvcc(tmp_path / "cuda/bin/nvcc", "12.4.131")
    for place in (path, path.parent, path.parent.parent):
        assert find_toolkit([str(place)], ANY).chosen
    assert find_toolkit([str(tmp_path)], ANY).lines == ()


@pytest.mark.parametrize("asked", ["12.4", "12.4.1", "12.4.131", "12"])
def test_users_name_a_release_an_update_or_the_number_of_nvcc(asked: str, tmp_path: Path) -> None:
    path = nvcc(tmp_path / "bin/nvcc", "12.4.131", tmp_path)
    told = json.dumps({"cuda": {"version": "12.4.1"}})
    (tmp_path / "version.json").write_text(told)
    assert find_toolkit([str(path)], Bounds(exact=asked)).chosen
    assert find_toolkit([str(path)], Bounds(exact="12.5")).chosen is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"cuda": {"version": "9.0"}}', "\0"])
def test_a_version_file_that_says_nothing_is_passed_over(text: str, tmp_path: Path) -> None:
    path = nvcc(tmp_path / "bin/nvcc", "12.4.131", tmp_path)
    (tmp_path / "version.json").write_text(text)
    assert find_toolkit([str(path)], ANY).chosen.version == "12.4"  # type: ignore[union-attr]


def test_each_candidate_has_its_line(tmp_path: Path) -> None:
    tool(tmp_path / "a/nvcc", "echo no compiler")
    tool(tmp_path / "b/nvcc", "exit 3")
    nvcc(tmp_path / "c/nvcc", "13.0.88", tmp_path)
    nvcc(tmp_path / "d/nvcc", "12.0.1", tmp_path)
    found = find_toolkit([str(tmp_path / name) for name in "abcd"], Bounds(minimum="12"))
    assert [line.removeprefix(f"{tmp_path}/") for line in found.lines] == [
        "a/nvcc: printed no version",
        "b/nvcc: does not run: exit status 3",
        f"c/nvcc: 13.0 in {tmp_path}, chosen",
        f"d/nvcc: 12.0 in {tmp_path}, an earlier one fits",
    ]


def test_usual_folders_come_newest_first_behind_what_the_environment_names(tmp_path: Path) -> None:
    for name in ("cuda-9.2", "cuda-12.4", "cuda-11.8", "cuda"):
        (tmp_path / "usr/local" / name).mkdir(parents=True)
    found = toolkit_folders({"CUDA_HOME": "/opt/mine", "CUDA_PATH": "relative"}, tmp_path)
    assert found[0] == "/opt/mine"
    assert [Path(path).name for path in found[1:]] == ["cuda", "cuda-12.4", "cuda-11.8", "cuda-9.2"]


def test_a_runtime_alone_tells_its_version_itself(tmp_path: Path) -> None:
    body = "*v = 12040; return 0;"
    library(tmp_path / "lib64/libcudart.so.12", {"int cudaRuntimeGetVersion(int *v)": body})
    (tmp_path / "old").mkdir()
    (tmp_path / "old/libcudart.so").write_text("no library")
    found = find_runtime([str(tmp_path / "old"), str(tmp_path)], ANY)
    assert found.chosen is not None
    assert (found.chosen.version, found.chosen.library) == ("12.4", str(tmp_path / "lib64"))
    assert "cannot be loaded" in found.lines[0]
