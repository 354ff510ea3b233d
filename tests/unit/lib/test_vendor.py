"""cuDNN and TensorRT: libraries asked, archives compared before anything is unpacked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import cuda_lab
from cmbench.errors import Error
from cmbench.lib.archives import first_member
from cmbench.lib.libraries import ask_library, defines, header_version
from cmbench.lib.pythons import Bounds
from cmbench.lib.vendor import (
    CUDNN,
    LEAN,
    TENSORRT,
    LibraryArchive,
    LibrarySpec,
    find_library,
    open_archive,
    unpack,
    version_of,
)

ANY = Bounds()


# ---- headers and libraries


def test_both_forms_of_tensorrts_header() -> None:
    assert header_version(cuda_lab.PLAIN_HEADER, *TENSORRT.macros) == "8.5.1.7"
    assert header_version(cuda_lab.INDIRECT_HEADER, *TENSORRT.macros) == "10.13.3.9"
    assert header_version(cuda_lab.CUDNN_HEADER, *CUDNN.macros) == "8.7.0"
    assert header_version("#define NV_TENSORRT_MAJOR 8", *TENSORRT.macros) == ""


def test_macros_that_name_each_other_in_a_circle_end() -> None:
    assert set(defines("#define A B\n#define B A\n# define C 3")) == {"A", "B", "C"}


@pytest.mark.parametrize(
    ("number", "version"),
    [(8700, "8.7.0"), (8501, "8.5.1"), (92800, "9.28.0"), (101303, "10.13.3"), (110400, "11.4.0")],
)
def test_one_number_holds_a_version_in_two_ways(number: int, version: str) -> None:
    assert version_of(number) == version


def test_a_library_that_crashes_or_writes_harms_nobody(tmp_path: Path) -> None:
    told = {"int getInferLibVersion(void)": "return 8501;"}
    start = "__attribute__((constructor)) static void start(void)"
    noisy = cuda_lab.library(
        tmp_path / "noisy.so",
        {
            "#include <stdio.h>\n" + start: 'puts("@{}");',
            **told,
        },
    )
    assert ask_library(str(noisy), {"getInferLibVersion": "int", "other": "int"})[0] == {
        "getInferLibVersion": 8501
    }
    fatal = "#include <stdlib.h>\n" + start
    crashing = cuda_lab.library(tmp_path / "crash.so", {fatal: "abort();", **told})
    found, problem = ask_library(str(crashing), {"getInferLibVersion": "int"})
    assert found == {}
    assert "signal 6" in problem


def test_an_installed_cudnn_is_found_with_its_headers(tmp_path: Path) -> None:
    cuda_lab.cudnn(tmp_path / "lib64/libcudnn.so.8")
    (tmp_path / "include").mkdir()
    (tmp_path / "include/cudnn_version.h").write_text(cuda_lab.CUDNN_HEADER)
    found = find_library(CUDNN, [str(tmp_path)], ANY, "11.8").chosen
    assert found is not None
    assert (found.version, found.cuda) == ("8.7.0", "11")
    assert (found.folder, found.include) == (str(tmp_path / "lib64"), str(tmp_path / "include"))


def test_why_others_are_not_taken(tmp_path: Path) -> None:
    cuda_lab.cudnn(tmp_path / "a/libcudnn.so.8", cudart=12000)
    cuda_lab.cudnn(tmp_path / "b/lib/libcudnn.so", version=8600)
    (tmp_path / "b/include").mkdir()
    (tmp_path / "b/include/cudnn_version.h").write_text(cuda_lab.CUDNN_HEADER)
    (tmp_path / "c").mkdir()
    (tmp_path / "c/libcudnn.so").write_bytes(b"\x7fELF")
    cuda_lab.cudnn(tmp_path / "d/libcudnn.so.8", version=8100)
    cuda_lab.cudnn(tmp_path / "e/libcudnn.so.8")
    found = find_library(
        CUDNN, [str(tmp_path / name) for name in "abcde"], Bounds(minimum="8.5"), "11.8"
    )
    assert found.chosen is not None
    assert found.chosen.folder == str(tmp_path / "e")
    reasons = [line.split(": ", 1)[1] for line in found.lines]
    assert reasons[0] == "8.7.0, it is for CUDA 12, but CUDA 11.8 is used"
    assert "another version: 8.6.0" in reasons[1]
    assert "cannot be loaded" in reasons[2]
    assert reasons[3] == "8.1.0, 8.1.0 is below the minimum 8.5"
    assert reasons[4] == "8.7.0, chosen"


def test_the_lean_runtime_is_another_library(tmp_path: Path) -> None:
    cuda_lab.library(
        tmp_path / "libnvinfer_lean.so.11", {"int getInferLibVersion(void)": "return 110400;"}
    )
    assert find_library(TENSORRT, [str(tmp_path)], ANY).chosen is None
    assert find_library(LEAN, [str(tmp_path)], ANY).chosen.version == "11.4.0"  # type: ignore[union-attr]


# ---- archives


def opened(
    kind: LibrarySpec, path: Path, cuda: str = "11.8", machine: str = "x86_64"
) -> LibraryArchive:
    return open_archive(kind, path, ANY, cuda, machine)


def test_the_two_archives_of_the_guide(tmp_path: Path) -> None:
    cudnn = opened(CUDNN, cuda_lab.cudnn_archive(tmp_path))
    assert (cudnn.version, cudnn.cuda) == ("8.7.0.84", "11")
    root = unpack(cudnn, tmp_path / "out")
    assert root == tmp_path / "out" / cuda_lab.CUDNN_ARCHIVE.removesuffix(".tar.xz")
    assert find_library(CUDNN, [str(root)], ANY, "11.8").chosen.version == "8.7.0"  # type: ignore[union-attr]
    tensorrt = opened(TENSORRT, cuda_lab.tensorrt_archive(tmp_path))
    assert (tensorrt.version, tensorrt.cuda) == ("8.5.1.7", "11.8")
    assert (unpack(tensorrt, tmp_path / "trt") / "lib/libnvinfer.so.8").exists()


def test_an_archive_under_a_name_of_the_users_own(tmp_path: Path) -> None:
    path = cuda_lab.cudnn_archive(tmp_path).rename(tmp_path / "mine.tar.xz")
    found = opened(CUDNN, path, cuda="13.0")
    assert (found.version, found.cuda) == ("8.7.0", "")


@pytest.mark.parametrize(
    ("cuda", "machine", "says"),
    [
        ("13.0", "x86_64", "it is for CUDA 11, but CUDA 13.0 is used"),
        ("11.8", "aarch64", "it is for x86_64, but this is aarch64"),
    ],
)
def test_an_archive_for_something_else_is_not_opened(
    cuda: str, machine: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / cuda_lab.CUDNN_ARCHIVE
    path.write_text("it is not even read")
    with pytest.raises(Error, match=says) as caught:
        opened(CUDNN, path, cuda, machine)
    assert caught.value.code == "not-available"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TENSORRT, "TensorRT-8.5.1.7.l4t.aarch64-gnu.cuda-11.8.tar.gz"),
        (TENSORRT, "trt.tar.gz"),
        (CUDNN, "mine.tar.xz"),
    ],
)
def test_the_library_decides_for_which_processor_an_archive_is(
    kind: LibrarySpec, name: str, tmp_path: Path
) -> None:
    make = cuda_lab.tensorrt_archive if kind is TENSORRT else cuda_lab.cudnn_archive
    path = make(tmp_path, foreign=True).rename(tmp_path / name)
    machine = os.uname().machine
    with pytest.raises(Error, match=f"it is for s390x, but this is {machine}") as caught:
        unpack(opened(kind, path, machine=machine), tmp_path / "out")
    assert caught.value.code == "not-available"
    assert "for this processor" in caught.value.hint


def test_an_installed_library_for_another_processor_is_told(tmp_path: Path) -> None:
    cuda_lab.for_another_processor(cuda_lab.cudnn(tmp_path / "libcudnn.so.8"))
    found = find_library(CUDNN, [str(tmp_path)], ANY)
    assert found.chosen is None
    assert "it is for s390x, but this is" in found.lines[0]


def test_a_name_that_does_not_fit_the_headers_or_the_bounds(tmp_path: Path) -> None:
    wrong = cuda_lab.tensorrt_archive(tmp_path, header=cuda_lab.INDIRECT_HEADER)
    with pytest.raises(Error, match=r"its headers are of TensorRT 10\.13\.3\.9"):
        opened(TENSORRT, wrong)
    right = cuda_lab.cudnn_archive(tmp_path)
    with pytest.raises(Error, match=r"8\.7\.0\.84 is below the minimum 9"):
        open_archive(CUDNN, right, Bounds(minimum="9"), "11.8", "x86_64")


def test_what_is_no_archive_of_it(tmp_path: Path) -> None:
    with pytest.raises(Error, match="there is no") as caught:
        opened(CUDNN, tmp_path / "none.tar.xz")
    assert caught.value.code == "file-not-found"
    with pytest.raises(Error, match="holds no TensorRT"):
        opened(TENSORRT, cuda_lab.cudnn_archive(tmp_path))
    page = tmp_path / "cudnn.tar.xz"
    page.write_text("<html>Please log in</html>")
    with pytest.raises(Error) as caught:
        opened(CUDNN, page)
    assert caught.value.code == "archive-unknown"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_truncated_archive_is_one_error_and_leaves_nothing(share: float, tmp_path: Path) -> None:
    path = cuda_lab.cudnn_archive(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(Error) as caught:
        unpack(opened(CUDNN, path), tmp_path / "out")
    assert caught.value.code == "archive-corrupt"
    assert not (tmp_path / "out").exists()


def test_the_first_member_is_read_and_nothing_behind_it(tmp_path: Path) -> None:
    path = cuda_lab.archive(tmp_path / "a.tar.gz", {"x/one": "1", "x/two": "22", "y/two": "3"})
    assert first_member(path, r"two$") == ("x/two", b"22")
    assert first_member(path, r"two$", limit=1) == ("x/two", b"2")
    assert first_member(path, r"three$") is None
