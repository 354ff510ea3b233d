"""Installed packages for a GPU that cannot compute on it are named before a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cmbench.errors import Error
from cmbench.lib import cuda_packages, nvidia, pythons
from cmbench.lib.elf import needed_libraries
from cuda_lab import needing

NEW, OLD = nvidia.Driver(version="580.159.04"), nvidia.Driver(version="550.54.15")
OF_13 = ("libcublasLt.so.13", "libcudart.so.13", "libcudnn.so.9", "libc.so.6")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages of a Python, with the provider for CUDA 13 of ONNX Runtime, and no other CUDA."""
    monkeypatch.setattr(cuda_packages, "toolkit_folders", lambda _environ: [])
    monkeypatch.setattr(cuda_packages, "os_facts", lambda: type("F", (), {"library_folders": ()}))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    needing(tmp_path / cuda_packages.PROVIDER, OF_13)
    return tmp_path


def put(site: Path, *libraries: str) -> None:
    for name in libraries:
        folder = site / "nvidia" / name.partition(".")[0] / "lib"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def installed(
    monkeypatch: pytest.MonkeyPatch, site: Path, name: str, version: str
) -> pythons.InstalledVersion:
    package = pythons.InstalledVersion(name, version, str(site))
    monkeypatch.setattr(pythons, "packages", lambda _python: {pythons.normal_name(name): package})
    return package


def refusal(name: str, driver: nvidia.Driver = NEW) -> Error:
    with pytest.raises(Error) as caught:
        cuda_packages.refuse("python3", ["onnx", name], driver)
    return caught.value


def test_the_libraries_that_a_file_needs_are_read_from_it(tmp_path: Path) -> None:
    assert needed_libraries(str(needing(tmp_path / "lib.so", OF_13))) == OF_13
    (tmp_path / "text").write_text("no library")
    for path in (tmp_path / "text", tmp_path / "none", tmp_path):
        assert needed_libraries(str(path)) == ()


@pytest.mark.parametrize(
    ("present", "missing", "hint"),
    [
        ((), "libcublasLt.so.13, libcudart.so.13, libcudnn.so.9", "install CUDA 13 and cuDNN; "),
        (
            ("libcublasLt.so.12", "libcudart.so.12", "libcudnn.so.9"),
            "libcublasLt.so.13, libcudart.so.13",
            "--adr.onnxruntime-gpu.version_max=1.26.0, built for CUDA 12, which is here; ",
        ),
        (
            ("libcublasLt.so.13", "libcudart.so.13", "libcudnn.so.8"),
            "libcudnn.so.9",
            "install cuDNN, as nvidia-cudnn-cu13 into the same Python",
        ),
    ],
)
def test_a_runtime_for_another_cuda_is_named_with_the_one_that_fits(
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    present: Sequence[str],
    missing: str,
    hint: str,
) -> None:
    installed(monkeypatch, site, "onnxruntime-gpu", "1.30.0")
    put(site, *present)
    error = refusal("onnxruntime-gpu")
    assert error.code == "not-detected"
    assert f"was built for CUDA 13, and needs {missing}, in no folder" in error.message
    assert str(error.hint).startswith(hint)


def test_what_fits_is_not_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, site, "onnxruntime_gpu", "1.30.0")
    put(site, *OF_13)
    cuda_packages.refuse("python3", ["onnxruntime-gpu", "torch"], NEW)
    assert refusal("onnxruntime-gpu", OLD).code == "no-driver"


@pytest.mark.parametrize(
    ("line", "driver", "code"),
    [
        ("cuda: Optional[str] = None", NEW, "not-available"),
        ("cuda: Optional[str] = '13.0'", OLD, "no-driver"),
        ("cuda = '13.0'", NEW, ""),
        ("cuda = '12.6'", OLD, ""),
        ("cuda = '13.0'", nvidia.Driver(problem="there is none"), ""),
        ("", OLD, ""),
    ],
)
def test_a_pytorch_says_its_own_cuda(
    site: Path, monkeypatch: pytest.MonkeyPatch, line: str, driver: nvidia.Driver, code: str
) -> None:
    (site / "torch").mkdir()
    (site / "torch/version.py").write_text(f"from typing import Optional\n{line}\nhip = None\n")
    installed(monkeypatch, site, "torch", "2.14.1")
    if code:
        assert refusal("torch", driver).code == code
    else:
        cuda_packages.refuse("python3", ["torch"], driver)


def test_a_wheel_is_refused_before_it_is_fetched(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pythons, "packages", lambda _python: {})
    monkeypatch.setattr(cuda_packages, "library_folders", lambda *_: [site])
    (site / "libcublasLt.so.12").touch()
    (site / "libcudnn.so.9").touch()
    with pytest.raises(Error, match="of the index was built for CUDA 13, and needs libcublasLt"):
        cuda_packages.refuse_wheel("onnxruntime-gpu", "", "", NEW)
    cuda_packages.refuse_wheel("onnxruntime-gpu", "<=1.26.0", "", NEW)
    cuda_packages.refuse_wheel("torch", "", "", NEW)
    cuda_packages.refuse_wheel("onnxruntime-gpu", "", "", nvidia.Driver(problem="there is none"))
