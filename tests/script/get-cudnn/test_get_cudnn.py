"""get-cudnn: the archive of the guide, an installed one, and none at all."""

from __future__ import annotations

from pathlib import Path

import pytest

import cuda_lab
from lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.of_checkout(tmp_path)


@pytest.fixture
def cuda(tmp_path: Path) -> dict[str, dict[str, str]]:
    """Updates of dependencies that name a toolkit 11.8."""
    path = cuda_lab.nvcc(tmp_path / "cuda/bin/nvcc", "11.8.89", tmp_path / "cuda")
    return {"cuda": {"path": str(path.parent.parent)}}


def test_the_archive_of_the_guide_is_plugged_in_by_the_environment(
    lab: Lab, cuda: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    path = cuda_lab.cudnn_archive(tmp_path)
    got = lab.run("get,cudnn", tar_file=str(path), adr=cuda, quiet=True).env
    assert got["CM_CUDNN_VERSION"] == "8.7.0"
    assert got["CM_CUDA_PATH_LIB_CUDNN_EXISTS"] == "yes"
    folder = Path(got["CM_CUDA_PATH_LIB_CUDNN"])
    assert folder.is_relative_to(lab.home)
    assert got["+LD_LIBRARY_PATH"] == [str(folder)]
    assert got["+C_INCLUDE_PATH"] == [got["CM_CUDA_PATH_INCLUDE_CUDNN"]]
    assert not list((tmp_path / "cuda").rglob("*cudnn*")), "nothing is put into CUDA's folders"
    again = lab.run("get,cudnn", tar_file=str(path), adr=cuda, quiet=True)
    assert again.status["get-cudnn"] == "cached"


def test_it_comes_with_cuda_and_may_be_named_as_the_input(
    lab: Lab, cuda: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    path = cuda_lab.cudnn_archive(tmp_path)
    got = lab.run(
        "get,cuda,_cudnn", path=cuda["cuda"]["path"], cudnn_tar_file=str(path), quiet=True
    ).env
    assert got["CM_CUDNN_VERSION"] == "8.7.0"
    assert got["CM_CUDA_VERSION"] == "11.8"
    assert lab.run("get,cudnn", input=str(path), adr=cuda, quiet=True).answer["return"] == 0


def test_an_archive_for_another_cuda_is_not_unpacked(lab: Lab, tmp_path: Path) -> None:
    path = cuda_lab.cudnn_archive(tmp_path)
    other = cuda_lab.nvcc(tmp_path / "cuda/bin/nvcc", "12.4.131", tmp_path / "cuda")
    adr = {"cuda": {"path": str(other.parent)}}
    refused = lab.run("get,cudnn", tar_file=str(path), adr=adr, quiet=True)
    assert refused.answer["code"] == "not-available"
    assert "--adr.cuda.path=FOLDER" in " ".join(refused.err.split())
    assert not list(lab.home.rglob("cudnn*.h"))


def test_an_archive_of_any_name_for_another_cuda_is_told_as_one(
    lab: Lab, cuda: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    path = cuda_lab.cudnn_archive(tmp_path, cudart=13000).rename(tmp_path / "mine.tar.xz")
    refused = lab.run("get,cudnn", tar_file=str(path), adr=cuda, quiet=True)
    assert refused.answer["code"] == "not-available"
    said = " ".join(refused.err.split())
    assert "mine.tar.xz: it is for CUDA 13, but CUDA 11.8 is used" in said
    assert "--adr.cuda.path=FOLDER" in said
    assert "--tar_file=" not in said, "an archive was given"


def test_an_archive_whose_library_does_not_load_is_known_by_its_headers(
    lab: Lab, cuda: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    path = cuda_lab.cudnn_archive(tmp_path, loads=False)
    got = lab.run("get,cudnn", tar_file=str(path), adr=cuda)
    assert got.env["CM_CUDNN_VERSION"] == "8.7.0"
    assert "cannot be loaded here yet: its headers tell the version" in got.out


@pytest.mark.parametrize("content", [b"", b"/* GNU ld script */", b"\x7fELF\x02"])
def test_an_archive_whose_library_is_none_is_refused(
    lab: Lab, cuda: dict[str, dict[str, str]], tmp_path: Path, content: bytes
) -> None:
    top = cuda_lab.CUDNN_ARCHIVE.removesuffix(".tar.xz")
    files = {
        f"{top}/include/cudnn_version.h": cuda_lab.CUDNN_HEADER,
        f"{top}/lib/libcudnn.so.8": content,
    }
    path = cuda_lab.archive(tmp_path / cuda_lab.CUDNN_ARCHIVE, files)
    refused = lab.run("get,cudnn", tar_file=str(path), adr=cuda, quiet=True)
    assert refused.answer["code"] == "bad-value"
    assert "holds no libcudnn.so" in refused.err


def test_what_cuda_was_given_with_cudnn_is_found_by_the_same_command_without_it(
    lab: Lab, cuda: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    archive = str(cuda_lab.cudnn_archive(tmp_path))
    tags, place = "get,cuda,_cudnn", cuda["cuda"]["path"]
    assert lab.run(tags, path=place, cudnn_tar_file=archive, quiet=True).env
    got = lab.run(tags, quiet=True)
    assert got.env["CM_CUDNN_VERSION"] == "8.7.0"
    assert got.status["get-cuda,_cudnn"] == "cached"


def test_an_installed_one_and_what_to_do_without_any(
    lab: Lab, cuda: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    none = lab.run("get,cudnn", input=str(tmp_path / "cuda"), adr=cuda, quiet=True)
    assert none.answer["code"] == "not-detected"
    said = " ".join(none.err.split())
    assert "--tar_file=" in said
    assert "--tags=get,cudnn,_pip" in said
    cuda_lab.cudnn(tmp_path / "there/lib/libcudnn.so.8")
    got = lab.run("get,cudnn", input=str(tmp_path / "there"), adr=cuda, quiet=True).env
    assert got["CM_CUDNN_VERSION"] == "8.7.0"


def test_an_archive_that_was_given_once_is_found_by_the_plain_command(
    lab: Lab, tmp_path: Path
) -> None:
    toolkit = cuda_lab.nvcc(tmp_path / "cuda/bin/nvcc", "11.8.89", tmp_path / "cuda")
    assert lab.run("get,cuda", path=str(toolkit.parent.parent), quiet=True).env
    path = cuda_lab.cudnn_archive(tmp_path)
    first = lab.run("get,cudnn", tar_file=str(path), quiet=True).env
    again = lab.run("get,cudnn", quiet=True)
    assert again.status["get-cudnn"] == "cached"
    assert again.env["CM_CUDA_PATH_LIB_CUDNN"] == first["CM_CUDA_PATH_LIB_CUDNN"]
