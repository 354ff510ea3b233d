"""get-tensorrt: the archive of the guide, installed ones, wheels, and the placeholder."""

from __future__ import annotations

from pathlib import Path

import pytest

import cuda_lab
from cmbench.lib import causes
from common.python_path import VARIABLE
from lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.of_checkout(tmp_path)


CUDA = {"CM_CUDA_VERSION": "11.8"}


def test_the_archive_of_the_guide_is_plugged_in_by_the_environment(
    lab: Lab, tmp_path: Path
) -> None:
    path = cuda_lab.tensorrt_archive(tmp_path)
    got = lab.run("get,tensorrt", tar_file=str(path), env=CUDA, quiet=True)
    env = got.env
    assert env["CM_TENSORRT_VERSION"] == "8.5.1.7"
    root = Path(env["CM_TENSORRT_INSTALL_PATH"])
    assert root.is_relative_to(lab.home)
    assert env["CM_TENSORRT_LIB_PATH"] == f"{root}/lib"
    assert env["+PATH"][0] == f"{root}/bin", "trtexec"
    assert env["+C_INCLUDE_PATH"] == [f"{root}/include"]
    log = Path(got.record["log"]).read_text() if "log" in got.record else got.out
    assert "cp38" in log, "this Python's module is not among them, and that is said"
    again = lab.run("get,tensorrt", env=CUDA, quiet=True)
    assert again.status["get-tensorrt"] == "cached", "the plain command finds it again"
    assert again.env["CM_TENSORRT_INSTALL_PATH"] == str(root)


def test_the_module_of_this_python_comes_along(lab: Lab, tmp_path: Path) -> None:
    import sys
    import zipfile

    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheel = tmp_path / "wheel.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("tensorrt/__init__.py", "__version__ = '8.5.1.7'")
    top = "TensorRT-8.5.1.7"
    parts = {"Major": 8, "Minor": 5, "Patch": 1, "Build": 7}
    built = cuda_lab.library(
        tmp_path / "libnvinfer.so",
        {f"int getInferLib{part}Version(void)": f"return {n};" for part, n in parts.items()},
    )
    files = {
        f"{top}/include/NvInferVersion.h": cuda_lab.PLAIN_HEADER,
        f"{top}/lib/libnvinfer.so.8": built,
        f"{top}/python/tensorrt-8.5.1.7-{tag}-none-linux_x86_64.whl": wheel,
    }
    path = cuda_lab.archive(tmp_path / cuda_lab.TENSORRT_ARCHIVE, files)
    adr = {"python": {"path": sys.executable}}
    got = lab.run("get,tensorrt", input=str(path), env=CUDA, adr=adr, quiet=True).env
    (folder,) = got[f"+{VARIABLE}"]
    assert (Path(folder) / "tensorrt/__init__.py").exists()


def test_bad_archives_are_one_error_each(lab: Lab, tmp_path: Path) -> None:
    path = cuda_lab.tensorrt_archive(tmp_path)
    other = lab.run("get,tensorrt", tar_file=str(path), env={"CM_CUDA_VERSION": "13.0"}, quiet=True)
    assert other.answer["code"] == "not-available"
    path.write_bytes(path.read_bytes()[:-300])
    cut = lab.run("get,tensorrt", tar_file=str(path), env=CUDA, quiet=True)
    assert cut.answer["code"] == "archive-corrupt"
    gone = lab.run("get,tensorrt", tar_file=str(tmp_path / "none.tar.gz"), env=CUDA, quiet=True)
    assert gone.answer["code"] == "file-not-found"
    assert not list(lab.home.rglob("libnvinfer*"))


def test_what_to_do_without_any(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    none = lab.run("get,tensorrt", input=str(tmp_path / "empty"), quiet=True)
    assert none.answer["code"] == "not-detected"
    said = " ".join(none.err.split())
    for way in ("--tar_file=", "--input=", "_lean", "_rtx", "placeholder"):
        assert way in said


def test_dev_wants_headers(lab: Lab, tmp_path: Path) -> None:
    cuda_lab.library(
        tmp_path / "lib/libnvinfer.so.8", {"int getInferLibVersion(void)": "return 8501;"}
    )
    flags = {"input": str(tmp_path), "quiet": True}
    assert lab.run("get,tensorrt", **flags).env["CM_TENSORRT_VERSION"] == "8.5.1"
    refused = lab.run("get,tensorrt,_dev", **flags)
    assert refused.answer["code"] == "not-detected"
    assert "without its headers" in refused.err


def test_the_placeholder_of_the_index_names_the_ways_out() -> None:
    said = (
        "wheel_stub.error.InstallFailedError: The installation of tensorrt-cu13-libs for version "
        "11.4.0.106 failed. This is a special placeholder package"
    )
    cause = causes.find_cause(said)
    assert cause is not None
    assert cause.name == "vendor-placeholder"
    for way in ("--tar_file", "_lean", "_rtx", "--extra_index_url"):
        assert way in cause.remedy


@pytest.mark.slow
@pytest.mark.needs_index
def test_the_real_wheels_and_the_real_placeholder(lab: Lab) -> None:
    assert lab.run("install,python-venv", name="trt", quiet=True).answer["return"] == 0
    flags = {"adr": {"python": {"name": "trt"}}, "quiet": True}
    # Those of _rtx, which are ten times as large, are had by the test that builds engines.
    got = lab.run("get,tensorrt,_lean", **flags)
    assert got.answer["return"] == 0, got.err
    assert got.env["CM_TENSORRT_VERSION"].count(".") == 3, "told without a GPU"
    assert Path(got.env["CM_TENSORRT_LIB_WITH_PATH"]).is_relative_to(lab.home)
    refused = lab.run("get,tensorrt,_pip", **flags)
    assert refused.answer["code"] == "pip-failed"
    said = " ".join(refused.err.split())
    for way in ("--tar_file=PATH", "_lean", "_rtx"):
        assert way in said
