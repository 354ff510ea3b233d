"""A driver that is too old for a wheel is named before the wheel is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cmbench.errors import Error
from cmbench.lib import cuda_packages, nvidia
from steps import Step

PACKAGE = {"torch": "torch", "onnxruntime": "onnxruntime-gpu"}


def step(folder: Path, package: str, bounds: str = "", **env: str) -> Step:
    known = {
        "CM_GENERIC_PYTHON_PACKAGE_NAME": package,
        "CM_TMP_PIP_VERSION_STRING": bounds,
        "CM_MLPERF_DEVICE": "cuda",
    }
    return Step("get-generic-python-lib", folder / "entry", {**known, **env})


@pytest.fixture(autouse=True)
def all_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every CUDA, so that only the driver can be too old."""
    names = [*(f"libcublasLt.so.{cuda}" for cuda in (11, 12, 13)), "libcudnn.so.8", "libcudnn.so.9"]
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.setattr(cuda_packages, "library_folders", lambda *_: [tmp_path])


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "read", lambda: nvidia.Driver(version="550.54.15", cuda="12.4"))


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("package", "bounds", "last"),
    [
        ("torch", "", "2.10.0"),
        ("torch", ">=2.9", "2.10.0"),
        ("torch", ">=2.12,<3", "2.10.0"),
        ("torch", "==2.13.0", "2.10.0"),
        ("onnxruntime-gpu", "", "1.26.0"),
        ("onnxruntime-gpu[cuda,cudnn]", ">=1.20", "1.26.0"),
    ],
)
def test_a_driver_that_is_too_old_is_named_with_what_fits(
    package: str, bounds: str, last: str, tmp_path: Path
) -> None:
    with pytest.raises(Error) as caught:
        step(tmp_path, package, bounds).call("refuse")
    assert caught.value.code == "no-driver"
    bare = package.partition("[")[0]
    assert caught.value.message == (
        f"{bare}{bounds} is built for CUDA 13, which needs driver 580.65.06 or newer; "
        "here is 550.54.15"
    )
    assert f"--version_max={last}, built for CUDA 12; or update the driver" in str(
        caught.value.hint
    )


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("package", "bounds", "env"),
    [
        ("torch", "<=2.10.0", {}),
        ("torch", "<2.11", {}),
        ("torch", "==2.8.0", {}),
        ("torch", "==2.13.0+cu126", {"CM_GENERIC_PYTHON_PIP_INDEX_URL": "https://index/cu126"}),
        ("torch", "", {"CM_GENERIC_PYTHON_PIP_EXTRA_FIND_LINKS_URL": "/wheels"}),
        ("torch", "", {"CM_MLPERF_DEVICE": "cpu"}),
        ("torch", "", {"CM_MLPERF_DEVICE": ""}),
        ("onnxruntime-gpu", "<=1.26.0", {}),
        ("onnxruntime", "", {}),
        ("numpy", "", {}),
    ],
)
def test_other_wheels_are_not_refused(
    package: str, bounds: str, env: dict[str, str], tmp_path: Path
) -> None:
    step(tmp_path, package, bounds, **env).call("refuse")


class ReadKeys(dict[str, Any]):
    """Variables of a step that know which of them were read."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.keys_read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_read.add(key)
        return super().get(key, default)


@pytest.mark.parametrize(("package", "is_read"), [("torch", True), ("scikit-learn", False)])
def test_a_package_that_is_built_for_no_device_is_the_same_entry_for_each(
    package: str, is_read: bool, tmp_path: Path
) -> None:
    """Else what was prepared for any run is made anew for one that names its device."""
    one = step(tmp_path, package, CM_MLPERF_DEVICE="cpu")
    one.env = ReadKeys(one.env)
    one.call("refuse")
    assert ("CM_MLPERF_DEVICE" in one.env.keys_read) == is_read


@pytest.mark.parametrize(
    "driver", [nvidia.Driver(version="580.159.04"), nvidia.Driver(problem="there is none")]
)
def test_a_new_driver_and_none_are_not_refused(
    driver: nvidia.Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "read", lambda: driver)
    for package in ("torch", "onnxruntime-gpu"):
        step(tmp_path, package).call("refuse")


def test_a_very_old_driver_may_have_a_build_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "read", lambda: nvidia.Driver(version="470.57.02"))
    with pytest.raises(Error) as caught:
        step(tmp_path, "torch", "<=2.10.0").call("refuse")
    assert "is built for CUDA 12, which needs driver 525.60.13" in caught.value.message
    assert "--version_max=2.0.1, built for CUDA 11" in str(caught.value.hint)
    monkeypatch.setattr(nvidia, "read", lambda: nvidia.Driver(version="390.48"))
    with pytest.raises(Error) as caught:
        step(tmp_path, "torch").call("refuse")
    assert str(caught.value.hint).startswith("update the driver")
